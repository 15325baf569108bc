"""The privacy budget of one device over all masked sums and surveys: its own ledger, charged before anything leaves.

A device is one person: one budget covers all its records. A response to a survey is charged before it is drawn. The
cost of a round is that of its worst view with as few survivors as the round allows. It is reserved before the device
enters and committed before its record is read and its masked vector leaves; a round that it leaves before costs
nothing, and has shown nothing of the record. Of a series of rounds all that are still to come are held before the
device enters one, and each is committed by itself. Each attempt of a round is charged by itself once its masked vector
is out, though at most one is meant to be opened: the device cannot see what became of the others' shares.

Names of charges begin with their kind: `sum:`, `series:`, `survey-`, `batch-`. The session in the first two is quoted,
so no session that a coordinator makes up has a name of another kind, or of another session. Ledgers of earlier versions
have `SESSION-ROUND-ATTEMPT` and `series-SESSION-ROUND-CHARGE` in place of these. They stay spent or given back as they
are, and nothing is held under them any more: each start gives back what was held.
"""

from collections.abc import Mapping
from fractions import Fraction
from itertools import count
from math import nextafter
from pathlib import Path
from typing import Annotated, Any, Self
from urllib.parse import quote

from pydantic import Field, StrictFloat, model_validator

from analyses.matrix_factorization.devices.question import FactorQuestion
from analyses.sums.noise import SumNoise
from analyses.sums.secure_sum import SumParams
from dp.cost.job_cost import JobCost
from dp.cost.views import MEMBER_UNIT
from ledger.books import ChargeError, JobState
from ledger.budget import Budget
from ledger.entry import BudgetSet, ExactRelease
from ledger.ledger import Ledger, open_ledger
from mpc.transcript import RoundId
from service.settings import Settings, SettingsError

DATASET = "records"
"""Name in the ledger of the device's data as a whole."""

CHARGE_BYTES = 16
"""Length of the part of a response's key that names its charge. Two keys that agree in it have one charge, and only one
of them is answered."""


MAX_DEVICES_OF_PERSON = 64
"""Largest number of devices among which a person's budget is divided."""


def _rounded_down(exact: Fraction) -> float:
    """Return the largest float that is at most a positive number."""
    near = float(exact)
    return near if Fraction(near) <= exact else nextafter(near, 0.0)


class SumBudgetConfig(Settings):
    """Section `[policy.budget]`: what all sums and surveys of a period together may tell; see `device.budget`.

    Attributes:
        period: a name: another one starts with nothing spent.
        epsilon: may be reached, not passed, in the worst view of each sum.
        delta: at which it and `largest_epsilon` are stated, below 1 over the number of members. A sum that asks for a
            larger one is refused.
        devices_of_person: k, devices that the person has. Epsilon and delta are those of the person then, and this
            device has a k-th part of either; see `as_budget`.
        reason: why it is so, in the owner's words: an entry of the ledger where the budget is set or changes. A change
            needs another reason than the one before it.
    """

    period: str
    epsilon: StrictFloat
    delta: StrictFloat
    devices_of_person: Annotated[int, Field(ge=1, le=MAX_DEVICES_OF_PERSON)] = 1
    reason: Annotated[str, Field(max_length=200, pattern=r"\S")]

    @model_validator(mode="after")
    def _is_a_budget(self) -> Self:
        self.as_budget()
        return self

    def as_budget(self) -> Budget:
        """Return it as this device's ledger keeps it: of the person's budget a k-th part, rounded down.

        Claim. If each of the k devices of a person has such a budget, all that they send together is (epsilon,
        delta)-private for the person, whose records at all of them may change at once. Proof: each draws its noise by
        itself, and its ledger makes what it sends (epsilon / k, delta / k)-private for its own records, whoever asks
        it what. Questions to one may follow from answers of another; interactive mechanisms that are asked in turns
        compose as others do [VadhanZhang23], so epsilons and deltas add up.
        """
        whole = Budget(MEMBER_UNIT, self.period, self.epsilon, self.delta)
        epsilon, delta = (_rounded_down(Fraction(one) / self.devices_of_person) for one in (whole.epsilon, whole.delta))
        return Budget(MEMBER_UNIT, self.period, epsilon, delta)


class DeviceBudget:
    """The ledger of one device. Its calls block; run them off the event loop.

    Args:
        ledger: ledger of this device.
        asker: under whose name rounds are written down: the coordinator's, which a device knows.
        budget: budget in the owner's file; None for none: then no noisy sum is answered. It is an entry of the ledger
            where it changes.
        reason: reason for the budget, in the owner's words; goes into that entry.
        devices_of_person: devices that have such a budget each, of which the person's is made.

    Raises:
        SettingsError: the budget was changed, but its reason is that of the change before.
    """

    def __init__(
        self, ledger: Ledger, asker: str, budget: Budget | None, reason: str, devices_of_person: int = 1
    ) -> None:
        self._ledger = ledger
        self._asker = asker
        self._budget, self._devices_of_person = budget, devices_of_person
        ledger.release_leftovers("the device was stopped before anything left")
        if budget is not None:
            before = ledger.balance(DATASET)
            if before is None or before.budget != budget:
                if reason == _last_reason(ledger):
                    raise SettingsError(
                        "policy.budget.reason: the budget was changed, so the reason must be changed, too"
                    )
                ledger.set_budget(DATASET, budget, reason)

    @classmethod
    def open(
        cls,
        data_dir: Path,
        name: str,
        holder: str,
        asker: str,
        budget: Budget | None,
        reason: str,
        devices_of_person: int = 1,
    ) -> "DeviceBudget":
        """Open the ledger in a device's folder.

        Raises:
            LedgerError: it cannot be used, or was tampered with.
            SettingsError: see the class.
        """
        path, counter = data_dir / "ledger.sqlite", data_dir / "ledger.counter"
        ledger = open_ledger(name, path=path, url=None, counter=counter, holder=holder)
        try:
            return cls(ledger, asker, budget, reason, devices_of_person)
        except BaseException:
            ledger.close()
            raise

    def close(self) -> None:
        """Close the ledger."""
        self._ledger.close()

    def check_delta(self, params: SumParams | FactorQuestion) -> float:
        """Refuse a question about a larger delta than the budget's; return the budget's, which the owner chose.

        At a larger delta any noise has a small epsilon: the owner's limits would mean nothing.

        Raises:
            ChargeError: it is larger, or there is no budget.
        """
        if self._budget is None:
            raise ChargeError("this device has no privacy budget (policy.budget), so it takes part in no noisy sum")
        if params.privacy is not None and params.privacy.delta > self._budget.delta:
            raise ChargeError(
                f"delta is {params.privacy.delta:g}, which is larger than {self._budget.delta:g}, the delta of this "
                "device's budget"
            )
        return self._budget.delta

    def reserve(self, round_id: RoundId, params: SumParams, noise: SumNoise) -> None:
        """Hold the cost of a noisy round.

        Raises:
            BudgetExhaustedError: what is left does not cover it.
            ChargeError: there is no budget, its delta is smaller, or the round was charged before.
            LedgerError: it cannot be written.
        """
        self.check_delta(params)
        self._reserve(charge_id(round_id), params.analysis, cost_of(noise))

    def commit(self, round_id: RoundId, params: SumParams) -> None:
        """Count the round as spent, an exact one as opened; only then the masked vector may leave.

        Raises:
            ChargeError: it holds no reservation, or was counted before.
            LedgerError: it cannot be written.
        """
        if params.privacy is None:
            self.charge_answer(charge_id(round_id), params.analysis, None)
        else:
            self._ledger.commit(charge_id(round_id))

    def hold_rounds(self, session: str, costs: Mapping[int, JobCost], analysis: str) -> None:
        """Hold the cost of each of several rounds of a series, or of none; what is held already stays.

        A round whose earlier charge was committed or given back gets another one: a masked vector of another attempt
        costs again.

        Args:
            session: session of the series.
            costs: number of the round to its cost.
            analysis: what is asked.

        Raises:
            BudgetExhaustedError: what is left does not cover all of them.
            ChargeError: there is no budget.
            LedgerError: it cannot be written.
        """
        made = []
        try:
            for number, cost in costs.items():
                name, is_held = self._charge_of_round(session, number)
                if not is_held:
                    self._reserve(name, analysis, cost)
                    made.append(name)
        except BaseException:
            for name in made:
                self._ledger.release(name, "the later rounds could not be held")
            raise

    def commit_round(self, session: str, number: int) -> None:
        """Make the cost of a round of a series spent; only then its masked vector may leave.

        Raises:
            ChargeError: nothing is held for it.
            LedgerError: it cannot be written.
        """
        name, is_held = self._charge_of_round(session, number)
        if not is_held:
            raise ChargeError(f"nothing is held for round {number} of {session}: nothing may leave")
        self._ledger.commit(name)

    def release_rounds(self, session: str, reason: str) -> None:
        """Give back what is held for rounds of a series and was not committed.

        Raises:
            LedgerError: it cannot be written.
        """
        for name in self._ledger.reserved(series_charge_id(session, "")):
            self._ledger.release(name, reason)

    def _charge_of_round(self, session: str, number: int) -> tuple[str, bool]:
        """Return the charge of a round that is held, or the next that is not used; and whether it is held."""
        for place in count():
            name = series_charge_id(session, f"{number}-{place}")
            charge = self._ledger.charge(name)
            if charge is None or charge.state is JobState.RESERVED:
                return name, charge is not None
        raise AssertionError("there is always another name")

    def charge_answer(self, name: str, analysis: str, cost: JobCost | None) -> None:
        """Make the cost of an answer spent, or list it where it is exact. Only when this has returned, it may be made.

        Args:
            name: name of the charge.
            analysis: what is asked.
            cost: cost of the answer; None for an exact one.

        Raises:
            BudgetExhaustedError: what is left does not cover it.
            ChargeError: there is no budget, or the answer was charged before.
            LedgerError: it cannot be written.
        """
        if cost is None:
            self._ledger.record_exact(name, dataset=DATASET, analyst=self._asker, analysis=analysis, consent="policy")
            return
        if self._budget is None:
            raise ChargeError("this device has no privacy budget (policy.budget), so it answers nothing that costs")
        self._reserve(name, analysis, cost)
        self._ledger.commit(name)

    def answer_state(self, name: str) -> JobState | None:
        """Return how far the charge of an answer has come; None where there is none, or it is an exact one."""
        charge = self._ledger.charge(name)
        return None if charge is None else charge.state

    def _reserve(self, name: str, analysis: str, cost: JobCost) -> None:
        self._ledger.reserve(name, dataset=DATASET, analyst=self._asker, analysis=analysis, consent="policy", cost=cost)

    def release(self, round_id: RoundId, reason: str) -> None:
        """Release the reservation of a round if it was not committed."""
        self._ledger.release(charge_id(round_id), reason)

    def standing(self) -> dict[str, Any] | None:
        """Return the state of the budget, for its owner only; None if there is no budget."""
        balance = None if self._budget is None else self._ledger.balance(DATASET)
        return None if balance is None else balance.as_dict() | {"devices_of_person": self._devices_of_person}


def read_device_ledger(data_dir: Path, name: str) -> dict[str, Any]:
    """Return `budget`, how it stands (None where none was ever set), and `exact_sums`, how many were answered.

    Raises:
        SettingsError: there is no ledger yet.
        LedgerError: it cannot be used, or was tampered with.
    """
    path = data_dir / "ledger.sqlite"
    if not path.exists():
        raise SettingsError(f"{path}: there is no ledger yet; `moiety device run` creates it")
    ledger = open_ledger(name, path=path, url=None, counter=data_dir / "ledger.counter", holder="a reader")
    try:
        balance = ledger.balance(DATASET)
        exact = sum(isinstance(entry.what, ExactRelease) for entry in ledger.history())
        return {"budget": None if balance is None else balance.as_dict(), "exact_sums": exact}
    finally:
        ledger.close()


def cost_of(noise: SumNoise) -> JobCost:
    """Return what a device is charged for a round with this noise, as every job is (`dp.cost.job_cost`)."""
    return JobCost.of(noise.events, MEMBER_UNIT, noise.n_corrupt)


def _last_reason(ledger: Ledger) -> str | None:
    changes = [entry.what for entry in ledger.history() if isinstance(entry.what, BudgetSet)]
    return changes[-1].reason if changes else None


def charge_id(round_id: RoundId) -> str:
    """Return the name of an attempt in the ledger."""
    return f"sum:{_quoted(round_id.session)}:{round_id.number}-{round_id.attempt}"


def _quoted(session: str) -> str:
    """Return a session without the mark that separates the parts of a name: any text, as the coordinator makes it."""
    return quote(session, safe="")


def answer_charge_id(kind: str, key: bytes) -> str:
    """Return the name in the ledger of an answer to a question of a kind, by its key in the store."""
    return f"{kind}-{key[:CHARGE_BYTES].hex()}"


def series_charge_id(session: str, which: str) -> str:
    """Return the name in the ledger of a charge in a series; which: the number of the round, and the charge's."""
    return f"series:{_quoted(session)}:{which}"
