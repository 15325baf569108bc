"""A device that answers one question of any kind and kills itself on the way."""

import hashlib
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from batches import PARTIES, asked_batch, batch_device
from certificates import authority_in, tls_in
from devices import device_in, question, round_of
from ledger_children import at_every_step
from surveys import asked, survey_device

from device.budget import DeviceBudget, charge_id
from device.device import _SumRound
from device.journal import SqliteSumJournal
from device.questions.answering import QuestionDevice
from device.questions.batch import BatchDevice
from device.questions.survey import SurveyDevice
from device.refusing import SitsOutError
from device.response_store import ResponseStore
from entropy import SystemEntropy
from ledger.books import ChargeError, JobState
from mpc.secagg.errors import RoundReusedError
from mpc.secagg.secret.keys import RoundKey
from service.identity import Role
from service.tls import load_credentials
from service.trust.statements import sign
from transport.batch_codec import PartyKey

NOISY = {"epsilon": 1.0, "delta": 1e-6}
STEPS = {
    "admit": [(SurveyDevice, "admit"), (BatchDevice, "admit"), (_SumRound, "admit")],
    "begin": [(ResponseStore, "begin"), (SqliteSumJournal, "open_round")],
    "charge": [(DeviceBudget, "charge_answer"), (_SumRound, "commit")],
    "read": [(SurveyDevice, "make"), (BatchDevice, "make"), (_SumRound, "contribute")],
    "keep": [(ResponseStore, "keep")],
    "send": [(os, "fsync")],  # of the file of what is sent
}
"""The steps of an answer, and what does each for which kind; a round keeps nothing."""


@dataclass(frozen=True)
class OneAnswer:
    """A question to one device.

    Attributes:
        kind: `survey`, `batch`, `exact batch` or `sum`.
        shared: folder of the certificates.
        keys: of the parties of a batch.
    """

    kind: str
    shared: Path
    keys: tuple[PartyKey, ...] = ()

    @classmethod
    def of(cls, kind: str, shared: Path) -> "OneAnswer":
        made = cls(kind, shared)
        if "batch" not in kind:
            return made
        issue, keys = authority_in(shared, "walkers"), []
        issue(Role.DEVICE, "ann")
        for party in PARTIES:
            public = RoundKey(SystemEntropy().read(32)).public_bytes
            keys.append(PartyKey(public, sign(issue(Role.PARTY, party), made.asked.key_statement(party, public))))
        return cls(kind, shared, tuple(keys))

    @property
    def asked(self):
        return asked() if self.kind == "survey" else asked_batch(privacy=None if self.kind == "exact batch" else NOISY)

    @contextmanager
    def device_in(self, folder: Path) -> Iterator[QuestionDevice]:
        if self.kind == "survey":
            with survey_device(folder) as device:
                yield device
            return
        with ExitStack() as stack:
            yield batch_device(stack, folder, load_credentials(**tls_in(self.shared, Role.DEVICE, "ann")))

    def answer(self, folder: Path) -> str:
        """Return what is sent, empty where the device sits out, as a device that has just started."""
        if self.kind == "sum":
            return self._vector(folder)
        with self.device_in(folder) as device:
            try:
                return device.answer_once(self.asked, self.keys).hex()
            except (SitsOutError, ChargeError):
                return ""

    def _vector(self, folder: Path) -> str:
        """Its calls are those of a round, in the round's order (`device.device.Device.take_part`)."""
        params = question(privacy=NOISY)
        config = round_of(params)
        with device_in(folder) as device:
            answered = _SumRound(device, params, config)
            try:
                answered.admit()
                device.journal.open_round(config.round_id)
                answered.commit()
                seeds = tuple(bytes(32) for _ in params.noise(config.topology).component_parts)
                vector, noise = answered.contribute(seeds)
            except (RoundReusedError, ChargeError):
                return ""
        return hashlib.sha256(vector.tobytes() + noise.tobytes()).hexdigest()

    def state(self, folder: Path) -> tuple[JobState | None, bool, bool | None]:
        """How the charge stands, whether it is an exact one, and whether an answer is kept; None: none is begun."""
        if self.kind == "sum":
            with device_in(folder) as device:
                return device.budget.answer_state(charge_id(round_of(question(privacy=NOISY)).round_id)), False, None
        with self.device_in(folder) as device:
            found, charge = device.store.find(self.asked.digest), device.charge_of(self.asked.digest)
            exact = device.budget._ledger._chain.submit(lambda books, append: charge in books.exact)
            return device.budget.answer_state(charge), exact, None if found is None else found.body is not None


def answer_and_send(one: OneAnswer, folder: Path) -> None:
    """Answer; what is sent is a line of a file."""
    if body := one.answer(folder):
        with (folder / "sent").open("a") as sent:
            sent.write(body + "\n")
            sent.flush()
            os.fsync(sent.fileno())


def dying_at(step: int) -> Callable[[], None]:
    """Return what kills this process when it is called for the given time, counted from 0."""
    steps = iter(range(10**9))

    def maybe_die() -> None:
        if next(steps) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    return maybe_die


def answer_and_die_at(step: int, one: OneAnswer, folder: Path) -> None:
    """Answer, killed before or after something reaches the disk, within SQLite's work, or between draw and keeping."""
    maybe_die = dying_at(step)
    at_every_step(maybe_die)
    report = QuestionDevice.report

    def reported(*args):
        maybe_die()
        report(*args)
        maybe_die()

    QuestionDevice.report = reported
    answer_and_send(one, folder)


def answer_and_die_around(step: str, after: bool, one: OneAnswer, folder: Path) -> None:
    """Answer, killed right before or right after one of `STEPS`."""
    for owner, name in STEPS[step]:
        work = getattr(owner, name)

        def killed(*args, work=work):
            if step == "send" and not (folder / "sent").exists():
                work(*args)  # of another file
                return
            if not after:
                os.kill(os.getpid(), signal.SIGKILL)
            work(*args)
            os.kill(os.getpid(), signal.SIGKILL)

        setattr(owner, name, killed)
    answer_and_send(one, folder)
