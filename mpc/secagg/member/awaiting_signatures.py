"""State of a member that has signed the survivors, until enough others have signed; then it releases shares, once."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from mpc.protocol.session import COORDINATOR
from mpc.secagg.errors import InvalidSetError, SplitSurvivorsError, TooFewSignaturesError
from mpc.secagg.journal import ShareKind
from mpc.secagg.member.context import MemberContext
from mpc.secagg.member.held_shares import HeldShares
from mpc.secagg.messages import SignedSurvivors, UnmaskingShares
from mpc.secagg.secret.surplus import n_opened_by
from mpc.secagg.stage import Stage


@dataclass(frozen=True)
class AwaitingSignatures:
    """The state after the fourth answer; the fifth is the last.

    Attributes:
        context: context of the round.
        sharers: who has shared.
        survivors: whom I have signed for.
        set_digest: what I have signed.
        held: owner to the shares that I hold for it.
    """

    context: MemberContext
    sharers: tuple[int, ...]
    survivors: tuple[int, ...]
    set_digest: bytes
    held: Mapping[int, HeldShares] = field(repr=False)

    def receive(self, signed: SignedSurvivors) -> UnmaskingShares:
        """Check that enough members have signed the same set; write down what is released; release it.

        It releases a share of the own-mask seed of each survivor and a share of the mask key of each dropout, never
        both. As each honest member signs one set and 2 * n_signatures > n + n_corrupt, no second set can be signed by
        enough.

        Raises:
            SplitSurvivorsError: a member has signed another set.
            ForgedSignatureError: a signature is not its member's.
            TooFewSignaturesError: fewer than `Topology.n_signatures` have signed.
            ShareKindError, RoundReusedError: the release contradicts the journal.
        """
        context = self.context
        self._check_signatures(signed)
        alive = set(self.survivors)
        kinds = {j: ShareKind.SELF_MASK_SEED if j in alive else ShareKind.MASK_KEY for j in sorted(self.held)}
        context.journal.record_release(context.round_id, kinds)
        n_opened = n_opened_by(context.config.surplus_levels, len(alive))
        return UnmaskingShares(
            context.round_id,
            context.me,
            seed_shares={j: self.held[j].seed for j in kinds if j in alive},
            key_shares={j: self.held[j].key for j in kinds if j not in alive},
            surplus_shares={j: self.held[j].surplus[n_opened - 1] for j in kinds if j in alive and n_opened},
        )

    def _check_signatures(self, signed: SignedSurvivors) -> None:
        context, config = self.context, self.context.config
        context.check_round(signed.round_id, Stage.UNMASK)
        members = [signature.member for signature in signed.signatures]
        if members != sorted(set(members)) or not set(members) <= set(self.survivors):
            raise InvalidSetError(
                COORDINATOR, Stage.UNMASK, "the signatures must be in order, with at most one per survivor"
            )
        for signature in signed.signatures:
            context.check_round(signature.round_id, Stage.UNMASK)
            context.check_signature(signature.member, signature.signature, signature.signed_bytes(), Stage.UNMASK)
            if signature.set_digest != self.set_digest:
                name = config.name_of(signature.member)
                raise SplitSurvivorsError(
                    signature.member,
                    Stage.UNMASK,
                    f"{name} has signed a set of survivors that differs from the one that we received",
                )
        n_signatures = config.topology.n_signatures
        if len(members) < n_signatures:
            raise TooFewSignaturesError(
                COORDINATOR,
                Stage.UNMASK,
                f"only {len(members)} members have signed the set of survivors, but {n_signatures} are needed",
            )
