"""The coordinator's fourth stage: signatures of the set of survivors."""

from collections.abc import Sequence

from mpc.secagg.config import RoundConfig
from mpc.secagg.coordinator.collection import Collection
from mpc.secagg.errors import ForgedSignatureError, SplitSurvivorsError
from mpc.secagg.messages import SignedSurvivors, SurvivorSignature
from mpc.secagg.secret.keys import is_signed_by
from mpc.secagg.stage import Stage


class CollectingSignatures(Collection[SurvivorSignature]):
    """Collects signatures.

    Args:
        config: configuration of the round.
        survivors: who may sign.
        set_digest: what they must have signed.
    """

    def __init__(self, config: RoundConfig, survivors: Sequence[int], set_digest: bytes) -> None:
        super().__init__(config, Stage.AGREE, survivors)
        self.set_digest = set_digest

    def receive(self, signature: SurvivorSignature) -> None:
        """Take in one signature.

        Raises:
            SplitSurvivorsError, ForgedSignatureError: members would abort on it.
        """
        if not self.is_new(signature):
            return
        member, name = signature.member, self.config.name_of(signature.member)
        if signature.set_digest != self.set_digest:
            raise SplitSurvivorsError(
                member, self.stage, f"{name} has signed a set of survivors that differs from the one that was sent"
            )
        identity = self.config.roster[member - 1].identity_public
        if not is_signed_by(identity, signature.signature, signature.signed_bytes()):
            raise ForgedSignatureError(
                member, self.stage, f"the signature in the name of {name} was not made with the key of {name}"
            )
        self.answers[member] = signature

    def signed_survivors(self) -> SignedSurvivors:
        """Close the stage and return what goes to all that have signed: as many signatures as a member asks for.

        More would prove nothing more, and all of them go to everybody, who checks each.

        Raises:
            TooFewMembersError: too few answered.
        """
        n_signatures = self.config.topology.n_signatures
        signers = self.close(n_signatures)[:n_signatures]
        return SignedSurvivors(self.config.round_id, tuple(self.answers[member] for member in signers))
