"""A party's part in batches, from its key to its share of the sum. `transport.batch_party` speaks gRPC.

What is compared with the other parties, and in which order, is in `questions.shares_agreement`; what is on disk
before a share leaves, in `party.batches.store`. A batch that was closed here answers every later call with the same
share, once the parties have compared their lists again: so a party or a coordinator that was stopped in between costs
an attempt, and nothing is opened twice.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import structlog
from numpy.typing import NDArray

from analyses.job.job import JobError
from analyses.open_until import check_open_until
from entropy import Entropy
from mpc.errors import ProtocolError
from mpc.protocol.concurrency import run_to_its_end
from mpc.protocol.session import COORDINATOR
from mpc.secagg.secret.keys import KEY_BYTES, RoundKey
from mpc.secagg.secret.mask import Mask, apply_masks
from mpc.vector_proofs.verifier import integers_of
from party.batches.collecting import Collection, places_of
from party.batches.openers import exchange_batch_keys, masks_of
from party.batches.rules import BatchRules
from party.batches.store import BatchStore, ClosedBatch, KeptBatch
from party.batches.verdicts import Judge, seed_of
from questions.shares import AskedBatch
from questions.shares_agreement import agree
from service.codes.coded_text import told
from service.errors import (
    InvalidRequestError,
    NotAllowedError,
    NotFoundError,
    ServiceError,
    TooMuchError,
    WrongStateError,
)
from service.tls import Credentials
from service.trust.passed_certificates import SECRET_BYTES, PassedCertificates
from service.trust.statements import Signed, StatementCheck, sign
from transport.batch_codec import FIXED_BYTES, PER_PARTY_BYTES, AnswerPart, PartyKey, SumShare
from transport.batch_party import NotPreparedError
from transport.calls.peers import WAY_S, TryWays, no_ways

KEEP_S = 30 * 86400.0
"""Seconds after its end for which an open batch is kept, with its key."""

TENTATIVE_S = 180.0
"""Seconds for which a place is held for a batch that not all parties have agreed to yet."""

SILENCE_S = 3600.0
"""Seconds that a party may be silent while it fetches and opens answers."""

PREPARED_S = 300.0
"""Seconds for which messages of an attempt are accepted before it begins."""

MAX_PREPARED = 256
"""Attempts that are prepared at a time; the oldest of more is given up."""

BLOCK_BYTES, BLOCK_PARTS = 8 << 20, 256
"""Bytes and answers added per block."""

_log = structlog.get_logger(__name__)

FetchParts = Callable[[bytes, int, bytes], AsyncIterator[AnswerPart]]
"""Fetches what is meant for us of the answers to a batch: its identifier, the most bytes of one, and which (bits)."""


@dataclass(frozen=True)
class PartyPlace:
    """Who this party is, and with whom it computes, as its owner says.

    Attributes:
        name: name of this party.
        coordinator: name of the one coordinator.
        coordinator_uri: its identity.
        peers: names of the other parties.
        rules: rules for batches; None: the party takes part in none.
    """

    name: str
    coordinator: str
    coordinator_uri: str
    peers: frozenset[str]
    rules: BatchRules | None


class PartyBatches:
    """Implements `transport.batch_party.BatchParty`.

    Args:
        place: who we are, as configured now.
        credentials: returns ours, as in use now.
        store: store of batches.
        entropy: random source for keys and noise.
        fetch: see `FetchParts`.
        accept_messages, open_session, close_session: see `party.job_sessions.JobSessions`.
        clock: Unix time in seconds.
        try_ways: reaches the other members before devices pay for a batch (`PeerChannels.reach`).

    Raises:
        ValueError: the entropy is reproducible.
    """

    def __init__(
        self,
        *,
        place: PartyPlace,
        credentials: Callable[[], Credentials],
        store: BatchStore,
        entropy: Entropy,
        fetch: FetchParts,
        accept_messages: Callable[[str, Mapping[int, str]], None],
        open_session: Callable[..., Any],
        close_session: Callable[[str, str | None], None],
        clock: Callable[[], float] = time.time,
        try_ways: TryWays = no_ways,
    ) -> None:
        if not entropy.is_secure:
            raise ValueError("a service needs secure randomness")
        self._place = place
        self._credentials = credentials
        self._store = store
        self._entropy = entropy
        self._fetch = fetch
        self._accept_messages = accept_messages
        self._open_session = open_session
        self._close_session = close_session
        self._clock = clock
        self._beginning = asyncio.Lock()  # places are counted, then taken
        self._try_ways = try_ways
        self._passed = PassedCertificates(entropy.read(SECRET_BYTES))  # devices answer many batches
        self._turns: WeakValueDictionary[bytes, asyncio.Lock] = WeakValueDictionary()
        self._prepared: dict[str, tuple[bytes, tuple[int, ...], asyncio.TimerHandle]] = {}

    def use(self, place: PartyPlace) -> None:
        """Take over another configuration."""
        self._place = place

    async def open(self, question_json: str, analyst: str) -> PartyKey:
        """See `transport.batch_party.BatchParty`."""
        asked = await asyncio.to_thread(_read, question_json)
        rules = self._check(asked)
        try:
            check_open_until(asked.question.until, self._clock(), most_days=rules.longest_days)
        except JobError as error:
            raise InvalidRequestError(f"{self._place.name}: {told(error)}") from error
        members = {self._place.coordinator, *asked.question.parties} - {self._place.name}
        await self._try_ways(members, WAY_S)  # devices pay when they answer, long before the parties meet
        async with self._beginning:
            found = await asyncio.to_thread(self._begin, asked, analyst, rules)
        if found.closed is not None:
            raise WrongStateError("this batch was closed here before")
        if found.private is None:
            raise WrongStateError("this batch was called off here before")
        _log.info("place held for a batch", batch=asked.question_id.hex(), analysis=asked.question.analysis)
        return PartyKey(found.public, Signed(found.certificate, found.signature))

    async def keep(self, question_json: str) -> None:
        """See `transport.batch_party.BatchParty`."""
        asked = await asyncio.to_thread(_read, question_json)
        self._check(asked)
        await asyncio.to_thread(self._store.forget, self._clock())
        until_s = asked.question.until.timestamp() + KEEP_S
        if not await asyncio.to_thread(self._store.keep, asked.digest, until_s):
            raise NotFoundError(f"{self._place.name} holds no place for this batch, or no longer holds it")
        _log.info("batch agreed to", batch=asked.question_id.hex(), analysis=asked.question.analysis)

    async def call_off(self, question_json: str) -> None:
        """See `transport.batch_party.BatchParty`."""
        asked = await asyncio.to_thread(_read, question_json)
        if await asyncio.to_thread(self._store.call_off, asked.digest):
            _log.info("batch called off", batch=asked.question_id.hex(), analysis=asked.question.analysis)

    def _check(self, asked: AskedBatch) -> BatchRules:
        place = self._place
        if place.rules is None:
            raise NotAllowedError(f"{place.name} takes part in no batches (batches)")
        place.rules.check(asked, place.name, place.peers, place.coordinator_uri)
        return place.rules

    def _begin(self, asked: AskedBatch, analyst: str, rules: BatchRules) -> KeptBatch:
        now_s, me = self._clock(), self._place.name
        self._store.forget(now_s)
        if (found := self._store.find(asked.digest)) is not None:
            return found
        held = [one.analyst for one in self._store.open_places()]
        if len(held) >= rules.most_open:
            raise TooMuchError(f"{me} already has {len(held)} open batches; try again when some have ended")
        if held.count(analyst) >= rules.most_open_each:
            raise TooMuchError(f"{me} already has {held.count(analyst)} open batches of {analyst}; call one off")
        private = self._entropy.read(KEY_BYTES)
        public = RoundKey(private).public_bytes
        signed = sign(self._credentials(), asked.key_statement(me, public))
        batch = KeptBatch(private, public, signed.certificate, signed.signature)
        text = asked.canonical_json()
        return self._store.add(asked.digest, batch, now_s + TENTATIVE_S, analyst=analyst, question=text)

    async def prepare(self, question_json: str, attempt: str, openers: Sequence[int] = ()) -> tuple[int, ...]:
        """See `transport.batch_party.BatchParty`."""
        asked = await asyncio.to_thread(_read, question_json)
        self._check(asked)
        found = self._openers(asked, openers)
        kept = await asyncio.to_thread(self._known, asked)
        self._accept_messages(attempt, self._names(asked, found))
        if len(self._prepared) >= MAX_PREPARED:
            self._abandon(next(iter(self._prepared)))
        loop = asyncio.get_running_loop()
        late = loop.call_later(PREPARED_S, self._give_up, attempt)
        self._prepared[attempt] = asked.digest, found, late
        return () if kept.closed is None else asked.question.openers_of(kept.closed.openers)

    def _openers(self, asked: AskedBatch, numbers: Sequence[int]) -> tuple[int, ...]:
        try:
            found = asked.question.openers_of(numbers)
        except JobError as error:
            raise InvalidRequestError(f"{self._place.name}: {told(error)}") from error
        if self._number(asked) not in found:
            raise InvalidRequestError(f"{self._place.name} is asked to open a batch with others than itself")
        return found

    def _number(self, asked: AskedBatch) -> int:
        return asked.question.parties.index(self._place.name) + 1

    def _give_up(self, attempt: str) -> None:
        del self._prepared[attempt]
        self._close_session(attempt, "it was prepared and never began")

    def _abandon(self, attempt: str) -> None:
        self._prepared[attempt][2].cancel()
        self._give_up(attempt)

    def _names(self, asked: AskedBatch, openers: Sequence[int]) -> dict[int, str]:
        return {COORDINATOR: self._place.coordinator, **{one: asked.question.parties[one - 1] for one in openers}}

    def _known(self, asked: AskedBatch) -> KeptBatch:
        found = self._store.find(asked.digest)
        if found is None:
            raise NotFoundError(f"{self._place.name} has not agreed to this batch, or has forgotten it")
        return found

    async def close(self, question_json: str, attempt: str) -> SumShare:
        """See `transport.batch_party.BatchParty`."""
        asked = await asyncio.to_thread(_read, question_json)
        digest, openers, late = self._prepared.pop(attempt, (b"", (), None))
        if late is not None:
            late.cancel()
        if digest != asked.digest:
            if late is not None:
                self._close_session(attempt, "it was prepared for another batch")
            raise NotPreparedError("this attempt to close a batch was not prepared here, or too long ago")
        log = _log.bind(batch=asked.question_id.hex(), attempt=attempt)
        try:
            async with self._session(asked, attempt, openers) as session:
                async with self._turns.setdefault(asked.digest, asyncio.Lock()):
                    closed = await self._close(asked, session, openers)
                with suppress(ProtocolError):  # who went away meanwhile asks again
                    await session.finish()
        except (ProtocolError, ServiceError) as error:
            log.warning("batch not closed", reason=told(error))
            raise
        log.info("batch closed", devices=int(closed.cohort.sum()), shown=len(closed.cohort))
        bits = [closed.cohort] if closed.rejected is None else [closed.cohort, closed.rejected]
        return SumShare(closed.share, b"".join(np.packbits(one).tobytes() for one in bits))

    @asynccontextmanager
    async def _session(self, asked: AskedBatch, attempt: str, openers: Sequence[int]) -> AsyncIterator[Any]:
        names, me = self._names(asked, openers), self._number(asked)
        session = self._open_session(attempt, asked.digest, me, names, SILENCE_S, lambda stage, done, total: None)
        reason: str | None = "the batch was not closed"
        try:
            yield session
            reason = None
        except (ProtocolError, ServiceError) as error:
            reason = told(error)
            raise
        finally:
            if reason is not None:
                await session.abort(reason)
            self._close_session(attempt, reason)

    async def _close(self, asked: AskedBatch, session: Any, openers: tuple[int, ...]) -> ClosedBatch:
        kept = await asyncio.to_thread(self._known, asked)
        question = asked.question
        bounds = question.smallest_cohort, question.largest_cohort
        if kept.closed is not None:
            if question.openers_of(kept.closed.openers) != openers:
                raise NotPreparedError("this batch was closed here with other parties: it is opened with no others")
            assert kept.shown is not None, "it is noted before"
            before = None if question.claim is None else Judge(asked, session, kept.closed.rejected, openers).tell
            await agree(session, openers, kept.shown, bounds, kept.closed.cohort, before)
            if question.may_miss:
                await exchange_batch_keys(session, openers, kept.public)
            return kept.closed
        if kept.private is None:
            raise NotFoundError("the key of this batch is gone")
        rules = self._place.rules or BatchRules()
        with ThreadPoolExecutor(rules.n_threads, thread_name_prefix="batch") as pool:
            check = StatementCheck(self._credentials(), passed=self._passed)
            own = RoundKey(kept.private)
            collection = Collection(asked, self._place.name, own, check, pool=pool, before=kept.shown, openers=openers)
            async for block in self._blocks(asked):
                await run_to_its_end(collection.take, block)
            shown = await asyncio.to_thread(collection.shown)
            if kept.shown is None:
                await run_to_its_end(self._store.note_shown, asked.digest, shown)
            judge = None if question.claim is None else Judge(asked, session, openers=openers)
            judged = None if judge is None else self._judged(judge, collection, seed_of(kept.private, shown.digest))
            cohort = await agree(session, openers, shown, bounds, judge=judged)
            left_out = shown.openable & ~cohort
            if judge is None and left_out.any():
                places = places_of(left_out)
                async for block in self._blocks(asked, np.packbits(left_out).tobytes()):
                    await run_to_its_end(collection.take_away, block, places[: len(block)])
                    del places[: len(block)]
                collection.take_away((), places)
        masks: list[Mask] = []
        if question.may_miss:
            publics = await exchange_batch_keys(session, openers, kept.public)
            masks = masks_of(session.me, own, publics, asked.digest, openers, shown.cohort_digest(cohort))
        share = await self._share(asked, session, collection, int(cohort.sum()), openers, masks)
        rejected = None if judge is None else judge.rejected
        closed = ClosedBatch(cohort, share, rejected, openers if question.may_miss else ())
        await run_to_its_end(self._store.close_batch, asked.digest, closed)
        return closed

    def _judged(
        self, judge: Judge, collection: Collection, seed: bytes
    ) -> Callable[[NDArray[np.bool_]], Awaitable[NDArray[np.bool_]]]:
        asked = judge.asked

        def blocks(wanted: NDArray[np.bool_]) -> AsyncIterator[list[AnswerPart]]:
            return self._blocks(asked, np.packbits(wanted).tobytes())

        async def coin(found: bytes) -> bytes:
            return await run_to_its_end(self._store.note_coin, asked.digest, found)

        async def judged(openable: NDArray[np.bool_]) -> NDArray[np.bool_]:
            noted = await asyncio.to_thread(self._store.noted_coin, asked.digest)
            return await judge.judge(openable, collection, blocks, coin, seed, noted)

        return judged

    async def _share(
        self,
        asked: AskedBatch,
        session: Any,
        collection: Collection,
        n_devices: int,
        openers: Sequence[int],
        masks: Sequence[Mask],
    ) -> bytes:
        """Return our share of the sum, with our share of the noise in it, masked where parties may be missing."""
        question, total = asked.question, collection.sum.additive()
        if question.claim is not None:
            total = integers_of(question.claim, total, n_devices, is_first=session.me == openers[0])
        if (noise := question.noise) is not None:
            drawn = await session.draw(noise, (), len(openers))
            question.group.accumulate(total, question.group.encode(drawn))
        await asyncio.to_thread(apply_masks, question.group, total, masks)
        packed: bytes = await asyncio.to_thread(question.group.pack, total)
        return packed

    async def _blocks(self, asked: AskedBatch, only: bytes = b"") -> AsyncIterator[list[AnswerPart]]:
        """Yield the answers in blocks of some; the coordinator sends them as we take them."""
        question = asked.question
        last = {len(question.parties) - 1, len(question.sealed_bytes) - 1}
        share_bytes = sum(question.sealed_bytes[place] for place in last)  # the last party's
        most_bytes = max(share_bytes, KEY_BYTES) + FIXED_BYTES + PER_PARTY_BYTES * (len(question.parties) + 1)
        block: list[AnswerPart] = []
        async for part in self._fetch(asked.question_id, most_bytes, only):
            block.append(part)
            if len(block) >= min(BLOCK_PARTS, max(1, BLOCK_BYTES // share_bytes)):
                yield block
                block = []
        if block:
            yield block

    def stop(self) -> None:
        """Take no part in attempts that were prepared and have not begun."""
        for attempt in list(self._prepared):
            self._abandon(attempt)


def _read(question_json: str) -> AskedBatch:
    try:
        return AskedBatch.from_json(question_json)
    except JobError as error:
        raise InvalidRequestError(told(error)) from error
