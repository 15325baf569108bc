"""Sketches of cardinalities."""

import attr
import numpy as np
from numpy.typing import NDArray

from dp.cost.accounting import Adjacency, CalibrationError, Floats
from dp.cost.events.event import PrivacyEvent
from dp.cost.losses.distribution import Losses
from dp.cost.losses.pairs import PairLosses
from dp.cost.losses.sketch import SketchCell


@attr.frozen
class CardinalitySketchDpEvent(PrivacyEvent):
    """What all parties publish together in sketches of `dp.mechanism.cardinality`, for who does not know the hash keys.

    Attributes:
        n_sketches: M, with independent keys.
        n_parties: S, which hash with the same key.
        own_phantoms: own phantoms of each party in each of its clusters.
        shared_phantoms: phantoms that all parties hash alike in each joint cell; at least 1.
        floor: smallest value published, at least 1.
        adjacency: the neighbouring relation.
    """

    word = "cardinality sketch"

    n_sketches: int
    n_parties: int
    own_phantoms: int
    shared_phantoms: int
    floor: int
    adjacency: Adjacency

    def __attrs_post_init__(self) -> None:
        if min(self.n_sketches, self.n_parties, self.shared_phantoms, self.floor) < 1 or self.own_phantoms < 0:
            raise CalibrationError(
                "a sketch needs a floor of at least 1 and at least one phantom that all its parties share"
            )

    def curve(self, orders: NDArray[np.int64]) -> Floats:
        """Return the divergence of all sketches for the worst neighbours: see `dp.cost.losses.sketch`.

        A user who is added or removed: the larger of the two directions. A user who moves from cell A to cell B: the
        target is in one or the other. If the cells have no party's cluster in common, what is published about them is
        independent, so the divergence is that of a target that leaves A plus that of one that enters B. If party l has
        one cluster in both, it publishes the maximum over both: give half of its own phantoms to each cell, and what it
        publishes follows from the two halves. So the sum of both directions, with half of the own phantoms, bounds all
        cases: more phantoms are post-processing.
        """
        own = self.own_phantoms // (2 if self.adjacency is Adjacency.REPLACE_ONE else 1)
        cell = SketchCell(1.0, self.n_sketches, self.n_parties, own, self.shared_phantoms, self.floor)
        enters, leaves = cell.renyi(orders)
        if self.adjacency is Adjacency.REPLACE_ONE:
            return np.asarray((enters + leaves) * (1 + 2.0**-50), dtype=np.float64)
        return np.asarray(np.maximum(enters, leaves), dtype=np.float64)

    def losses(self) -> tuple[PairLosses, ...]:
        """Both directions of a sketch: `dp.cost.losses.sketch`; one after the other where the user moves."""
        moves = self.adjacency is Adjacency.REPLACE_ONE
        own = self.own_phantoms // (2 if moves else 1)
        cell = SketchCell(1.0, self.n_sketches, self.n_parties, own, self.shared_phantoms, self.floor)
        enters, leaves = cell.losses()
        if moves:
            both = _product(enters, leaves)
            return (PairLosses(both, both, self.n_sketches),)
        return (PairLosses(enters, leaves, self.n_sketches),)


def _product(one: Losses, other: Losses) -> Losses:
    masses = np.outer(one.masses, other.masses).ravel() * (1 + 2.0**-52)
    losses = np.add.outer(one.losses, other.losses).ravel()
    return Losses(masses, losses + np.abs(losses) * 2.0**-52, (one.lost + other.lost) * 2)
