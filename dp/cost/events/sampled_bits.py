"""Reports of randomized bits about a secret sample of slots."""

from fractions import Fraction

import attr
import numpy as np
from numpy.typing import NDArray

from dp.cost.accounting import Adjacency, AdjacencyError, Floats
from dp.cost.events.event import PrivacyEvent
from dp.cost.losses.distribution import Losses
from dp.cost.losses.pairs import SLACK, PairLosses
from dp.cost.losses.sampled_bits import outcomes, sampled_bits_rdp


@attr.frozen
class SampledBitsDpEvent(PrivacyEvent):
    """Reports of randomized bits about a secret sample of slots of public size: see `dp.cost.losses.sampled_bits`.

    Attributes:
        truthful: probability that a bit is reported as it is, 1/2 .. 1, both excluded.
        n_bits: bits of a slot that a unit in it sets, 1 .. `dp.cost.losses.sampled_bits.MAX_BITS`.
        share: fraction of the slots in the sample, 0 < share <= 1.
        adjacency: add_or_remove_one.
    """

    word = "sampled bits"

    truthful: Fraction
    n_bits: int
    share: Fraction
    adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE

    def __attrs_post_init__(self) -> None:
        if self.adjacency is not Adjacency.ADD_OR_REMOVE_ONE:
            raise AdjacencyError("amplification by a secret sample of slots is proven for add_or_remove_one only")

    def curve(self, orders: NDArray[np.int64]) -> Floats:
        """See `dp.cost.losses.sampled_bits`."""
        return sampled_bits_rdp(self.truthful, self.n_bits, self.share, orders)

    def losses(self) -> tuple[PairLosses, ...]:
        """Neighbours differ in who else's slot it might be (`dp.cost.losses.sampled_bits`): one pair for each kind."""
        found = []
        for log_base, log_absent, log_present in outcomes(self.truthful, self.n_bits, self.share):
            size = np.abs(log_base).max() + np.abs(log_absent).max() + np.abs(log_present).max() + 10
            enters, leaves = (
                Losses(np.exp(log_base + log_p) * (1 + size * SLACK), log_p - log_q + size * SLACK)
                for log_p, log_q in ((log_present, log_absent), (log_absent, log_present))
            )
            found.append(PairLosses(enters, leaves))
        return tuple(found)
