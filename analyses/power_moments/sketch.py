"""The second moment of a sum of columns from noisy sketches, one per party, of random signs that owners agree on.

With S a matrix of s rows of independent random signs, ||S x||^2 / s has mean ||x||^2, and S (x_1 + ... + x_v) is the
sum of the parties' sketches S x_j [AMS99]. Each party adds noise to its own and releases it [VertPrim23, appendix E.3].
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from analyses.job.forecast import NORMAL_95
from dp.cost.events.discrete_gaussian import DiscreteGaussianDpEvent
from dp.cost.group import GaussianEvent, for_rows
from dp.cost.views import ADJACENCY, RECORD, Protected, View
from dp.draw.noise import sample_discrete_gaussian
from entropy import Entropy, KeyStream

Integers = NDArray[np.int64]

_BLOCK_ROWS = 2048


@dataclass(frozen=True)
class MomentSketch:
    """Parameters of the release. Public.

    The source takes Gaussians, refuses matrices with a long column, and calibrates to a bound of the columns' lengths.
    The length of a column of s signs is sqrt(s), whatever is drawn, and a sketch of integers is integers.

    Attributes:
        n_rows: s, a multiple of 8.
        largest: X_j, the largest value of each party.
        quotient: c; a party's discrete Gaussian noise has the variance c X_j.
        protected: whose contribution neighbouring tables differ in.
    """

    n_rows: int
    largest: tuple[int, ...]
    quotient: int
    protected: Protected = RECORD

    @property
    def variances(self) -> tuple[int, ...]:
        """Variance of the noise of each party."""
        return tuple(self.quotient * most for most in self.largest)

    def events(self, view: View) -> tuple[GaussianEvent]:
        """Return what the parties' sketches cost together.

        A record moves party j's sketch by a column of signs times at most X_j, of squared length s X_j^2; divided by
        the variance c X_j, and added up, s X / c, X = sum X_j. This holds in both views: where row i is gone, later
        rows get other columns of signs, but the coordinator does not know the signs, and they are as likely as those in
        which column i is moved to the end.

        A person with k rows moves party j's sketch by k columns of signs, each times at most X_j, of length at most
        k sqrt(s) X_j, which parallel columns attain.
        """
        of_one_row = DiscreteGaussianDpEvent(Fraction(self.n_rows * sum(self.largest), self.quotient), ADJACENCY[view])
        return (for_rows(of_one_row, self.protected.most_rows),)

    def sketch(self, signs: KeyStream, values: Integers) -> Integers:
        """Return S x, shape (s,), exactly.

        Args:
            signs: S, column after column; the same stream at all owners.
            values: x, shape (rows,); the sum of their sizes is below 2^53.
        """
        total = np.zeros(self.n_rows)
        n_bytes = self.n_rows // 8
        for start in range(0, len(values), _BLOCK_ROWS):
            block = values[start : start + _BLOCK_ROWS].astype(np.float64)
            drawn = np.frombuffer(signs.read(len(block) * n_bytes), dtype=np.uint8).reshape(len(block), n_bytes)
            total += 2 * (block @ np.unpackbits(drawn, axis=1)) - block.sum()
        return total.astype(np.int64)

    def draw(self, entropy: Entropy, party: int) -> Integers:
        """Draw the noise of a party (0 .. v - 1), shape (s,)."""
        return sample_discrete_gaussian(entropy, self.variances[party], self.n_rows)

    def estimate(self, noisy_sketch: Integers) -> tuple[float, float]:
        """Return the second moment and its standard error from the sum of all parties' noisy sketches.

        The mean square has mean ||x||^2 plus the sum V of the variances, which is subtracted: unbiased. The entries are
        independent and alike, so their spread tells the error, of sketch and noise together. That of the noise alone is
        known: squares of normal numbers of variance ||x||^2 + V have a deviation of sqrt(2) times it, which less what
        the sketch has of its own, sqrt(2) ||x||^2 at most, is there whatever the rows are. A spread of few entries is
        stretched like Student's, so that 1.96 errors hold the moment about as often as they should.
        """
        from scipy.special import stdtrit  # slow to import, and only this method needs it

        squares, of_noise = noisy_sketch.astype(np.float64) ** 2, float(sum(self.variances))
        moment = float(squares.mean()) - of_noise
        least = (2 * ((max(moment, 0.0) + of_noise) ** 2 - max(moment, 0.0) ** 2)) ** 0.5
        stretch = float(stdtrit(self.n_rows - 1, 0.975)) / NORMAL_95
        return moment, stretch * max(float(squares.std(ddof=1)), least) / self.n_rows**0.5
