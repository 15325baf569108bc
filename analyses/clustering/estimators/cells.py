"""Cells of a grid with their weights: all cells of a small grid, a sample of those of a large one."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

GridWeights = NDArray[np.float64]
"""Shape (k',) * S, axis l is the membership at owner l, in the order of the joint table."""

Pair = tuple[int, int]
"""A pair of axes of the grid, the smaller one first."""


@dataclass(frozen=True)
class Cells:
    """Cells of a grid, each with the rows that it is estimated to hold.

    Attributes:
        places: memberships of each cell, shape (cells, S), values 0 .. k' - 1; a cell may stand there more than once.
        weights: rows of each, shape (cells,), not negative.
        n_local: k'.
    """

    places: NDArray[np.int64]
    weights: NDArray[np.float64]
    n_local: int

    @classmethod
    def of_grid(cls, weights: GridWeights) -> "Cells":
        """Return all cells of a grid, row-major; k' is the length of its first axis."""
        places = np.indices(weights.shape).reshape(weights.ndim, -1).T
        return cls(places, weights.reshape(-1), weights.shape[0])

    @property
    def total(self) -> float:
        """The sum of all weights."""
        return float(self.weights.sum())

    def sizes(self) -> Iterator[NDArray[np.float64]]:
        """Yield for each owner the rows of its local clusters, shape (k',)."""
        for places in self.places.T:
            yield _sums(places, self.weights, self.n_local)

    def pairs(self) -> dict[Pair, NDArray[np.float64]]:
        """Return for every two owners the rows of each pair of their local clusters, shape (k', k')."""
        n_local, places = self.n_local, self.places
        return {
            (one, other): _sums(places[:, one] * n_local + places[:, other], self.weights, n_local**2).reshape(
                -1, n_local
            )
            for one, other in combinations(range(places.shape[1]), 2)
        }


def _sums(at: NDArray[np.int64], weights: NDArray[np.float64], n_places: int) -> NDArray[np.float64]:
    return np.asarray(np.bincount(at, weights, minlength=n_places), dtype=np.float64)
