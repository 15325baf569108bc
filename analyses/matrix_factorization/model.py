"""What is broadcast between rounds: offsets and item vectors as integers on a public lattice."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mpc.errors import PeerViolationError

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

MAX_VALUE = 1 << 10
"""Largest absolute value of an offset or of an entry of a vector, in units of ratings; far above what ratings need."""


@dataclass(frozen=True)
class FactorModel:
    """Public: a function of noisy sums and public constants.

    Attributes:
        offsets_q: shape (items,), b in lattice points.
        vectors_q: shape (items, p), V in lattice points.
        units: lattice points per 1.
    """

    offsets_q: Integers
    vectors_q: Integers
    units: int

    @classmethod
    def nearest(cls, offsets: Floats, vectors: Floats, units: int) -> "FactorModel":
        """Return the nearest point of the lattice; what is beyond the range is clipped to it."""
        most = MAX_VALUE * units

        def rounded(values: Floats) -> Integers:
            return np.clip(np.rint(values * units), -most, most).astype(np.int64)

        return cls(rounded(offsets), rounded(vectors), units)

    @property
    def offsets(self) -> Floats:
        """b, shape (items,)."""
        return self.offsets_q / float(self.units)

    @property
    def vectors(self) -> Floats:
        """V, shape (items, p)."""
        return np.asarray(self.vectors_q / float(self.units))

    @property
    def rank(self) -> int:
        """Length p of an item vector."""
        return int(self.vectors_q.shape[1])

    def check(self, n_items: int, rank: int, units: int, sender: int, stage: str) -> None:
        """Refuse a broadcast that the plan cannot have led to; what each member does before it uses one.

        Args:
            n_items: the plan's number of items.
            rank: the plan's rank.
            units: the plan's units.
            sender: who sent it.
            stage: when.

        Raises:
            PeerViolationError: shape, type, lattice or range differ from the plan's. Does not show the values.
        """
        fits = (
            self.units == units
            and self.offsets_q.dtype == self.vectors_q.dtype == np.int64
            and self.offsets_q.shape == (n_items,)
            and self.vectors_q.shape == (n_items, rank)
        )
        most = MAX_VALUE * units
        if not fits or any(
            v.size and max(int(v.max()), -int(v.min())) > most for v in (self.offsets_q, self.vectors_q)
        ):
            raise PeerViolationError(sender, stage, "broadcast offsets and vectors that are not on the plan's lattice")


@dataclass(frozen=True)
class Fitted:
    """A factorization: prediction = a_i + b_j + u_i v_j, less the centre.

    Attributes:
        users: (a, u), shape (users, 1 + p).
        items: (b, v), shape (items, 1 + p).
    """

    users: Floats
    items: Floats

    def predict(self, users: Integers, items: Integers) -> Floats:
        """Return predictions of pairs, shape (pairs,)."""
        u, v = self.users[users], self.items[items]
        return np.asarray(u[:, 0] + v[:, 0] + np.einsum("ij,ij->i", u[:, 1:], v[:, 1:]))
