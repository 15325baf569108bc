"""State of a member that has sent its masked vector, until it receives the survivors; it signs exactly one set."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from mpc.protocol.session import COORDINATOR
from mpc.secagg.errors import DeclaredDeadError, TooFewMembersError
from mpc.secagg.graph import Neighbourhood
from mpc.secagg.member.awaiting_signatures import AwaitingSignatures
from mpc.secagg.member.context import MemberContext
from mpc.secagg.member.held_shares import HeldShares
from mpc.secagg.messages import SurvivorList, SurvivorSignature, survivor_digest
from mpc.secagg.stage import Stage


@dataclass(frozen=True)
class AwaitingSurvivors:
    """The state after the third answer. The keys of the masks have been deleted; only the others' shares are left.

    Attributes:
        context: context of the round.
        graph: who is whose neighbour.
        transcript: hash of what the members agreed on.
        sharers: who has shared.
        held: owner to the shares that I hold for it.
    """

    context: MemberContext
    graph: Neighbourhood
    transcript: bytes
    sharers: tuple[int, ...]
    held: Mapping[int, HeldShares] = field(repr=False)

    def receive(self, survivors: SurvivorList) -> tuple[SurvivorSignature, AwaitingSignatures]:
        """Sign the set of survivors.

        Raises:
            InvalidSetError: not a subset of those that have shared.
            DeclaredDeadError: we are not in it, though we have answered.
            TooFewMembersError: too few, in all or among my holders.
        """
        context, config = self.context, self.context.config
        context.check_round(survivors.round_id, Stage.AGREE)
        context.check_set(survivors.survivors, self.sharers, Stage.AGREE, "survivors")
        if context.me not in survivors.survivors:
            raise DeclaredDeadError(
                COORDINATOR,
                Stage.AGREE,
                "the coordinator counts us as dropped out, although it accepted our masked input",
            )
        n_holders = len(self.graph.holders(context.me) & set(survivors.survivors))
        if n_holders < config.topology.n_required:
            raise TooFewMembersError(
                f"only {n_holders} holders of our shares have survived, but {config.topology.n_required} are needed"
            )
        set_digest = survivor_digest(self.transcript, self.sharers, survivors.survivors)
        unsigned = SurvivorSignature(context.round_id, context.me, set_digest, b"")
        signature = SurvivorSignature(
            context.round_id, context.me, set_digest, context.identity.sign(unsigned.signed_bytes())
        )
        state = AwaitingSignatures(context, self.sharers, survivors.survivors, set_digest, self.held)
        return signature, state
