"""A question to masked sums while it is being asked: what the coordinator needs to know of it, round after round.

A sum has one round. A series of masked sums has several, each of which may start from what the rounds before it led to.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from analyses.job.job import JobError
from analyses.sums.secure_sum import SumParams, answer, round_config
from mpc.secagg.config import RoundConfig
from mpc.secagg.opened_sum import OpenedSum


class AskedRounds(ABC):
    """One question that is being asked.

    Attributes:
        analysis: its name.
        stage_s: deadline of each stage of a round, seconds.
        grace_s: once enough members have answered a stage, it is over when for so long nobody else has; None for a
            third of `stage_s`.
        attempts: attempts of each round, if too few members answer.
        n_rounds: at most so many.
        n_opened: number of rounds opened.
        ended_early_because: why the rounds ended before the last one; None where they did not.
    """

    analysis: str
    stage_s: float
    grace_s: float | None = None
    attempts: int
    n_rounds: int
    n_opened: int = 0
    ended_early_because: str | None = None

    @property
    def is_over(self) -> bool:
        """Whether no round follows."""
        return self.n_opened == self.n_rounds or self.ended_early_because is not None

    @abstractmethod
    def config(self, number: int, attempt: int) -> RoundConfig:
        """Return everything public about an attempt of a round, both counted from 0.

        Raises:
            JobError: there is no such attempt.
        """

    @abstractmethod
    def public_input(self, number: int) -> bytes:
        """Return what all members of a round start from, once the rounds before it were taken."""

    @abstractmethod
    def take(self, config: RoundConfig, opened: OpenedSum) -> bytes:
        """Take in what a round came to, noise in excess still in it; return what its members are told at its end."""

    @abstractmethod
    def end_early(self, reason: str) -> bytes:
        """Take note that too few answered a round after the first one, so that no round follows, and why.

        Returns:
            What its members are told at its end.
        """

    @abstractmethod
    def answer(self) -> dict[str, Any]:
        """Return the answer as JSON data, when the last round was taken."""


class AskedSum(AskedRounds):
    """A sum, mean or histogram: one round.

    Args:
        params: the question.
        session: a text that never repeats.
        identities: Ed25519 key of every member that the coordinator knows, by name.

    Raises:
        JobError: the question cannot be answered; the text names the field.
    """

    def __init__(self, params: SumParams, session: str, identities: Mapping[str, bytes]) -> None:
        self._params, self._session, self._identities = params, session, identities
        self._opened: tuple[OpenedSum, RoundConfig] | None = None
        self.analysis, self.stage_s, self.attempts, self.n_rounds = params.analysis, params.stage_s, params.attempts, 1
        self.grace_s = params.grace_s
        self.config(0, 0)

    def config(self, number: int, attempt: int) -> RoundConfig:
        """See `AskedRounds`."""
        if number != 0:
            raise JobError("a sum has one round")
        return round_config(self._params, self._session, self._identities, attempt)

    def public_input(self, number: int) -> bytes:
        """See `AskedRounds`: the question."""
        return self._params.canonical_json().encode()

    def take(self, config: RoundConfig, opened: OpenedSum) -> bytes:
        """See `AskedRounds`: members are told nothing."""
        self._opened, self.n_opened = (opened, config), 1
        return b""

    def end_early(self, reason: str) -> bytes:
        """See `AskedRounds`; a sum has no round after the first one."""
        raise AssertionError("a sum has one round")

    def answer(self) -> dict[str, Any]:
        """See `secure_sum.answer`."""
        assert self._opened is not None
        return answer(self._params, *self._opened)
