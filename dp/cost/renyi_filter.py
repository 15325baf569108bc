"""A privacy filter: decides whether another job may run when jobs are chosen adaptively by the results of others.

Composing at the best Renyi order is sound for jobs that were all fixed beforehand. Where a job is chosen by the results
of others, the best order may differ from one course of events to another, and each course then uses up the whole delta:
with (1, 1e-6), a first job of two randomized responses and a second one chosen by what they said, the true delta is
2.51e-6 (`tests/accounting/test_adaptive_composition.py` has the exact numbers). A filter chooses its orders before.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Self

import numpy as np

from dp.cost.accounting import ORDERS, Floats, check_delta, check_epsilon

TOP_ORDER = int(ORDERS[-1])
_SHARES = (Fraction(4, 128), Fraction(2, 128), Fraction(1, 128))
"""Parts of delta that go with twice and six times the main order, and with the largest; the main order has the rest."""


@dataclass(frozen=True)
class FilterOrder:
    """One order of a filter.

    Attributes:
        order: one of `dp.cost.accounting.ORDERS`.
        share: the part of delta that goes with it, positive.
    """

    order: int
    share: Fraction

    def __post_init__(self) -> None:
        if self.order not in _INDEX or not 0 < self.share <= 1:
            raise ValueError("each order of a filter must be on the grid and must have a positive part of delta")


@dataclass(frozen=True)
class RenyiFilter:
    """Admits jobs whose costs add up, at one of a few orders fixed beforehand, to no more than a budget allows there.

    With order a_k goes delta_k = share_k delta, and the bound r_k for which Renyi divergence r_k of order a_k gives
    (epsilon, delta_k) by proposition 12 of [CKS20]:

        r_k = epsilon - ln(1 - 1 / a_k) + (ln delta_k + ln a_k) / (a_k - 1).

    A set of jobs with costs c_j (curves that bound the Renyi divergence at every order) is covered if
    sum_j c_j(a_k) <= r_k for some k. Shares add up to at most 1.

    CLAIM. Let jobs be created one after the other, each with a cost c_j that is public and fixed when it is created,
    and with randomness of its own. Which job is created, when, whether it goes on and what is asked of it may depend in
    any way on all that was seen so far, also of jobs that are still running and interact. If at each creation all jobs
    created so far are covered, everything together is (epsilon, delta)-private for the neighbours that the costs are
    about.

    PROOF. P and Q are the distributions of all that is ever seen, the choices included, on two neighbouring tables.

    *One order.* Fix k, and stop as soon as a job would be created with which sum c_j(a_k) > r_k. For jobs that answer
    once: given the past, c_j is a number, and E_Q[(p_j / q_j)^a | past] <= exp((a - 1) c_j(a)); so the product over the
    jobs of (p_j / q_j)^a exp(-(a - 1) c_j(a)) is a supermartingale under Q that starts at 1, and since sum c_j(a) <= r
    whatever happened, E_Q[(P / Q)^a] <= exp((a - 1) r): the Renyi filter of [FeldmanZrnic21], also in
    [Lecuyer21]. For jobs that interact and run at the same time: by [Haney23], every filter that is valid for Renyi
    privacy of one fixed order and jobs that answer once is valid for concurrently running interactive jobs whose
    parameters are chosen adaptively; for fixed parameters this is the concurrent composition theorem of [Lyu22], after
    [VadhanWang21] for pure privacy ([VadhanZhang23] has it for f-privacy). Hence the stopped process has divergence at
    most r_k at order a_k, and P_k(S) <= e^epsilon Q_k(S) + delta_k for every event S.

    *Several orders.* Costs are nonnegative, so the set of orders at which everything created so far is within its bound
    only shrinks, and by assumption never gets empty. Let A_k be the event that k is the first order left at the end;
    these events split all courses. On A_k the process that stops for order k never stops, so P = P_k and Q = Q_k there:

        P(S) - e^epsilon Q(S) = sum_k (P_k(S and A_k) - e^epsilon Q_k(S and A_k)) <= sum_k delta_k <= delta.

    *The first job alone.* Whoever keeps the books may also admit, as long as no other job was created or promised, one
    job that is (epsilon, delta)-private by itself, by whatever accounting. If it is not covered, no other job ever is,
    as costs only grow; so what is seen is what that job shows. It was chosen before anything was seen, with the same
    probability under P and Q; both cases are (epsilon, delta)-private, and so is their mixture. QED

    A job that was promised but never created releases nothing and needs no cost; promising only what would be covered
    together with all other promises keeps the assumption. Bounds that are raised meanwhile, with the orders kept, are
    covered as though the largest had been in force throughout, provided that no result decided about raising them.

    Why these orders (`orders_of_budget`): at a budget that releases with nearly Gaussian noise use up exactly, their
    curves touch the bound at the main order, so such jobs lose less than 1.5 %, at a delta of 1e-5 or less, to a rule
    that chose the best order afterwards. Randomized response and Laplace noise, whose loss is bounded, use up a budget
    at the largest order; mixtures of both do so between the two. Small parts of delta cost little at large orders, as
    r_k falls by ln(1 / share_k) / (a_k - 1). What each order is worth: docs/decisions/012-adaptive-jobs.md.

    Attributes:
        epsilon, delta: parameters of the budget.
        orders: fixed before the first job.
    """

    epsilon: float
    delta: float
    orders: tuple[FilterOrder, ...]

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_delta(self.delta)
        if not self.orders or sum(one.share for one in self.orders) > 1:
            raise ValueError("a filter needs at least one order, and its parts of delta must add up to at most 1")

    @classmethod
    def of_budget(cls, epsilon: float, delta: float) -> Self:
        """Return the filter whose orders follow from the budget.

        Raises:
            CalibrationError: epsilon or delta is out of range.
        """
        return cls(epsilon, delta, orders_of_budget(epsilon, delta))

    def bounds(self) -> list[float]:
        """Return r_k for each order, rounded down; 0 or below where the order covers nothing."""
        return [_bound(self.epsilon, self.delta, one) for one in self.orders]

    def used(self, curve: Floats, n_terms: int) -> float:
        """Return which part of the budget a sum of costs uses: the least over the orders of sum / bound, rounded up.

        Parts add up at each order, so what is left is known exactly where one order decides. At most 1: covered.

        Args:
            curve: at each of `dp.cost.accounting.ORDERS`, the floating-point sum of `n_terms` nonnegative curves; inf
                where no bound is known.
            n_terms: how many were added.
        """
        return self.tightest(curve, n_terms)[1]

    def tightest(self, curve: Floats, n_terms: int) -> tuple[int, float]:
        """Return the order at which the least part of the budget is used, and that part; see `used`."""
        parts = []
        for one, bound in zip(self.orders, self.bounds(), strict=True):
            spent = float(curve[_INDEX[one.order]]) * (1 + 2.0**-40 + n_terms * 2.0**-52)
            part = 0.0 if spent == 0 else spent / bound * (1 + 2.0**-50) if bound > 0 else math.inf
            parts.append((math.inf if math.isnan(part) else part, one.order))
        part, order = min(parts)
        return order, part

    def covers(self, curve: Floats, n_terms: int) -> bool:
        """Whether jobs with this sum of costs are covered; arguments as of `used`."""
        return self.used(curve, n_terms) <= 1


@lru_cache(maxsize=256)
def orders_of_budget(epsilon: float, delta: float) -> tuple[FilterOrder, ...]:
    """Return the orders that a budget begins with: the main one, two and six times that, and the largest of all.

    Raises:
        CalibrationError: epsilon or delta is out of range.
    """
    main = main_order(epsilon, delta)
    shares: dict[int, Fraction] = {}
    for order, share in ((_nearest(2 * main), _SHARES[0]), (_nearest(6 * main), _SHARES[1]), (TOP_ORDER, _SHARES[2])):
        if order != main:
            shares[order] = shares.get(order, Fraction(0)) + share
    rest = 1 - sum(shares.values(), Fraction(0))
    return tuple(FilterOrder(order, share) for order, share in {main: rest, **shares}.items())


def _nearest(order: int) -> int:
    return int(ORDERS[int(np.argmin(np.abs(ORDERS - order)))])


def main_order(epsilon: float, delta: float) -> int:
    """Return the order at which (epsilon, delta) allows the largest curve that is proportional to the order.

    Gaussian noise has such a curve, and Skellam noise nearly. About 1 + sqrt(ln(1 / delta) / rho) for the Gaussian of
    divergence rho a that spends the budget.
    """
    check_epsilon(epsilon)
    check_delta(delta)
    order = ORDERS.astype(np.float64)
    allowed = epsilon - np.log1p(-1 / order) + (math.log(delta) + np.log(order)) / (order - 1)
    return int(ORDERS[int(np.argmax(allowed / order))])


def _bound(epsilon: float, delta: float, one: FilterOrder) -> float:
    order, log_delta = float(one.order), math.log(delta) + math.log(one.share)
    bound = epsilon - math.log1p(-1 / order) + (log_delta + math.log(order)) / (order - 1)
    terms = epsilon + 2 / order + (abs(log_delta) + math.log(order) + 2) / (order - 1)
    return bound - terms * 2.0**-48  # every rounding above has a relative error below 2^-50


_INDEX = {int(order): place for place, order in enumerate(ORDERS.tolist())}


def check_orders(orders: Sequence[tuple[int, str]]) -> tuple[FilterOrder, ...]:
    """Return the orders of a filter that were written down as numbers and fractions.

    Raises:
        ValueError: they are no such orders.
    """
    read = tuple(FilterOrder(int(order), Fraction(share)) for order, share in orders)
    if not read or sum(one.share for one in read) > 1:
        raise ValueError("the parts of delta of a filter must add up to at most 1")
    return read
