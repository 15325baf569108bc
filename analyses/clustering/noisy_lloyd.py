"""Private k-means of one block of columns by noisy Lloyd iterations: DPLloyd [VertClust23, 3.5], in exact integers."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyses.clustering.partition_tree import grouped_sums
from analyses.clustering.weighted_clustering import Choices, cluster, nearest
from dp.mechanism.release import StepwiseNoise, StepwiseRelease

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

ITERATIONS = 5

SUM_FRACTION = Fraction(1, 2)
"""Share of an iteration's cost (the sum of squares) that is spent on the sums; the counts get the rest. With more than
half, replacing a row would cost more than twice what adding one costs."""

_CANDIDATES_PER_CENTRE = 64


@dataclass(frozen=True)
class NoisyLloyd(StepwiseRelease):
    """The releases of a fixed number of iterations, on integer rows of 0..width in each of m columns.

    Sensitivity of one iteration. A row is nearest to one centre. Adding or removing it moves that centre's count by 1
    and its sum of 2 x - width by a vector of squared norm at most B = m width^2. With noise of variance c on counts and
    s on sums, the squares sum d_i^2 / s_i are at most

        add or remove:  1 / c + B / s
        replace:        max(2 / c + 2 B / s, 4 B / s)

    where the first of the two is for rows at two centres, the second for rows at one, whose count stays. An iteration
    depends on the data through the centres released before it only, so squares add up over iterations.

    This proof requires that the nearest centre of a row depends only on the row and the centres. Centres are rounded to
    integers, so that distances are: every product and partial sum is an integer below 2^53, exact in floating point in
    whatever order a library adds up. With centres off the lattice it is not so: matrix products add up differently for
    rows at different places of a block, two centres that are equally near come out in either order, and then a row more
    or less moves others to another centre.

    Attributes:
        n_columns: m.
        width: largest value of each column, at least 1.
        count_variance, sum_variance: c, s of each iteration.
    """

    n_columns: int
    width: int
    count_variance: Fraction
    sum_variance: Fraction

    def __post_init__(self) -> None:
        if 4 * self.n_columns * self.width**2 >= 1 << 53:
            raise ValueError(
                f"{self.n_columns} columns of width {self.width} are too large for exact distances in float64"
            )

    @classmethod
    def of_cost(cls, n_columns: int, width: int, squares: Fraction) -> "NoisyLloyd":
        """Return the iterations whose squares for add_or_remove_one are together `squares`."""
        each = squares / ITERATIONS
        return cls(n_columns, width, 1 / ((1 - SUM_FRACTION) * each), n_columns * width**2 / (SUM_FRACTION * each))

    @property
    def sum_deviation(self) -> float:
        """Standard deviation of the noise of a sum of 2 x - width over the rows of a cluster, per column."""
        return math.sqrt(self.sum_variance)

    def squares(self, *, replace: bool) -> Fraction:
        """Return the bound of sum d_i^2 / s_i over all iterations."""
        count, total = 1 / self.count_variance, self.n_columns * self.width**2 / self.sum_variance
        return ITERATIONS * (max(2 * count + 2 * total, 4 * total) if replace else count + total)

    def centres(self, rows: Integers, k: int, noise: StepwiseNoise, choices: Choices) -> Floats:
        """Release k centres of some rows.

        Begins with centres spread over the domain without looking at the rows. A centre near which the noisy count
        finds no row stays where it is.

        Args:
            rows: shape (n, m), values 0..width. Private.
            k: how many.
            noise: fresh, of `draw`.
            choices: choices of the first centres, which protect nothing.

        Returns:
            shape (k, m), integers within 0..width, a function of noisy integers only.
        """
        anywhere = choices.random((_CANDIDATES_PER_CENTRE * k, self.n_columns)) * self.width
        centres = np.rint(cluster(anywhere, np.ones(len(anywhere)), k, 2, choices, restarts=1).centres)
        doubled = 2 * rows - self.width
        for _ in range(ITERATIONS):
            at, _ = nearest(rows.astype(np.float64), centres)
            counts = noise.added_to(np.bincount(at, minlength=k), self.count_variance)
            sums = noise.added_to(grouped_sums(doubled, at, k), self.sum_variance)
            centres = np.where((counts >= 1)[:, None], self.means(sums, counts[:, None]), centres)
        return centres

    def means(self, sums: NDArray[Any], counts: NDArray[Any]) -> Floats:
        """Return the lattice points nearest to the means, from noisy sums of 2 x - width and noisy counts."""
        found: Floats = np.clip(np.rint((sums / np.maximum(counts, 1) + self.width) / 2), 0, self.width)
        return found
