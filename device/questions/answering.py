"""One answer to each question for ever: paid for before the record is read, kept before it is sent.

The steps of `QuestionDevice.answer_once`, each on disk before the next one begins:

1. the owner's policy and declarations allow the question;
2. the answer is *begun* in the store;
3. its cost is reserved in the ledger, and committed; an exact one is listed there;
4. the record is read, for the first time, and the answer is made;
5. it is kept in the store;
6. it is sent until the coordinator says that it has taken it.

| after a stop there is | then |
| --- | --- |
| an answer | the same bytes are sent, for ever |
| begun, committed, no answer | it is made: nothing has left |
| begun, an exact one, or not committed | the device sits out |
| committed, not begun | it sits out: the store was lost, and with it perhaps an answer that has left |

So no question ever has two different answers, and none that is not paid for. The record decides none of this: one that
cannot be used answers with the same size, as if there were none.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

import structlog

from analyses.job.job import JobError
from device.budget import DeviceBudget, answer_charge_id
from device.records import KeptRecord
from device.refusing import SitsOutError, surviving, why_failed, why_refused
from device.response_store import SENDING, TAKEN, ResponseStore
from dp.cost.job_cost import JobCost
from entropy import Entropy
from ledger.books import JobState
from ledger.entry import LedgerError
from mpc.errors import ProtocolError
from questions.question import Asked
from service.codes.coded_text import told
from service.errors import RemoteFailureError, ServiceError, TimedOutError, TooMuchError, UnreachableError
from service.tls import Credentials
from transport.batch_codec import OfferedQuestion, PartyKey
from transport.question_client import QuestionClient
from transport.refusal import WhyRefused

if TYPE_CHECKING:
    from device.config import DeviceConfig

PAUSE_S = 2.0
"""Seconds to wait before the next attempt if the coordinator cannot be reached or repeats a question."""

_PASSING = (UnreachableError, TimedOutError, TooMuchError, RemoteFailureError)
"""Errors after which an answer is sent again. A remote failure says nothing of it: perhaps a database is away."""

_log = structlog.get_logger(__name__)


A = TypeVar("A", bound=Asked)
"""A question of one kind, as it is asked."""


@dataclass(frozen=True, kw_only=True)
class QuestionDevice(ABC, Generic[A]):
    """The part of a device that answers one kind of question.

    Attributes:
        name: name in the device's certificate.
        client: calls to the coordinator.
        store: store of answers.
        records: what the device keeps, by name; read anew for each question.
        budget: its ledger, shared by all kinds.
        entropy: where its randomness comes from.
        data_dir: where its private reports are kept; None for none.
        tells_refusals: whether the coordinator is told the class of the reason where nothing is answered.

    Raises:
        ValueError: the entropy is reproducible: whoever knew its seed would know what an answer hides.
    """

    kind: ClassVar[str]
    """Name of the kind; charges in the ledger begin with it."""

    store_name: ClassVar[str]
    """Name of the file of its answers in the device's folder."""

    forgets: ClassVar[bool] = False
    """Whether the store forgets what was taken, but that it was."""

    name: str
    client: QuestionClient
    store: ResponseStore
    records: Mapping[str, KeptRecord]
    budget: DeviceBudget
    entropy: Entropy
    data_dir: Path | None = None
    tells_refusals: bool = True

    def __post_init__(self) -> None:
        if not self.entropy.is_secure:
            raise ValueError("a service needs secure randomness")

    @classmethod
    @abstractmethod
    def settings(cls, config: "DeviceConfig", credentials: Credentials) -> dict[str, Any] | None:
        """Return the fields that follow from the files; None where the owner answers no question of this kind."""

    @classmethod
    @abstractmethod
    def read(cls, text: str) -> A:
        """Read a question; raises `JobError` where the text is none of this kind."""

    @abstractmethod
    def admit(self, asked: A, keys: Sequence[PartyKey]) -> None:
        """Refuse what the owner rules out, by the question and the owner's declarations alone; no record is read.

        Raises:
            SitsOutError, JobError, ChargeError, ProtocolError: the question is not answered.
        """

    @abstractmethod
    def cost_of(self, asked: A) -> JobCost | None:
        """Return what an answer costs; None for an exact one."""

    @abstractmethod
    def make(self, asked: A, keys: Sequence[PartyKey]) -> bytes:
        """Read the record and return the answer, which is paid for. No record makes this fail or changes the size."""

    def key_of(self, asked: A) -> bytes:
        """Return the key in the store: one answer for each."""
        return asked.digest

    def sits_out(self, text: str, why: WhyRefused | None = None) -> SitsOutError:
        """Return why the device sits out because of what an earlier stop left behind."""
        return SitsOutError(text, why)

    def charge_of(self, key: bytes) -> str:
        """Return the name in the ledger of the answer under a key."""
        return answer_charge_id(self.kind, key)

    def answer_once(self, asked: A, keys: Sequence[PartyKey] = ()) -> bytes:
        """Return the one answer to a question: steps 1 to 5. Empty where it was taken and is forgotten.

        Raises:
            SitsOutError: the owner rules it out, or what an earlier stop left behind does.
            JobError: what the owner declares does not fit it.
            ChargeError, LedgerError: the budget does not cover it, or cannot be written.
            ResponseStoreError: the store cannot be used. Nothing leaves.
        """
        self.admit(asked, keys)
        key = self.key_of(asked)
        if (found := self.store.find(key)) is not None and found.body is not None:
            return found.body
        charge = self.charge_of(key)
        state = self.budget.answer_state(charge)
        if found is None:
            if state is not None:
                what = "the ledger knows the answer and the store does not: the store was lost"
                raise self.sits_out(what, WhyRefused.TROUBLE)
            self.store.begin(key)
            question: Any = asked.question
            self.budget.charge_answer(charge, question.analysis, self.cost_of(asked))
        elif state is not JobState.COMMITTED:
            raise self.sits_out("the device was stopped before the answer was paid for")
        body = self.make(asked, keys)
        self.store.keep(key, body)
        return body

    @surviving
    async def answer(self, offered: OfferedQuestion) -> bool:
        """Answer one question, or sit it out; say whether the coordinator has the answer. Failures are logged."""
        log = _log.bind(member=self.name, kind=self.kind)
        try:
            asked = await asyncio.to_thread(self.read, offered.text)
        except JobError as error:
            log.warning("refused the question", reason=str(error))
            return False
        log = log.bind(question=asked.question_id.hex())
        try:
            body = await asyncio.to_thread(self.answer_once, asked, offered.keys)
        except (SitsOutError, JobError, ProtocolError, LedgerError, ServiceError) as error:
            log.warning("sits the question out", reason=told(error))
            await self._tell(asked, why_refused(error))
            await self._note(asked, f"sat out: {error}")
            return False
        outcome = await self._send(asked, body) if body else TAKEN
        log.info("answer", outcome=outcome)
        await self._note(asked, outcome)
        if outcome == TAKEN and self.forgets:
            await asyncio.to_thread(self.store.empty, self.key_of(asked))
        return outcome == TAKEN

    async def _tell(self, asked: A, why: WhyRefused | None) -> None:
        """Tell the class of the reason to who asks, once; nothing depends on whether it is heard."""
        if why is None or not self.tells_refusals:
            return
        try:
            await self.client.refuse(asked.question_id, why)
        except ServiceError as error:
            _log.info("refusal not told", member=self.name, reason=told(error))

    async def _send(self, asked: A, body: bytes) -> str:
        """Send an answer until it is taken or refused for good; return what became of it."""
        await self._note(asked, SENDING)
        while True:
            try:
                await self.client.answer(asked.question_id, body)
            except _PASSING as error:
                _log.warning("answer not taken yet", member=self.name, reason=str(error))
                await asyncio.sleep(PAUSE_S)
            except ServiceError as error:
                return f"not taken: {error}"
            else:
                return TAKEN

    async def _note(self, asked: A, outcome: str) -> None:
        try:
            key = await asyncio.to_thread(self.key_of, asked)
            await asyncio.to_thread(self.store.note, asked.digest, key, asked.canonical_json(), outcome)
        except (ServiceError, JobError) as error:
            _log.error("outcome not kept", member=self.name, reason=str(error))

    def report(self, write: Callable[[Path], object]) -> None:
        """Keep the private report. An answer does not fail for want of it, which would tell others of this device."""
        if self.data_dir is None:
            return
        try:
            write(self.data_dir)
        except Exception as error:
            _log.error("report not kept", member=self.name, reason=why_failed(error))

    def configured(self, config: "DeviceConfig", credentials: Credentials) -> Self:
        """Return the same under files that were read again."""
        tells = config.policy.tell_refusals
        return replace(self, tells_refusals=tells, **(self.settings(config, credentials) or {}))


async def answer_questions(current: Callable[[], QuestionDevice[Any]]) -> None:
    """Answer every question of one kind that the owner's policy allows, until cancelled.

    Args:
        current: returns the device as it is configured now.
    """
    after = 0
    while True:
        device = current()
        try:
            offered = await device.client.fetch(after)
        except Exception as error:  # whatever the coordinator sends, the loop goes on
            _log.warning("no question", member=device.name, reason=why_failed(error))
            await asyncio.sleep(PAUSE_S)
            continue
        if offered is None:
            continue
        if offered.number <= after:
            await asyncio.sleep(PAUSE_S)
        after = max(after, offered.number)
        await current().answer(offered)
