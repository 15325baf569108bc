"""A device in batches: one answer to each for ever, paid for before the record is read, kept before it is sent.

The steps, each on disk before the next one begins; as of surveys (`device.survey`), whose store this uses:

1. the owner's policy and declarations allow the batch, and its parties vouch for their keys;
2. the answer is *begun* in the store;
3. its cost is committed in the ledger, once per batch; an exact one is listed there;
4. the record is read, for the first time, encoded, split into shares and sealed;
5. the sealed answer is kept in the store;
6. it is sent until the coordinator says that it has it; then the store forgets all but that it was sent.

| after a stop there is | then |
| --- | --- |
| a sealed answer | the same bytes are sent |
| begun, committed, no answer | it is made: nothing has left |
| begun, an exact one, or not committed | the device sits out |
| committed, not begun | it sits out: the store was lost, and with it perhaps an answer that has left |

So no batch ever gets two vectors of one device, and none that is not paid for. What the record holds decides nothing:
one that cannot be used contributes zeros, and the answer has the same size.
"""

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import structlog

from analyses.job.job import JobError
from analyses.sums.batch.question import AskedBatch
from device.batches.policy import BatchOutOfPolicyError, BatchPolicy, PartyKeyError, party_publics
from device.budget import DeviceBudget, batch_charge_id, cost_of
from device.records import KeptRecord
from device.refusing import why_refused
from device.report import write_batch_report
from device.response_store import SENDING, TAKEN, ResponseStore
from entropy import Entropy
from mpc.errors import ProtocolError
from mpc.secagg.secret.party_shares import SealingTerms, answer_digest, seal, split
from party.ledger.books import JobState
from party.ledger.entry import LedgerError
from service.codes.coded_text import told
from service.errors import ServiceError, TimedOutError, TooMuchError, UnreachableError
from service.tls import Credentials
from service.trust.statements import StatementCheck, sign
from transport.batch_client import BatchClient
from transport.batch_codec import BatchAnswer, OfferedBatch, decode_answer, encode_answer
from transport.refusal import WhyRefused

PAUSE_S = 2.0
"""Seconds to wait before the next attempt if the coordinator cannot be reached or repeats a batch."""

_PASSING = (UnreachableError, TimedOutError, TooMuchError)

_log = structlog.get_logger(__name__)


class SitsBatchOutError(ServiceError):
    """The device does not answer a batch, because of what an earlier stop left behind."""

    code = "batch-sat-out"


@dataclass(frozen=True)
class BatchDevice:
    """The part of a device that answers batches.

    Attributes:
        name: as in its certificate.
        client: calls to the coordinator.
        credentials: its certificate and key.
        policy: its floor.
        store: of answers.
        records: what it keeps, by name; read anew for each batch.
        budget: its ledger, shared with masked sums and surveys.
        entropy: where its randomness comes from.
        data_dir: where its private reports are kept; None for none.
        tells_refusals: whether the coordinator is told the class of the reason where nothing is answered.

    Raises:
        ValueError: the entropy is reproducible: whoever knew its seed would know all shares.
    """

    name: str
    client: BatchClient
    credentials: Credentials
    policy: BatchPolicy
    store: ResponseStore
    records: Mapping[str, KeptRecord]
    budget: DeviceBudget
    entropy: Entropy
    data_dir: Path | None = None
    tells_refusals: bool = True

    def __post_init__(self) -> None:
        if not self.entropy.is_secure:
            raise ValueError("a service needs secure randomness")

    async def run(self) -> None:
        """Answer every batch that the owner's policy allows, until cancelled."""
        await answer_batches(lambda: self)

    async def answer(self, offered: OfferedBatch) -> bool:
        """Answer one batch, or sit it out; say whether the coordinator has an answer. Failures are logged."""
        try:
            asked = await asyncio.to_thread(AskedBatch.from_json, offered.text)
        except JobError as error:
            _log.warning("refused the batch", member=self.name, reason=str(error))
            return False
        log = _log.bind(member=self.name, batch=asked.batch_id.hex())
        try:
            body = await asyncio.to_thread(self.respond, asked, offered)
        except (JobError, ProtocolError, LedgerError, ServiceError) as error:
            log.warning("sits the batch out", reason=told(error))
            await self._tell(asked, _why(error))
            await self._note(asked, f"sat out: {error}")
            return False
        outcome = TAKEN if not body else await self._send(asked, decode_answer(body))
        log.info("answer", outcome=outcome)
        await self._note(asked, outcome)
        if outcome == TAKEN:
            await asyncio.to_thread(self.store.empty, asked.digest)
        return outcome == TAKEN

    async def _tell(self, asked: AskedBatch, why: WhyRefused | None) -> None:
        """Tell the class of the reason to who asks, once; nothing depends on whether it is heard."""
        if why is None or not self.tells_refusals:
            return
        try:
            await self.client.refuse(asked.batch_id, why)
        except ServiceError as error:
            _log.info("refusal not told", member=self.name, reason=told(error))

    async def _send(self, asked: AskedBatch, answer: BatchAnswer) -> str:
        """Send an answer until it is taken or refused for good; return what became of it."""
        await self._note(asked, SENDING)
        while True:
            try:
                await self.client.answer(asked.batch_id, answer)
            except _PASSING as error:
                _log.warning("answer not taken yet", member=self.name, reason=str(error))
                await asyncio.sleep(PAUSE_S)
            except ServiceError as error:
                return f"not taken: {error}"
            else:
                return TAKEN

    async def _note(self, asked: AskedBatch, outcome: str) -> None:
        try:
            await asyncio.to_thread(self.store.note, asked.digest, asked.digest, asked.canonical_json(), outcome)
        except ServiceError as error:
            _log.error("outcome not kept", member=self.name, reason=str(error))

    def respond(self, asked: AskedBatch, offered: OfferedBatch) -> bytes:
        """Return the one sealed answer to a batch: steps 1 to 5. Empty where it was sent and is forgotten.

        Raises:
            BatchOutOfPolicyError, PartyKeyError: the owner rules it out, or its keys are nobody's.
            SitsBatchOutError: what an earlier stop left behind does.
            JobError: what the owner declares does not fit it.
            ChargeError, LedgerError: the budget does not cover it, or cannot be written.
            ResponseStoreError: the store cannot be used. Nothing leaves.
        """
        if (found := self.store.find(asked.digest)) is not None and found.body is not None:
            return found.body
        publics = self._admit(asked, offered)
        state = self.budget.batch_state(asked.digest)
        if found is None:
            if state is not None:
                raise SitsBatchOutError("the ledger knows the batch and the store does not: the store was lost")
            self.store.begin(asked.digest)
            self.budget.charge_batch(asked.digest, asked.question.sum, asked.question.noise)
        elif state is not JobState.COMMITTED:
            raise SitsBatchOutError("the device was stopped before the batch was paid for")
        body = encode_answer(self._answer(asked, publics))
        self.store.keep(asked.digest, body)
        return body

    def _admit(self, asked: AskedBatch, offered: OfferedBatch) -> list[bytes]:
        """Refuse what the owner rules out, by question and declarations alone; return the keys of the parties."""
        question = asked.question
        self.policy.check(asked)
        publics = party_publics(asked, offered.keys, StatementCheck(self.credentials))
        if question.sum.record not in self.records:
            raise JobError(f"record: {self.name} declares no record {question.sum.record}")
        self.records[question.sum.record].declared.check(question.sum)
        if (noise := question.noise) is not None:
            delta = self.budget.check_delta(question.sum)
            self.policy.check_epsilon(cost_of(noise).epsilon(delta).epsilon, delta)
        return publics

    def _answer(self, asked: AskedBatch, publics: list[bytes]) -> BatchAnswer:
        """Read the record, and share what it contributes. The batch is paid for, and no record stops this."""
        question = asked.question
        params, group = question.sum, question.group
        contributed = self.records[params.record].contribute(params)
        encoded = params.encoding.encode(contributed.vector, self.entropy, contributed.weight)
        params.encoding.check_values(encoded.values)
        terms = SealingTerms(asked.digest, self.name, question.parties)
        shares = split(group, group.encode(encoded.values), len(publics), self.entropy)
        vector = seal(terms, shares, publics, self.entropy)
        digests = [hashlib.sha256(one).digest() for one in vector.sealed]
        signed = sign(self.credentials, answer_digest(terms, vector.ephemeral_public, digests))
        if self.data_dir is not None:
            try:
                name = batch_charge_id(asked.digest)
                write_batch_report(self.data_dir, name, asked, contributed, encoded, self.budget.standing())
            except (OSError, ValueError, LedgerError) as error:  # others would learn of the record by a failure
                _log.error("report not kept", member=self.name, reason=str(error))
        return BatchAnswer(vector, signed)


def _why(error: Exception) -> WhyRefused | None:
    match error:
        case BatchOutOfPolicyError():
            return WhyRefused.POLICY
        case PartyKeyError():
            return WhyRefused.TROUBLE
    return why_refused(error)


async def answer_batches(current: Callable[[], BatchDevice]) -> None:
    """Answer every batch that the owner's policy allows, until cancelled.

    Args:
        current: returns the device as it is configured now.
    """
    after = 0
    while True:
        device = current()
        try:
            offered = await device.client.fetch(after)
        except ServiceError as error:
            _log.warning("no batch", member=device.name, reason=told(error))
            await asyncio.sleep(PAUSE_S)
            continue
        if offered is None:
            continue
        if offered.number <= after:
            await asyncio.sleep(PAUSE_S)
        after = max(after, offered.number)
        await current().answer(offered)
