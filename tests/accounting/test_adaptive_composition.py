"""Exact true deltas of jobs that are chosen by what earlier ones showed, against what the ledger admits.

Randomized response with k options tells the truth with probability p and else any other option, all alike. Its loss is
ln(p / q), minus that, or 0, so what several of them say together can be enumerated exactly.
"""

from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from ledgers import UNIT, budget, cost_of, records_of

from dp.cost.accounting import Adjacency, epsilon_of_rdp
from dp.cost.events.event import renyi_curve
from dp.cost.events.randomized_response import RandomizedResponseDpEvent
from dp.cost.renyi_filter import RenyiFilter
from ledger.books import Books, ChargeError
from ledger.entry import BudgetSet, Committed, Released, Reserved, genesis, write_entry

EPSILON, DELTA = 1.0, 1e-6
E = Fraction(2718281828459046, 10**15)
"""Above e, so that what is computed with it is below the true delta."""

Outcome = tuple[Fraction, Fraction, int]
"""Probability with the one choice, with the other one, and how many outcomes are alike."""


def response(n_options: int, truthful: float | Fraction) -> RandomizedResponseDpEvent:
    return RandomizedResponseDpEvent(n_options, Fraction(truthful), Adjacency.REPLACE_ONE)


def outcomes_of(event: RandomizedResponseDpEvent) -> dict[str, Outcome]:
    """The outcomes for neighbours who choose option "mine" and option "theirs"."""
    p, q = event.truthful, (1 - event.truthful) / (event.n_options - 1)
    return {"mine": (p, q, 1), "theirs": (q, p, 1), "another": (q, q, event.n_options - 2)}


FIRST = (response(500, Fraction(244171, 10**8)), response(20, Fraction(524290, 10**7)))
"""p / q is about e^0.2 and e^0.05."""

SECOND = {
    ("mine", "mine"): response(2, 0.681500),
    ("mine", "theirs"): response(1505, 0.00159615),
    ("mine", "another"): response(163, 0.0138274),
    ("theirs", "mine"): response(1836331, 1.84755e-06),
    ("theirs", "theirs"): response(6960397, 5.40042e-07),
    ("theirs", "another"): response(4464160, 8.13737e-07),
    ("another", "mine"): response(52577, 5.15304e-05),
    ("another", "theirs"): response(484471, 6.36177e-06),
    ("another", "another"): response(199287, 1.45598e-05),
}
"""The second job, by what the two responses of the first said."""


def delta_of(second: Mapping[tuple[str, str], RandomizedResponseDpEvent | None]) -> Fraction:
    """A lower bound, to 15 digits, of the true delta at epsilon 1 of the first job and the second, None for none."""
    total = Fraction(0)
    one, two = map(outcomes_of, FIRST)
    for said in product(one, two):
        p, q, alike = (one[said[0]][i] * two[said[1]][i] for i in range(3))
        then = second.get(said)
        for p_then, q_then, alike_then in [(1, 1, 1)] if then is None else outcomes_of(then).values():
            total += max(Fraction(0), p * p_then - E * q * q_then) * alike * alike_then
    return total


def books_after_the_first(epsilon: float = EPSILON) -> Books:
    books = Books()
    first = job("first", *FIRST)
    happened = [BudgetSet("visits", budget(epsilon, delta=DELTA), "first"), first, Committed("first")]
    for sequence, what in enumerate(happened, start=1):
        books.take(write_entry(sequence, 0.0, what, genesis("north")))
    return books


def job(job_id: str, *events) -> Reserved:
    cost = cost_of(*events)
    return Reserved(job_id, "visits", "ada", "pattern-count", "here", "policy", UNIT, records_of(cost), 1)


def is_admitted(books: Books, event) -> bool:
    try:
        books.check_charge(job("second", event))
    except ChargeError:
        return False
    return True


@pytest.mark.parametrize("said", SECOND)
def test_by_its_best_order_each_pair_of_jobs_would_be_within_the_budget(said):
    """The rule that was in force before: some Renyi order, whichever."""
    curve = np.sum([renyi_curve(event) for event in (*FIRST, SECOND[said])], axis=0)
    assert epsilon_of_rdp(curve, 3, DELTA).epsilon <= EPSILON


def test_a_second_job_that_the_results_of_the_first_choose_would_more_than_double_delta():
    assert 2.4e-6 < delta_of(SECOND) < 2.6e-6


def test_what_the_ledger_admits_of_it_keeps_the_budget():
    books = books_after_the_first()
    admitted = {said: event for said, event in SECOND.items() if is_admitted(books, event)}
    assert delta_of(admitted) <= DELTA


def largest(n_options: int, is_covered: Callable[[RandomizedResponseDpEvent], bool]) -> Fraction:
    """The most truthful response with so many options that may follow."""
    low, high = Fraction(1, n_options), Fraction(1)
    for _ in range(40):
        middle = (low + high) / 2 if n_options < 100 else Fraction(float(low * high) ** 0.5)
        low, high = (middle, high) if is_covered(response(n_options, middle)) else (low, middle)
    return low


@pytest.mark.parametrize("first", [FIRST, (response(2, 0.6), response(3, 0.4)), (response(1000, 0.0015),) * 2])
def test_no_choice_of_a_second_job_gets_more_out_of_the_filter_than_the_budget(monkeypatch, first):
    """For every outcome, the response that leaks most among those that are admitted: the analyst's best."""
    monkeypatch.setattr(f"{__name__}.FIRST", first)
    spent = np.sum([renyi_curve(event) for event in first], axis=0)
    admits = RenyiFilter.of_budget(EPSILON, DELTA)
    assert admits.covers(spent, 2)
    offers = []
    for n_options in (2, 3, 5, 10, 30, 100, 1000, 10**4, 10**5, 10**6, 10**7):
        truthful = largest(n_options, lambda event: admits.covers(spent + renyi_curve(event), 3))
        offers.append(response(n_options, truthful))
    best = {
        said: max(offers, key=lambda event: delta_of({said: event}))
        for said in product(("mine", "theirs", "another"), repeat=2)
    }
    assert DELTA / 200 < delta_of(best) <= DELTA


def test_one_job_may_take_a_period_by_itself_at_any_order_and_then_nothing_follows():
    """Its own epsilon is within the budget, at another order than the filter's: the first job is the last too."""
    low, high = 1 / 16, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        within = epsilon_of_rdp(renyi_curve(response(16, middle)), 1, DELTA / 1e6).epsilon <= EPSILON
        low, high = (middle, high) if within else (low, middle)
    lone = response(16, low)
    alone = epsilon_of_rdp(renyi_curve(lone), 1, DELTA).epsilon
    tight = budget(alone, delta=DELTA)
    assert not RenyiFilter.of_budget(alone, DELTA).covers(renyi_curve(lone), 1)
    books = Books()
    books.take(write_entry(1, 0.0, BudgetSet("visits", tight, "first"), genesis("north")))
    books.check_charge(job("first", lone))
    books.take(write_entry(2, 0.0, job("first", lone), genesis("north")))
    tiny = response(2, Fraction(1, 2) + Fraction(1, 10**9))
    with pytest.raises(ChargeError, match="would come to epsilon"):
        books.check_charge(job("second", tiny))
    books.take(write_entry(3, 0.0, Released("first", "failed"), genesis("north")))
    books.check_charge(job("second", tiny))
    books.check_charge(job("second", lone))
    books.take(write_entry(4, 0.0, job("second", tiny), genesis("north")))
    with pytest.raises(ChargeError):
        books.check_charge(job("third", lone))
