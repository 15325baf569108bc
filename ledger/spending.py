"""The joint cost of jobs, and whether a budget covers it: sums of job costs under the filters of a period."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from dp.cost.accounting import ORDERS, Floats, epsilon_of_rdp
from dp.cost.events.record import UnknownEventError, event_from, rdp_of
from dp.cost.gaussian_filter import (
    UNKNOWN,
    GaussianCost,
    GaussianFilter,
    division_of,
    gaussian_epsilon,
    part_of_budget,
)
from dp.cost.job_cost import CostError, JobCost
from dp.cost.odometer import reading
from dp.cost.renyi_filter import FilterOrder, RenyiFilter, orders_of_budget
from dp.cost.views import View
from ledger.entry import Reserved
from service.errors import ServiceError

_MAY_BE_WORSE_IN_VERSION_1 = frozenset({"least-squares", "low-rank"})
"""Analyses with a sketch method, for which the coordinator's view may cost more than the coalition's."""


class ChargeError(ServiceError):
    """A job cannot be charged; the text is public and goes to the analyst."""

    code = "charge-refused"


class BudgetExhaustedError(ChargeError):
    """The remaining budget does not cover the job."""

    code = "budget-exhausted"


@dataclass(frozen=True, eq=False)
class Spending:
    """The joint cost of some jobs.

    Attributes:
        curve: sum of the jobs' curves, at each of `dp.cost.accounting.ORDERS`.
        n_events: how many releases were added.
        n_jobs: how many jobs.
        only: the cost of the only job, where there is exactly one whose views are all recorded.
        least_colluding: colluding parties from which the data are hidden, in the job that withstands fewest; None where
            no job states it.
        n_earlier: how many of the jobs were admitted by the rule of version 1, which covered no adaptive choice, and
            did not record how many colluding parties they withstand.
        gaussian: sum of the jobs' costs as rounded Gaussian noise.
        is_gaussian_first: whether the job that came first has nearly Gaussian noise and no other; None without jobs.
    """

    curve: Floats = field(default_factory=lambda: np.zeros(len(ORDERS)), repr=False)
    n_events: int = 0
    n_jobs: int = 0
    only: JobCost | None = None
    least_colluding: int | None = None
    n_earlier: int = 0
    gaussian: GaussianCost = field(default_factory=GaussianCost)
    is_gaussian_first: bool | None = None

    def __add__(self, other: "Spending") -> "Spending":
        numbers = [one.least_colluding for one in (self, other) if one.least_colluding is not None]
        return Spending(
            self.curve + other.curve,
            self.n_events + other.n_events,
            self.n_jobs + other.n_jobs,
            other.only if self.n_jobs == 0 else self.only if other.n_jobs == 0 else None,
            min(numbers, default=None),
            self.n_earlier + other.n_earlier,
            self.gaussian + other.gaussian,
            other.is_gaussian_first if self.is_gaussian_first is None else self.is_gaussian_first,
        )

    def epsilon(self, delta: float) -> float:
        """Return the joint epsilon, rounded up, under the assumption that all jobs were fixed in advance.

        0 without jobs. It is no guarantee if jobs were chosen by the results of others; `Cover` gives that guarantee.
        """
        if self.only is not None:
            return self.only.epsilon(delta).epsilon
        if not self.n_events:
            return 0.0
        by_curves = epsilon_of_rdp(self.curve, self.n_events, delta).epsilon
        return min(by_curves, gaussian_epsilon(self.gaussian, self.n_jobs, delta))


@dataclass(frozen=True)
class Cover:
    """How a budget, or an analyst's part of it, covers some jobs.

    Attributes:
        spending: spending of the jobs.
        filter: filter that admits jobs.
        gaussian: the filter beside it, with a part of delta of its own; None in periods without one.
    """

    spending: Spending
    filter: RenyiFilter
    gaussian: GaussianFilter | None = None

    @property
    def epsilon(self) -> float:
        """Epsilon of the jobs, under the assumption that all of them were fixed in advance."""
        return self.spending.epsilon(self.filter.delta)

    @property
    def odometer(self) -> float:
        """Epsilon of the jobs at every moment at once, however they were chosen (`dp.cost.odometer`)."""
        return reading(self.spending.curve, self.spending.n_events, self.filter.orders[0].order, self.filter.delta)

    @property
    def used(self) -> float:
        """The fraction of the budget that the jobs use; more than 1 if it does not cover them.

        The only job of a period was chosen before anything was seen, so its own epsilon is enough; see
        `dp.cost.renyi_filter.RenyiFilter`. Beyond the filters it then uses up all, and nothing else is admitted.
        """
        part = self._tightest[1]
        only = self.spending.only
        if part > 1 and only is not None and only.epsilon(self.filter.delta).epsilon <= self.filter.epsilon:
            return 1.0
        return part

    @property
    def is_covered(self) -> bool:
        """Whether the jobs may run, however they were chosen."""
        return self.used <= 1

    @property
    def _tightest(self) -> tuple[str, float]:
        """Which filter decides, in words, and the fraction of its bound that the jobs use."""
        order, part = self.filter.tightest(self.spending.curve, self.spending.n_events)
        if self.gaussian is not None:
            of_gaussian = self.gaussian.used(self.spending.gaussian, self.spending.n_jobs)
            if of_gaussian < part:
                return "as Gaussian noise", of_gaussian
        return f"at Renyi order {order}", part

    def described(self) -> str:
        """Return a text on how much of the budget the jobs use."""
        where, used = self._tightest
        come_to = (
            f"epsilon {self.epsilon:.4g} of {self.filter.epsilon:.4g} at delta {self.filter.delta:g}, worst view of "
            f"each job"
        )
        if self.epsilon > self.filter.epsilon:
            return come_to
        part = f"{100 * used:.4g} %" if math.isfinite(used) else "more than all"
        return (
            f"{come_to}, were they all chosen beforehand; as a job may be chosen by the results of others, they are "
            f"added up by filters fixed before the first, and use {part} of the budget {where}"
        )


def cover_of(
    spending: Spending,
    epsilon: float,
    delta: float,
    orders: tuple[FilterOrder, ...] | None = None,
    gaussian_part: Fraction | None = None,
) -> Cover:
    """Return how (epsilon, delta) covers some jobs.

    Args:
        spending: spending of the jobs.
        epsilon: epsilon of the budget, or of a limit.
        delta: delta of the budget, or of a limit.
        orders: orders of the period; by default orders and part are those of the budget.
        gaussian_part: Gaussian part of the period, see `dp.cost.gaussian_filter.division_of`.
    """
    if orders is None:
        orders, gaussian_part = orders_of_budget(epsilon, delta), part_of_budget(epsilon, delta)
    orders, of_gaussian = division_of(
        delta,
        orders,
        gaussian_part,
        is_gaussian_first=spending.is_gaussian_first is True,
    )
    gaussian = None if of_gaussian is None else GaussianFilter(epsilon, of_gaussian)
    return Cover(spending, RenyiFilter(epsilon, delta, orders), gaussian)


def spending_of(reserved: Reserved) -> Spending:
    """Return what a job costs, from its record.

    Version 1 recorded the coalition's view alone. It dominates the other one at every order, except in sketches: what a
    job that may have released one cost against the coordinator is not known, so it is taken to be beyond every budget.

    Raises:
        ChargeError: the record states no cost, one that is unknown, or one for other neighbours than budgets are.
    """
    if reserved.version == 1:
        records = reserved.events["coalition"]
        is_known = not (
            reserved.analysis in _MAY_BE_WORSE_IN_VERSION_1
            and any(record.get("event") == "discrete gaussian" for record in records)
        )
        curve = _sum_of_version_1(_canonical(records)) if is_known else np.full(len(ORDERS), math.inf)
        return Spending(curve, len(records), 1, n_earlier=1, gaussian=UNKNOWN, is_gaussian_first=False)
    stated = _Stated(_canonical(reserved.events), reserved.unit, reserved.colluding or 0, reserved.events)
    return _spending(_cost(stated), reserved.colluding)


def spending_of_one(cost: JobCost) -> Spending:
    """Return what one job costs by itself, where no ledger holds it.

    Raises:
        ChargeError: the cost of a release is unknown or not finite.
    """
    with _as_charge_error():
        _check_curve(cost.curve)
        return _spending(cost, cost.colluding)


def _spending(cost: JobCost, colluding: int | None) -> Spending:
    gaussian = cost.gaussian
    return Spending(
        cost.curve, cost.n_events, 1, cost, colluding, gaussian=gaussian, is_gaussian_first=gaussian.is_known
    )


def _canonical(records: object) -> str:
    return json.dumps(records, sort_keys=True)


@dataclass(frozen=True)
class _Stated:
    """The cost of a job as its entry states it; equal where the text of the releases is."""

    text: str
    unit: str
    colluding: int
    events: Mapping[View, Sequence[Mapping[str, Any]]] = field(compare=False, repr=False)


@lru_cache(maxsize=4096)
def _cost(stated: _Stated) -> JobCost:
    with _as_charge_error():
        events = {view: tuple(map(event_from, records)) for view, records in stated.events.items()}
        cost = JobCost(events, stated.unit, stated.colluding)
        _check_curve(cost.curve)
        return cost


@lru_cache(maxsize=4096)
def _sum_of_version_1(records_json: str) -> Floats:
    with _as_charge_error():
        curve: Floats = np.sum([rdp_of(event_from(record)) for record in json.loads(records_json)], axis=0)
        _check_curve(curve)
        return curve


def _check_curve(curve: Floats) -> None:
    if math.isnan(curve.sum()) or not math.isfinite(curve[0]):  # inf at higher orders: no bound is known there
        raise ChargeError("the cost of an event is not finite")


@contextmanager
def _as_charge_error() -> Iterator[None]:
    try:
        yield
    except (UnknownEventError, CostError) as error:
        raise ChargeError(str(error)) from error
