"""Analysts' questions to masked sums: one question, one answer; a round with too few answers is repeated."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

import structlog

from analyses.job.job import JobError
from analyses.sums.secure_sum import SumParams, answer, round_config
from coordinator.sums.rounds import HostedRound, HostedRounds
from entropy import Entropy
from mpc.errors import ProtocolError
from mpc.secagg.config import RoundConfig
from mpc.secagg.errors import TooFewMembersError
from service.errors import InvalidRequestError, NotAllowedError
from service.identity import Identity
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
        self._analysts = analysts
        self._entropy = entropy
        self.rounds = HostedRounds(identities)

    async def run(self, analyst: str, sum_json: str) -> AsyncGenerator[SumHappening, None]:
        """Run one sum; yields how each stage went and at last the result or the failure.

        Args:
            analyst: who asks.
            sum_json: of a `SumParams`.

        Raises:
            NotAllowedError: not an analyst of this coordinator.
            InvalidRequestError: the question cannot be answered; the text names the field.
        """
        if analyst not in self._analysts:
            raise NotAllowedError(f"analyst {analyst} is not in the list of this coordinator (analysts.allowed)")
        try:
            params = SumParams.from_json(sum_json)
            session = self._entropy.read(SESSION_BYTES).hex()
            await asyncio.to_thread(round_config, params, session, self._identities)
        except JobError as error:
            raise InvalidRequestError(str(error)) from error
        for attempt in range(params.attempts):
            config = await asyncio.to_thread(round_config, params, session, self._identities, attempt)
            async with aclosing(self._attempt(analyst, params, config)) as happenings:
                async for happening in happenings:
                    if isinstance(happening, SumRetry) and attempt + 1 == params.attempts:
                        happening = SumFailure(happening.reason)
                    yield happening
            if not isinstance(happening, SumRetry):
                return

    async def _attempt(
        self, analyst: str, params: SumParams, config: RoundConfig
    ) -> AsyncGenerator[SumHappening, None]:
        """Run one round; yields how each stage went and at last the result, the failure, or that it may be retried.

        Only a round with too few answers may be repeated. No share has left any member in that case, because shares are
        requested after the last stage that can fail in this way. A new attempt number makes members draw fresh keys and
        noise.
        """
        reports: asyncio.Queue[StageReport | None] = asyncio.Queue()
        hosted = HostedRound(config, params.canonical_json().encode(), params.stage_s, reports.put_nowait)
        log = _log.bind(round=str(config.round_id), analysis=params.analysis, analyst=analyst)
        log.info("masked sum begins", n_members=config.n_members)
        running = asyncio.create_task(self.rounds.run(hosted))
        running.add_done_callback(lambda _: reports.put_nowait(None))
        try:
            while (report := await reports.get()) is not None:
                yield report
            try:
                opened = await running
            except TooFewMembersError as error:
                log.warning("too few members answered", reason=str(error))
                yield SumRetry(str(error))
                return
            except ProtocolError as error:
                log.warning("masked sum failed", reason=str(error))
                yield SumFailure(str(error))
                return
            log.info("masked sum is open", n_survivors=len(opened.survivors))
            yield SumResult(json.dumps(await asyncio.to_thread(answer, params, opened, config)))
        finally:  # also when the analyst went away
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
