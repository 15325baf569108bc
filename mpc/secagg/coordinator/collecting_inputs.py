"""The coordinator's third stage: masked vectors, added up as they arrive."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from mpc.errors import OutOfRangeError, ShapeError
from mpc.secagg.config import RoundConfig
from mpc.secagg.coordinator.collection import Collection
from mpc.secagg.messages import MaskedInput, SurvivorList
from mpc.secagg.stage import Stage


class CollectingInputs(Collection[MaskedInput]):
    """Collects masked vectors. Memory holds one sum for any number of members; only a hash of each vector is kept.

    Args:
        config: configuration of the round.
        sharers: who has shared keys.
    """

    def __init__(self, config: RoundConfig, sharers: Sequence[int]) -> None:
        super().__init__(config, Stage.MASK, sharers)
        self.total = config.group.zeros(config.n_elements)

    def receive(self, masked: MaskedInput) -> None:
        """Add one member's masked vector to the sum.

        Raises:
            PeerViolationError: not packed elements of the group, as many as the round sums.
        """
        remembered = replace(masked, elements=hashlib.sha256(masked.elements).digest())
        if not self.is_new(remembered):
            return
        group = self.config.group
        try:
            elements = group.unpack(masked.elements, self.config.n_elements)
        except (ShapeError, OutOfRangeError) as error:
            raise self.violation(masked.member, f"sent an invalid masked vector: {error}") from error
        group.accumulate(self.total, elements)
        self.answers[masked.member] = remembered

    def survivor_list(self) -> SurvivorList:
        """Close the stage and return what goes to all survivors.

        Raises:
            TooFewMembersError: too few answered.
        """
        return SurvivorList(self.config.round_id, self.close(self.config.topology.fewest_survivors))
