"""Answers a question by masked sums: one round or a series of them; a round with too few answers is repeated.

Each round of a series starts from what those before it led to. Where too few answer in the last attempt of a round
after the first one, the rounds opened before it are the answer.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import structlog

from coordinator.sums.rounds import HostedRound, HostedRounds
from entropy import Entropy
from mpc.errors import ProtocolError, TooFewSharesError
from mpc.secagg.errors import TooFewMembersError
from questions.reading import SumQuestion, ask
from questions.rounds import AskedRounds
from service.codes.coded_text import code_of, coded
from service.identity import Identity
from transport.happenings import Retried, StageReport
from transport.refusal import in_words

SESSION_BYTES = 16

Tell = Callable[[StageReport | Retried], None]
"""Is told how each stage went, and of each new attempt."""

_log = structlog.get_logger(__name__)


class NotOpenedError(Exception):
    """A sum could not be opened; the text is public and has a code."""


class MaskedSums:
    """The masked sums of one coordinator.

    Args:
        identities: members that may be asked, identity in the certificate to Ed25519 key; no two of one name.
        entropy: the identifiers of rounds are drawn from it.

    Raises:
        ValueError: the entropy is reproducible: members must never meet an identifier again.
    """

    def __init__(self, identities: Mapping[Identity, bytes], entropy: Entropy) -> None:
        if not entropy.is_secure:
            raise ValueError("a service needs secure randomness")
        self._identities = {member.name: key for member, key in identities.items()}
        self._entropy = entropy
        self.rounds = HostedRounds(identities)

    @property
    def members(self) -> tuple[str, ...]:
        """Names of those that may be asked."""
        return tuple(self._identities)

    def begin(self, question: SumQuestion) -> AskedRounds:
        """Begin to ask a question; raises `JobError` where it cannot be answered."""
        return ask(question, self._entropy.read(SESSION_BYTES).hex(), self._identities)

    async def answer(self, asked: AskedRounds, tell: Tell) -> dict[str, Any]:
        """Run all rounds of a question, and return its answer as JSON data.

        Raises:
            NotOpenedError: there is none.
        """
        while not asked.is_over:
            number = asked.n_opened
            for attempt in range(asked.attempts):
                await self._attempt(asked, number, attempt, tell)
                if asked.is_over or asked.n_opened > number:
                    break
        return await asyncio.to_thread(asked.answer)

    async def _attempt(self, asked: AskedRounds, number: int, attempt: int, tell: Tell) -> None:
        """Run one round, and say whether to retry where its sum was not opened.

        Only a round with too few answers may be repeated. No share has left any member in that case, because shares are
        requested after the last stage that can fail in this way. A new attempt number makes members draw fresh keys and
        noise.
        """
        config = await asyncio.to_thread(asked.config, number, attempt)

        def may_retry() -> bool:
            return attempt + 1 < asked.attempts and not hosted.is_infeasible

        def give_up(error: ProtocolError) -> bytes:
            too_few = isinstance(error, TooFewSharesError) or (
                isinstance(error, TooFewMembersError) and not may_retry()
            )
            return asked.end_early(str(error)) if too_few and number > 0 else b""

        def report(ended: StageReport) -> None:
            tell(replace(ended, stage=ended.stage if asked.n_rounds == 1 else f"{ended.stage}, round {number}"))

        hosted = HostedRound(
            config,
            await asyncio.to_thread(asked.public_input, number),
            asked.stage_s,
            report,
            partial(asked.take, config),
            give_up,
            asked.grace_s,
        )
        log = _log.bind(round=str(config.round_id), analysis=asked.analysis)
        log.info("masked sum begins", n_members=config.n_members)
        try:
            opened = await self.rounds.run(hosted)
        except ProtocolError as error:
            log.warning("masked sum failed", reason=str(error))
            if isinstance(error, TooFewMembersError) and may_retry():
                tell(Retried(_with_refusals(error, hosted)))
            elif not asked.is_over:
                raise NotOpenedError(_with_refusals(error, hosted)) from error
        else:
            log.info("masked sum is open", n_survivors=len(opened.survivors))


def _with_refusals(error: ProtocolError, hosted: HostedRound) -> str:
    refused = in_words(hosted.refusals)
    text = f"{error}; of the members {refused}" if refused else str(error)
    return coded(text, code=code_of(error))
