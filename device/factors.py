"""A device in a matrix factorization: one user's ratings in a series of masked sums, paid for round by round.

Before its first message the device holds the cost of every round that is still to come in its ledger; each round is
committed before the record is read and the masked vector leaves. A device that was stopped, or that missed rounds,
holds the rest again when it is next invited, and takes part from there on: each round is bound to its own model, its
own keys and its own charge, and nothing of another round is needed. What it holds is given back when the series is
over, or when it has heard of no further round for as long as one can take.

In the form sgd a device throws a coin for each vector, with a key of its own that stays on its disk until the series
is over, and counts the vector there before it leaves: so it is in no more of them than the question says, however often
it was stopped. Nobody else sees a coin: what is held, paid, read and sent is the same either way.

The model that the series comes to is kept for the device's own recommendations.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import structlog
from numpy.typing import NDArray

from analyses.job.job import LEAST_EPSILON, JobError
from analyses.matrix_factorization.devices.descent_rounds import DescentRounds
from analyses.matrix_factorization.devices.planned import factor_round_config, rounds_of
from analyses.matrix_factorization.devices.question import NAME, read_public_input
from analyses.matrix_factorization.devices.record import Coins, UsedRatings, device_vector, no_ratings
from analyses.matrix_factorization.devices.rounds import DeviceRounds
from analyses.matrix_factorization.model import FactorModel
from device.budget import DeviceBudget
from device.journal import SqliteSampleJournal
from device.models import KeptModel, keep_model
from device.ratings import KeptRatings
from device.records import zeros_if_raised
from device.refusing import check_least_epsilon, why_failed
from device.report import write_factor_report
from entropy import Entropy
from entropy.stream import KEY_BYTES
from ledger.books import ChargeError
from ledger.entry import LedgerError
from mpc.errors import PeerViolationError
from mpc.protocol.session import COORDINATOR
from mpc.secagg.config import RoundConfig
from mpc.secagg.errors import PolicyRefusalError
from mpc.secagg.stage import Stage
from mpc.transcript import digest
from transport.sum_codec import Invitation

STAGES = 5
"""Stages of a round; each lasts at most the question's `stage_s`."""

Integers = NDArray[np.int64]

_log = structlog.get_logger(__name__)


@dataclass
class FactorDevice:
    """The part of a device that answers matrix factorizations.

    Attributes:
        name: name of the device.
        ratings: what it keeps, by name; read anew for each round.
        budget: its ledger; without one it answers nothing.
        entropy: where its noise comes from.
        data_dir: where reports and models are kept; None for none.
        largest_epsilon: largest epsilon of all rounds of a question together, in the worst view, at the budget's
            delta; None: no limit but the budget's. It changes when the owner changes it.
        least_epsilon: least epsilon of a question, for all rounds together, at its own delta.
        samples: what it remembers of coins; without it no question of the form sgd is answered.
    """

    name: str
    ratings: Mapping[str, KeptRatings]
    budget: DeviceBudget | None
    entropy: Entropy
    data_dir: Path | None = None
    largest_epsilon: float | None = None
    least_epsilon: float = LEAST_EPSILON
    samples: SqliteSampleJournal | None = None
    _asked: dict[str, DeviceRounds] = field(default_factory=dict, init=False, repr=False)
    _held: dict[str, threading.Timer] = field(default_factory=dict, init=False, repr=False)

    def entered(self, invitation: Invitation) -> "FactorRound | None":
        """Return the round that an invitation is to; None where its question is of another kind.

        Raises:
            JobError: the question cannot be read, or no rounds follow from it.
            PeerViolationError: the round does not match its question, or the model is of another round or off the
                lattice.
        """
        found = read_public_input(invitation.public_input)
        if found is None:
            return None
        question, written = found
        if question.record not in self.ratings:
            raise JobError(f"record: {self.name} declares no ratings {question.record}")
        round_id = invitation.round_id
        rounds = rounds_of(question, len(invitation.roster))
        config = invitation.checked(factor_round_config(rounds, round_id, invitation.identities))
        model = rounds.model_before(round_id.number, written)
        return FactorRound(self, rounds, config, model, self.ratings[question.record])

    def hold(self, rounds: DeviceRounds, config: RoundConfig) -> None:
        """Hold the cost of a round and of all that follow it.

        Raises:
            PolicyRefusalError: all rounds together cost more than the owner allows.
            PeerViolationError: what is held under the name of the series is for another question.
            BudgetExhaustedError: what is left does not cover the rounds to come.
            ChargeError, LedgerError: there is no budget, its delta is smaller, or it cannot be written.
        """
        if self.budget is None:
            raise ChargeError(f"{self.name} keeps no privacy ledger, so it takes part in no noisy sum")
        check_least_epsilon(rounds.question.privacy.epsilon, self.least_epsilon)
        delta = self.budget.check_delta(rounds.question)
        session, number = config.round_id.session, config.round_id.number
        if self._asked.get(session, rounds) != rounds:
            what = "two questions have the name of one series: what is held for one does not pay for the other"
            raise PeerViolationError(COORDINATOR, Stage.ADVERTISE, what)
        epsilon = rounds.cost_of_all().epsilon(delta).epsilon
        if self.largest_epsilon is not None and epsilon > self.largest_epsilon:
            what = f"epsilon is {epsilon:.3g} at delta {delta:g}, of all rounds in the worst view; "
            raise PolicyRefusalError(COORDINATOR, Stage.ADVERTISE, what + f"at most {self.largest_epsilon:g} here")
        n_before = self._samples().n_begun(series_of(rounds, session)) if is_sampled(rounds) else 0
        self._hears_of(session)
        self.budget.hold_rounds(session, rounds.charges(number, n_before), NAME)
        self._asked[session] = rounds

    def commit(self, rounds: DeviceRounds, config: RoundConfig) -> Coins | None:
        """Make the cost of a vector spent; see `DeviceBudget.commit_round`.

        A coin is counted once its charge is spent, not before: a device that is killed in between pays once more. The
        other way round it would have used up a number that costs something without paying, and pay too little for as
        many vectors as leave.

        Returns:
            What the coin for this vector is thrown with, which is counted now; None where there are no samples.
        """
        assert self.budget is not None
        session, number, series = config.round_id.session, config.round_id.number, b""
        n_before = 0
        if is_sampled(rounds):
            series = series_of(rounds, session)
            n_before = self._samples().n_begun(series)
        charge = rounds.charge_of(number, n_before)
        if charge is not None:
            self.budget.commit_round(session, charge)
        if not is_sampled(rounds):
            return None
        return Coins(*self._samples().begin(series, self.entropy.read(KEY_BYTES)))

    def _samples(self) -> SqliteSampleJournal:
        if self.samples is None:
            what = f"{self.name} keeps no memory of its coins, so it takes part in no rounds about samples"
            raise PolicyRefusalError(COORDINATOR, Stage.ADVERTISE, what)
        return self.samples

    def leave(self, rounds: DeviceRounds, config: RoundConfig, *, is_over: bool) -> None:
        """Give back what is held for later rounds: now where there are none, else after a silence."""
        session = config.round_id.session
        self._hears_of(session)
        if is_over:
            self._give_back(session, "the series is over")
            if self.samples is not None and is_sampled(rounds):
                self.samples.forget(series_of(rounds, session))
            return
        question = rounds.question
        silence_s = STAGES * question.stage_s * (question.attempts + 1)
        timer = threading.Timer(silence_s, self._give_back, (session, "no further round was heard of"))
        timer.daemon = True
        self._held[session] = timer
        timer.start()

    def close(self) -> None:
        """Forget what is held in silence; the next start gives it back."""
        for session in tuple(self._held):
            self._hears_of(session)
        self._asked.clear()

    def _hears_of(self, session: str) -> None:
        if (timer := self._held.pop(session, None)) is not None:
            timer.cancel()

    def _give_back(self, session: str, reason: str) -> None:
        if self.budget is None:
            return
        try:
            self.budget.release_rounds(session, reason)
            self._asked.pop(session, None)
        except LedgerError as error:
            _log.error("reservation kept", member=self.name, session=session, reason=str(error))


@dataclass
class FactorRound:
    """One round of one question; see `device.answered_round.AnsweredRound`.

    Attributes:
        device: whose.
        rounds: rounds of the question.
        config: configuration of the attempt.
        model: that the round starts from, checked; None for round 0.
        kept: the user's ratings; not read yet.
    """

    device: FactorDevice
    rounds: DeviceRounds
    config: RoundConfig
    model: FactorModel | None
    kept: KeptRatings
    _coins: Coins | None = field(default=None, init=False, repr=False)

    def admit(self) -> None:
        """See `AnsweredRound`."""
        self.kept.declared.check(self.rounds.question)
        self.device.hold(self.rounds, self.config)

    def commit(self) -> None:
        """See `AnsweredRound`."""
        self._coins = self.device.commit(self.rounds, self.config)

    def contribute(self, seeds: tuple[bytes, ...]) -> tuple[Integers, Integers | None]:
        """See `AnsweredRound`."""
        number, declared = self.config.round_id.number, self.kept.declared
        noise = self.rounds.noise(number)

        def of_record() -> tuple[UsedRatings, Integers]:
            used = self.kept.used()
            vector = device_vector(self.rounds, number, self.model, declared, used, self._coins)
            self.rounds.encoding(number).check_values(vector)
            return used, vector

        def zeros(why: str) -> tuple[UsedRatings, Integers]:
            return no_ratings(why), np.zeros(noise.length, dtype=np.int64)

        used, vector = zeros_if_raised(of_record, zeros)
        drawn = noise.draw(self.device.entropy, seeds)
        self._report(used)
        return vector, drawn

    def leave(self, outcome: bytes) -> None:
        """See `AnsweredRound`: keep the model that the series came to."""
        self.device.leave(self.rounds, self.config, is_over=bool(outcome))
        if outcome and self.device.data_dir is not None:
            log = _log.bind(member=self.device.name, round=str(self.config.round_id))
            try:
                model = KeptModel.released(self.rounds, outcome)
                path = keep_model(self.device.data_dir, self.config.round_id.session, model)
                log.info("kept the model", path=str(path))
            except Exception as error:
                log.error("model not kept", reason=why_failed(error))

    def _report(self, used: UsedRatings) -> None:
        """Store the private report. An error does not fail the round, because others would learn about this device."""
        device = self.device
        if device.data_dir is None or device.budget is None:
            return
        try:
            write_factor_report(device.data_dir, self.rounds, self.config, used, device.budget.standing())
        except Exception as error:
            _log.error("report not kept", member=device.name, round=str(self.config.round_id), reason=why_failed(error))


def is_sampled(rounds: DeviceRounds) -> bool:
    """Whether rounds are about samples, for which coins are thrown."""
    return isinstance(rounds, DescentRounds)


def series_of(rounds: DeviceRounds, session: str) -> bytes:
    """Return the name of a series among a device's coins: that of the session, the question and how many are asked."""
    return digest("coins of a series", session, rounds.question.canonical_json(), rounds.topology.n_members)
