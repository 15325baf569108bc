"""Analysts' questions to masked sums: one question, one answer; a round with too few answers is repeated.

A question may take a series of rounds, each of which starts from what those before it led to. Where too few answer in
the last attempt of a round after the first one, the rounds opened before it are the answer.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import replace
from functools import partial

import structlog

from analyses.device_questions import ask, read_question
from analyses.job.job import JobError
from analyses.sums.asked import AskedQuestion
from coordinator.sums.rounds import HostedRound, HostedRounds
from entropy import Entropy
from mpc.errors import ProtocolError, TooFewSharesError
from mpc.secagg.errors import TooFewMembersError
from service.codes.coded_text import code_of, coded, told
from service.errors import InvalidRequestError, NotAllowedError
from service.identity import Identity
from transport.refusal import in_words
from transport.sum_codec import StageReport, SumFailure, SumHappening, SumResult, SumRetry

SESSION_BYTES = 16

_log = structlog.get_logger(__name__)


class Sums:
    """The masked sums of one coordinator.

    Args:
        identities: of all members that may be asked: that of the certificate to the Ed25519 key; no two of one name.
        analysts: names of those that may ask.
        entropy: the identifiers of rounds are drawn from it.

    Raises:
        ValueError: the entropy is reproducible: members must never meet an identifier again.
    """

    def __init__(self, identities: Mapping[Identity, bytes], analysts: frozenset[str], entropy: Entropy) -> None:
        if not entropy.is_secure:
            raise ValueError("a service needs secure randomness")
        self._identities = {member.name: key for member, key in identities.items()}
        self.analysts = analysts
        self._entropy = entropy
        self.rounds = HostedRounds(identities)

    async def run(self, analyst: str, sum_json: str) -> AsyncGenerator[SumHappening, None]:
        """Run one question; yields how each stage went and at last the result or the failure.

        Args:
            analyst: who asks.
            sum_json: of a question (`analyses.device_questions`).

        Raises:
            NotAllowedError: not an analyst of this coordinator.
            InvalidRequestError: the question cannot be answered; the text names the field.
        """
        if analyst not in self.analysts:
            raise NotAllowedError(f"analyst {analyst} is not in the list of this coordinator (analysts.allowed)")
        try:
            question = read_question(sum_json)
            session = self._entropy.read(SESSION_BYTES).hex()
            asked = await asyncio.to_thread(ask, question, session, self._identities)
        except JobError as error:
            raise InvalidRequestError(told(error)) from error
        while not asked.is_over:
            number = asked.n_opened
            for attempt in range(asked.attempts):
                async with aclosing(self._attempt(analyst, asked, number, attempt)) as happenings:
                    async for happening in happenings:
                        yield happening
                        if isinstance(happening, SumFailure):
                            return
                if asked.is_over or asked.n_opened > number:
                    break
        yield SumResult(json.dumps(await asyncio.to_thread(asked.answer)))

    async def _attempt(
        self, analyst: str, asked: AskedQuestion, number: int, attempt: int
    ) -> AsyncGenerator[SumHappening, None]:
        """Run one round; yields how each stage went; at last, where its sum was not opened, why, and whether to retry.

        Only a round with too few answers may be repeated. No share has left any member in that case, because shares are
        requested after the last stage that can fail in this way. A new attempt number makes members draw fresh keys and
        noise.
        """
        reports: asyncio.Queue[StageReport | None] = asyncio.Queue()
        config = await asyncio.to_thread(asked.config, number, attempt)

        def may_retry() -> bool:
            return attempt + 1 < asked.attempts and not hosted.is_hopeless

        def give_up(error: ProtocolError) -> bytes:
            too_few = isinstance(error, TooFewSharesError) or (
                isinstance(error, TooFewMembersError) and not may_retry()
            )
            return asked.end_early(str(error)) if too_few and number > 0 else b""

        def report(ended: StageReport) -> None:
            stage = ended.stage if asked.n_rounds == 1 else f"{ended.stage}, round {number}"
            reports.put_nowait(replace(ended, stage=stage))

        hosted = HostedRound(
            config,
            await asyncio.to_thread(asked.public_input, number),
            asked.stage_s,
            report,
            partial(asked.take, config),
            give_up,
            asked.grace_s,
        )
        log = _log.bind(round=str(config.round_id), analysis=asked.analysis, analyst=analyst)
        log.info("masked sum begins", n_members=config.n_members)
        running = asyncio.create_task(self.rounds.run(hosted))
        running.add_done_callback(lambda _: reports.put_nowait(None))
        try:
            while (ended := await reports.get()) is not None:
                yield ended
            try:
                opened = await running
            except ProtocolError as error:
                log.warning("masked sum failed", reason=str(error))
                if isinstance(error, TooFewMembersError) and may_retry():
                    yield SumRetry(_with_refusals(error, hosted))
                elif not asked.is_over:
                    yield SumFailure(_with_refusals(error, hosted))
                return
            log.info("masked sum is open", n_survivors=len(opened.survivors))
        finally:  # also when the analyst went away
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


def _with_refusals(error: ProtocolError, hosted: HostedRound) -> str:
    refused = in_words(hosted.refusals)
    text = f"{error}; of the members {refused}" if refused else str(error)
    return coded(text, code=code_of(error))
