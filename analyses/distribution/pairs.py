"""Two numbers at once: the cells of a grid over their ranges, how many there are, and which of them a rectangle meets.

A respondent has one input, the number of its cell, and answers once, by an oracle of frequencies. How many cells there
are by default follows [YangWLC20]. With n responses, g cells along each number and V / n the variance of a
cell's frequency, the share of a rectangle of half of either range errs

    by the response noise of its g^2 / 4 cells, with the variance  g^2 V / (4 n);
    by people who are not spread evenly in the 2 g cells that its border cuts, which hold about 2 / g of all, by a part
    alpha of these, with the square  (2 alpha / g)^2.

Their sum is least at g^4 = 16 alpha^2 n / V. V is 4 e^epsilon / (e^epsilon - 1)^2, that of hashes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from analyses.rows.grid import Grid
from dp.local_mechanism.odds import Odds

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

Rectangle = tuple[float, float, float, float]
"""Lower and upper end of the first number, and of the second one: of either the lower end is in it, the upper not."""

LEAST_PARTS, MOST_PARTS = 2, 32
"""Parts of each range by default: so many that there is something to tell apart, so few that 1,024 cells suffice."""

UNEVEN = Fraction(8, 100)
"""Alpha of the module's text. [YangWLC20] takes .03; here least squares and norm-sub leave less noise than the formula
says, and with .08 ages, education and wages err by least or nearly so (`bench.distribution.pairs`)."""


def usual_parts(odds: Odds, n_responses: int) -> int:
    """Return into how many parts each range is divided by default: g, rounded, between the least and the most.

    In integers, so that all participants come to the same.

    Args:
        odds: A and B of one response.
        n_responses: how many are expected, at least 1.
    """
    inverse_variance = Fraction((odds.favoured - odds.other) ** 2, 4 * odds.favoured * odds.other)
    of_twice_g = 16 * 16 * UNEVEN**2 * n_responses * inverse_variance
    return min(MOST_PARTS, max(LEAST_PARTS, (isqrt(isqrt(int(of_twice_g))) + 1) // 2))


@dataclass(frozen=True)
class Covered:
    """How much of each cell a rectangle covers, each of shape (cells,).

    Attributes:
        evenly: the part of its area.
        wholly: 1 where all of it is covered, else 0.
        at_all: 1 where any of it is covered, else 0.
    """

    evenly: Floats
    wholly: Floats
    at_all: Floats

    @property
    def cuts(self) -> bool:
        """Whether some cell is covered in part."""
        return bool((self.wholly != self.at_all).any())


@dataclass(frozen=True)
class PairGrid:
    """The cells: parts of the range of one number times those of another's. Public.

    Cell i k + j is part i of the first range and part j of the second, which has k parts.

    Attributes:
        sides: the two ranges in parts.
    """

    sides: tuple[Grid, Grid]

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of parts."""
        first, second = self.sides
        return first.n_parts, second.n_parts

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        first, second = self.shape
        return first * second

    def places(self, values: Floats) -> tuple[Integers, Integers]:
        """Return the cell of each pair, shape (n,), and how many values of either number lay outside. Private.

        Args:
            values: shape (n, 2), finite; those outside a range count as its nearer end.
        """
        (first, n_first), (second, n_second) = (
            side.places(column) for side, column in zip(self.sides, values.T, strict=True)
        )
        return first * self.sides[1].n_parts + second, np.array([n_first, n_second])

    def covered(self, rectangle: Rectangle) -> Covered:
        """Return how much of each cell a rectangle covers."""
        first, second = (
            _covered(side, ends) for side, ends in zip(self.sides, (rectangle[:2], rectangle[2:]), strict=True)
        )
        return Covered(*(np.outer(*pair).ravel() for pair in zip(first, second, strict=True)))


_ROUNDING = 1e-9
"""An end so near to an edge, in parts of the range, is at the edge."""


def _covered(side: Grid, ends: Sequence[float]) -> tuple[Floats, Floats, Floats]:
    """Return of each part of a range how much is between two ends, whether all of it is, and whether any is."""
    places = (np.array(ends) - side.lower) * (side.n_parts / (side.upper - side.lower))
    places = np.where(np.abs(places - np.rint(places)) < _ROUNDING * side.n_parts, np.rint(places), places)
    starts = np.arange(side.n_parts)
    part = np.clip(np.minimum(places[1], starts + 1) - np.maximum(places[0], starts), 0.0, 1.0)
    return part, (part == 1).astype(np.float64), (part > 0).astype(np.float64)
