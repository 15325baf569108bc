"""The sums of the parties' columns, each with noise of its own [VertPrim23, appendix C]."""

from dataclasses import dataclass
from fractions import Fraction
from math import exp, sqrt

import numpy as np
from numpy.typing import NDArray

from dp.cost.events.discrete_laplace import DiscreteLaplaceDpEvent
from dp.cost.group import for_rows
from dp.cost.views import ADJACENCY, RECORD, Protected, View
from dp.draw.noise import sample_discrete_laplace
from entropy import Entropy


@dataclass(frozen=True)
class NoisyColumnSums:
    """What is released: of each of v parties the sum of its column plus discrete Laplace noise. Public.

    Attributes:
        largest: X_j, the largest value of each party.
        scale: scale of each party's noise.
        protected: whose contribution neighbouring tables differ in.
    """

    largest: tuple[int, ...]
    scale: Fraction
    protected: Protected = RECORD

    @property
    def standard_deviation(self) -> float:
        """Standard deviation of the noise in the sum of all parties' sums."""
        r = exp(-1 / float(self.scale))
        return sqrt(2 * len(self.largest) * r) / (1 - r)

    def events(self, view: View) -> tuple[DiscreteLaplaceDpEvent]:
        """Return what the sums cost together.

        They are a vector, of which a record moves entry j by at most X_j, in all by X = sum X_j, in both views as no
        value is negative. A person with k rows moves it by k X (`dp.cost.group`), which equal rows attain.
        """
        of_one_row = DiscreteLaplaceDpEvent(sum(self.largest), self.scale, ADJACENCY[view])
        return (for_rows(of_one_row, self.protected.most_rows),)

    def draw(self, entropy: Entropy) -> NDArray[np.int64]:
        """Draw one party's noise, shape (1,)."""
        return sample_discrete_laplace(entropy, self.scale, 1)
