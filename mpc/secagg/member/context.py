"""The data that a member holds throughout a round, and the checks that several of its states make."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from entropy import Entropy
from mpc.protocol.session import COORDINATOR
from mpc.secagg.config import RoundConfig
from mpc.secagg.errors import ForgedSignatureError, InvalidSetError, TooFewMembersError, WrongRoundError
from mpc.secagg.journal import MemberJournal
from mpc.secagg.secret.keys import IdentityKey, is_signed_by
from mpc.secagg.stage import Stage
from mpc.transcript import RoundId


@dataclass(frozen=True)
class MemberContext:
    """The data that do not change during a round.

    Attributes:
        config: configuration of the round, accepted by the member's policy.
        me: my number.
        identity: my key.
        journal: my lasting memory.
        input_digest: digest of my public input.
        entropy: where my randomness comes from.
    """

    config: RoundConfig
    me: int
    identity: IdentityKey
    journal: MemberJournal
    input_digest: bytes
    entropy: Entropy

    @property
    def round_id(self) -> RoundId:
        """The round."""
        return self.config.round_id

    def check_round(self, round_id: RoundId, stage: Stage) -> None:
        """Refuse a message of another round."""
        if round_id != self.round_id:
            raise WrongRoundError(
                COORDINATOR,
                stage,
                f"the coordinator sent a message of {round_id} in {self.round_id}; it may be a replay",
            )

    def check_set(self, members: Sequence[int], allowed: Collection[int], stage: Stage, what: str) -> None:
        """Refuse a set of members that is not ascending, not within `allowed`, or smaller than the fewest survivors."""
        self.check_order(members, allowed, stage, what)
        fewest = self.config.topology.fewest_survivors
        if len(members) < fewest:
            raise TooFewMembersError(f"only {len(members)} {what} are left, but this round needs {fewest}")

    def check_order(self, members: Sequence[int], allowed: Collection[int], stage: Stage, what: str) -> None:
        """Refuse members that are not ascending, or not within `allowed`."""
        if list(members) != sorted(set(members)) or not set(members) <= set(allowed):
            raise InvalidSetError(
                COORDINATOR,
                stage,
                f"the {what} are out of order or repeated, or some did not take part in the stage before",
            )

    def check_signature(self, member: int, signature: bytes, message: bytes, stage: Stage) -> None:
        """Refuse what is not signed by the identity that the roster pins."""
        if not is_signed_by(self.config.roster[member - 1].identity_public, signature, message):
            name = self.config.name_of(member)
            raise ForgedSignatureError(
                member,
                stage,
                f"a message in the name of {name} was not signed with the key of {name}: it was forged or altered",
            )
