"""What all stages of the coordinator have in common: one answer per member, repeated at will, never changed."""

from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

from mpc.errors import PeerViolationError
from mpc.secagg.config import RoundConfig
from mpc.secagg.errors import ContradictoryMessageError, InvalidSetError, TooFewMembersError, WrongRoundError
from mpc.secagg.stage import Stage
from mpc.transcript import RoundId

MOST_NAMES = 10
"""So many missing members a reason names."""


class FromMember(Protocol):
    """A message from a member."""

    @property
    def round_id(self) -> RoundId:
        """The round that it belongs to."""

    @property
    def member(self) -> int:
        """Who sent it. The transport has checked that it came from that member."""


M = TypeVar("M", bound=FromMember)


class Collection(Generic[M]):
    """The answers of one stage.

    Args:
        config: of the round.
        stage: which.
        expected: who may answer.
    """

    def __init__(self, config: RoundConfig, stage: Stage, expected: Iterable[int]) -> None:
        self.config = config
        self.stage = stage
        self.expected = frozenset(expected)
        self.answers: dict[int, M] = {}

    def is_new(self, message: M) -> bool:
        """Say whether a message has to be taken in; False for a repetition.

        Raises:
            WrongRoundError: it is of another round.
            InvalidSetError: its member is not expected to answer.
            ContradictoryMessageError: its member has answered otherwise.
        """
        if message.round_id != self.config.round_id:
            what = f"a message of {message.round_id} came in {self.config.round_id}"
            raise WrongRoundError(message.member, self.stage, what)
        if message.member not in self.expected:
            what = f"member {message.member} does not take part in the stage {self.stage!s}"
            raise InvalidSetError(message.member, self.stage, what)
        if (earlier := self.answers.get(message.member)) is None:
            return True
        if earlier != message:
            raise ContradictoryMessageError(
                message.member,
                self.stage,
                f"{self.config.name_of(message.member)} sent a second, different answer at the stage {self.stage!s}",
            )
        return False

    def violation(self, member: int, what: str) -> PeerViolationError:
        """Return an error that accuses a member of this stage."""
        return PeerViolationError(member, self.stage, f"{self.config.name_of(member)} {what}")

    def close(self, fewest: int) -> tuple[int, ...]:
        """Return who has answered, ascending.

        Raises:
            TooFewMembersError: fewer than `fewest`.
        """
        if len(self.answers) < fewest:
            names = [self.config.name_of(m) for m in sorted(self.expected - set(self.answers))]
            missing = ", ".join(names[:MOST_NAMES])
            if len(names) > MOST_NAMES:
                missing += f" and {len(names) - MOST_NAMES} others"
            raise TooFewMembersError(
                f"{len(self.answers)} members answered at the stage {self.stage!s}, {fewest} must; missing: {missing}"
            )
        return tuple(sorted(self.answers))
