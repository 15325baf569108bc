"""The coordinator's second stage: sealed shares, sorted by receiver."""

from collections.abc import Iterable, Mapping

from mpc.secagg.config import RoundConfig
from mpc.secagg.coordinator.collection import Collection
from mpc.secagg.coordinator.made_when_asked import MadeWhenAsked
from mpc.secagg.errors import SplitMembersError, WrongNeighboursError
from mpc.secagg.graph import Neighbourhood
from mpc.secagg.messages import SEAL_BYTES, SealedShares, ShareDelivery, sealed_bytes
from mpc.secagg.stage import Stage


class CollectingShares(Collection[SealedShares]):
    """Collects sealed shares, which it cannot read.

    Args:
        config: configuration of the round.
        members: who takes part.
        transcript: the hash that members must have come to.
        graph: who is whose neighbour.
    """

    def __init__(self, config: RoundConfig, members: Iterable[int], transcript: bytes, graph: Neighbourhood) -> None:
        super().__init__(config, Stage.SHARE, members)
        self.transcript = transcript
        self.graph = graph

    def receive(self, shares: SealedShares) -> None:
        """Take in one member's sealed shares.

        Raises:
            SplitMembersError: the member has come to another transcript.
            WrongNeighboursError: it has sealed for others than its neighbours.
            PeerViolationError: a sealed message has a wrong length.
        """
        if not self.is_new(shares):
            return
        name = self.config.name_of(shares.member)
        if shares.transcript != self.transcript:
            raise SplitMembersError(
                shares.member,
                self.stage,
                f"{name} has received a list of members that differs from the one that was sent",
            )
        if set(shares.sealed) != self.graph.neighbours(shares.member) & self.expected:
            raise WrongNeighboursError(
                shares.member, self.stage, f"{name} sealed shares for members that are not its participating neighbours"
            )
        length = sealed_bytes(self.config)
        if any(len(sealed) != length for sealed in shares.sealed.values()):
            raise self.violation(shares.member, f"did not seal exactly {length - SEAL_BYTES} bytes of shares")
        self.answers[shares.member] = shares

    def deliveries(self) -> Mapping[int, ShareDelivery]:
        """Close the stage and return what goes to each member that has shared.

        Raises:
            TooFewMembersError: too few answered.
        """
        sharers = self.close(self.config.topology.fewest_survivors)
        present = frozenset(sharers)

        def delivery_of(member: int) -> ShareDelivery:
            senders = sorted(self.graph.neighbours(member) & present)
            return ShareDelivery(
                self.config.round_id,
                sharers,
                {j: self.answers[j].transcript for j in senders},
                {j: self.answers[j].sealed[member] for j in senders},
            )

        return MadeWhenAsked(sharers, delivery_of)
