"""A public range of numbers in parts of equal length, and in which part a number lies."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


MAX_EDGES = 1 << 20
"""Most parts whose edges are looked up; of more a number is scaled to theirs, and their length is 1 as a rule."""

MAX_END = 1e100
"""Largest size of an end of a range: powers that estimates take of numbers within it are finite."""


@dataclass(frozen=True)
class Grid:
    """Parts of equal length of a range. Public.

    Attributes:
        lower, upper: ends of the range.
        n_parts: at least 1.

    Raises:
        ValueError: there is no such range, or floating-point numbers cannot tell its parts apart; the text begins with
            the names under which jobs and questions state it.
    """

    lower: float
    upper: float
    n_parts: int

    def __post_init__(self) -> None:
        if not self.lower < self.upper or not np.isfinite(self.upper - self.lower):
            raise ValueError("range: the lower end must be below the upper one, and not too far from it")
        if max(abs(self.lower), abs(self.upper)) > MAX_END:
            raise ValueError(f"range: an end of it is at most {MAX_END:g} in size")
        apart = np.spacing(max(abs(self.lower), abs(self.upper))) <= (self.upper - self.lower) / self.n_parts
        if not (apart if self.n_parts > MAX_EDGES else np.all(np.diff(self.edges) > 0)):
            raise ValueError("range, buckets: the buckets are too narrow for floating-point numbers")

    @property
    def edges(self) -> NDArray[np.float64]:
        """Edges of the parts, shape (n_parts + 1,)."""
        return np.linspace(self.lower, self.upper, self.n_parts + 1)

    def places(self, values: NDArray[np.float64]) -> tuple[Integers, int]:
        """Return the part of each value, and how many lay outside the range and count as its nearer end. Private.

        Args:
            values: shape (n,), finite.
        """
        clipped = np.clip(values, self.lower, self.upper)
        if self.n_parts > MAX_EDGES:
            found = np.minimum((clipped - self.lower) * (self.n_parts / (self.upper - self.lower)), self.n_parts - 1)
        else:
            found = np.searchsorted(self.edges[1:-1], clipped, side="right")
        return found.astype(np.int64), int(np.count_nonzero(clipped != values))
