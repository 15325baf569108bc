"""The common part of all stages of the coordinator: one answer per member, which may be repeated but not changed."""

from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

from mpc.errors import PeerViolationError
from mpc.secagg.config import RoundConfig
from mpc.secagg.errors import ContradictoryMessageError, InvalidSetError, TooFewMembersError, WrongRoundError
from mpc.secagg.stage import Stage
from mpc.transcript import RoundId

MAX_NAMES_SHOWN = 10
"""Largest number of missing members that a reason names."""


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
        config: configuration of the round.
        stage: which.
        expected: who may answer.
    """

    def __init__(self, config: RoundConfig, stage: Stage, expected: Iterable[int]) -> None:
        self.config = config
        self.stage = stage
        self.expected = frozenset(expected)
        self.answers: dict[int, M] = {}

    @property
    def n_missing(self) -> int:
        """How many that may answer have not."""
        return len(self.expected) - len(self.answers)

    def has_quorum(self) -> bool:
        """Whether enough have answered for the round to go on, though others may still answer."""
        return len(self.answers) >= self.config.topology.fewest_survivors

    def is_new(self, message: M) -> bool:
        """Return whether a message must be processed; False for a repetition.

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
            missing = ", ".join(names[:MAX_NAMES_SHOWN])
            if len(names) > MAX_NAMES_SHOWN:
                missing += f" and {len(names) - MAX_NAMES_SHOWN} others"
            raise TooFewMembersError(
                f"only {len(self.answers)} members answered at stage {self.stage!s}, but {fewest} are needed; "
                f"missing: {missing}"
            )
        return tuple(sorted(self.answers))
