"""The release of a sketch G X: a shared random matrix times the joint table, with each party's own noise on its block.

Sketch-and-perturb [VertPrim23, appendix E], with its privacy repaired.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp.cost.calibrate import remembered
from dp.cost.events.discrete_gaussian import DiscreteGaussianDpEvent
from dp.cost.group import GaussianEvent, for_rows
from dp.cost.report import privacy_report
from dp.cost.views import ADJACENCY, RECORD, VIEWS, Protected, View, views_to_calibrate
from dp.draw.noise import MAX_SCALE, sample_discrete_gaussian
from dp.mechanism.skellam_parameters import least_noisy
from entropy import Entropy

VARIANCE_UNITS = 1 << 10
"""The noise variance is a multiple of the largest squared column norm of G; the multiple counts these parts of one."""


@dataclass(frozen=True)
class NoisySketch:
    """Releases, for each of v parties, Y_j = G X_j + N_j: integers, N_j discrete Gaussian of the same variance for all.

    X_j (m rows) is party j's block of the joint table X; a row of it has squared norm at most B_j. The last party's
    block has besides a column that is `constant` in every row. G (s rows, M columns, m <= M, M public; the columns
    beyond m meet no row) is drawn before any noise, without looking at data, its columns independent and alike; the
    data parties know it and the coordinator does not. C is the largest squared norm of its M columns. The variance is
    V = ceil(C multiplier / VARIANCE_UNITS): it follows the actual G, and the cost below does not depend on G.

    *Coalition* (knows G, and m; replace_one). Row i becomes y instead of x. Then G X_j changes by g_i (x_j - y_j)^T,
    g_i the i-th column of G, of squared Frobenius norm |g_i|^2 |x_j - y_j|^2 <= C r B_j, with r = 2 if no entry is
    negative (then <x_j, y_j> >= 0) and r = 4 otherwise. Both are attained: orthogonal rows, opposite rows. The constant
    does not change.

    *Coordinator* (does not know G; add_or_remove_one). Row i is removed and the later ones move up, so that they meet
    other columns of the same G: the sketch may change in every direction. But the coordinator sees a draw from the
    mixture over all G. Couple G with G', its i-th column moved to the end: as the columns are independent and alike, G'
    is distributed as G; and C is the same. Given G for X and G' for X', the two sketches differ by g_i x_j^T, of
    squared norm at most C (B_j + constant^2 where it belongs to the block). The Renyi divergence of two mixtures with
    equal weights is at most the largest of their components, so it is bounded as though G were known.

    *One record of the joint table* is in all v blocks, and the noise of the blocks is independent: the release costs
    the composition of v events with squares C (...) / V <= (...) VARIANCE_UNITS / multiplier. (The source accounts for
    one party's block only.) That the members of a coalition need no protection from themselves is not made use of.

    *A person* of whose rows at most k are not zero, in either view: k columns of G meet them, and G X_j changes by a
    sum of k such terms, g_i x_j^T or g_i (x_j - y_j)^T with another column each. By the triangle inequality its norm is
    at most k times that of one (`dp.cost.group`). For the coordinator the coupling is the same, with all columns moved
    to
    the end that meet rows of the person, also those that are zero: a permutation of columns that are independent and
    alike. k^2 is attained
    where these columns are as long as the longest, and parallel. For columns that are all but orthogonal, as most are,
    the square of the norm is k times that of one row; but the bound holds for every G, and a coalition knows G.

    Renyi bound of discrete Gaussian noise on integers: [CKS20].

    Attributes:
        sketch_rows: s.
        squared_norm_bounds: B_j, one per party with columns; positive integers.
        constant: value of the last party's constant column; 0 where there is none.
        is_signed: whether entries of X may be negative.
        n_parties, colluding: N and t of the job, for the report: each block's noise is its owner's alone.
        multiplier: 1 .. 2^100.
        protected: unit in whose contribution neighbouring tables differ.
    """

    sketch_rows: int
    squared_norm_bounds: tuple[int, ...]
    constant: int
    is_signed: bool
    n_parties: int
    colluding: int
    multiplier: int
    protected: Protected = RECORD

    def __post_init__(self) -> None:
        if self.sketch_rows < 1 or self.multiplier < 1 or self.constant < 0:
            raise ValueError(
                "a sketch needs at least one row and positive noise, and its constant must not be negative"
            )
        if not self.squared_norm_bounds or min(self.squared_norm_bounds) < 1:
            raise ValueError("a sketch needs at least one block, and each block needs a positive norm bound")

    @classmethod
    @remembered
    def calibrate(
        cls,
        *,
        sketch_rows: int,
        squared_norm_bounds: tuple[int, ...],
        constant: int,
        is_signed: bool,
        n_parties: int,
        colluding: int,
        epsilon: float,
        delta: float,
        view: View,
        protected: Protected = RECORD,
    ) -> "NoisySketch":
        """Return the mechanism with the least noise whose epsilon in `view` is at most `epsilon`.

        With `coalition` also in the coordinator's view, which is the worse one where the constant column, of which a
        removed row takes its entry away, is long beside the rows: `views_to_calibrate`.

        Raises:
            CalibrationError: epsilon or delta is out of range, or the noise would exceed the sampler's range.
        """

        def with_noise(multiplier: int) -> "NoisySketch":
            return NoisySketch(
                sketch_rows, squared_norm_bounds, constant, is_signed, n_parties, colluding, multiplier, protected
            )

        return least_noisy(with_noise, views_to_calibrate(view), epsilon=epsilon, delta=delta)

    def squared_sensitivities(self, view: View) -> tuple[int, ...]:
        """Return the bounds of |x_j|^2 or |x_j - y_j|^2 of one row, per block, for the neighbours of a view."""
        if view == "coordinator":
            *others, last = self.squared_norm_bounds
            return (*others, last + self.constant**2)
        return tuple((4 if self.is_signed else 2) * bound for bound in self.squared_norm_bounds)

    def events(self, view: View) -> tuple[GaussianEvent, ...]:
        """Return what all parties' blocks cost together, one event each, provided that all add such noise."""
        return tuple(
            for_rows(
                DiscreteGaussianDpEvent(Fraction(bound * VARIANCE_UNITS, self.multiplier), ADJACENCY[view]),
                self.protected.most_rows,
            )
            for bound in self.squared_sensitivities(view)
        )

    def variance(self, largest_squared_column: int) -> int:
        """Return V, the variance of every entry's noise, for a G whose longest column has this squared norm."""
        return -(-largest_squared_column * self.multiplier // VARIANCE_UNITS)

    def draw(self, entropy: Entropy, largest_squared_column: int, length: int) -> NDArray[np.int64]:
        """Draw the noise of one party's block.

        Args:
            entropy: the party's own.
            largest_squared_column: C, of the whole G, drawn before.
            length: s times the columns of the block.

        Returns:
            shape (length,). Secret until it is added.

        Raises:
            ValueError: the variance is beyond the sampler's range.
        """
        return sample_discrete_gaussian(entropy, self.variance(largest_squared_column), length)

    def is_drawable(self, largest_squared_column: int) -> bool:
        """Whether the noise for such a G is within the sampler's range."""
        return self.variance(largest_squared_column) <= MAX_SCALE**2

    def report(self, delta: float) -> dict[str, Any]:
        """Return the privacy cost of the release in each view, as plain JSON data. Public.

        Raises:
            CalibrationError: delta is out of range.
        """
        deviation = (self.multiplier / VARIANCE_UNITS) ** 0.5
        noise = f"each block's noise is its owner's, of {deviation:.4g} times the norm of the longest column of G"
        bounds = {view: sum(self.squared_sensitivities(view)) for view in VIEWS}
        return privacy_report(
            mechanism="sketch G X plus discrete Gaussian noise, each party's block by itself",
            sensitivity="times the squared norm of the longest column of G: "
            + " and ".join(f"{bounds[view]} ({ADJACENCY[view].value})" for view in VIEWS)
            + self.protected.times,
            n_parties=self.n_parties,
            colluding=self.colluding,
            delta=delta,
            events={view: self.events(view) for view in VIEWS},
            noise=dict.fromkeys(VIEWS, noise),
            parameters={
                "sketch_rows": self.sketch_rows,
                "squared_norm_bounds": list(self.squared_norm_bounds),
                "constant": self.constant,
                "multiplier": self.multiplier,
                "variance_units": VARIANCE_UNITS,
            },
            unit=self.protected.name,
        )
