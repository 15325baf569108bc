"""Exact true deltas of jobs with Skellam noise, chosen by what earlier ones showed, against what is admitted."""

import math
from fractions import Fraction

import numpy as np
import pytest
from ledgers import cost_of
from scipy.special import ive

from dp.cost.accounting import Adjacency
from dp.cost.events.randomized_response import RandomizedResponseDpEvent
from dp.cost.events.skellam import SkellamShiftsDpEvent
from dp.cost.gaussian_filter import GAUSSIAN_PART
from ledger.spending import Spending, cover_of, spending_of_one

EPSILON, DELTA = 1.0, 1e-6
MU = 1 << 24
"""The deviation of Sk(MU) is 5793."""


def shifted(shift: int, mu: int = MU) -> SkellamShiftsDpEvent:
    return SkellamShiftsDpEvent(shift, 1, Fraction(mu), Adjacency.REPLACE_ONE)


def spends(*events) -> Spending:
    return spending_of_one(cost_of(*events))


def masses(event) -> tuple[np.ndarray, np.ndarray]:
    """The probabilities of what a job shows, on either of the worst neighbours."""
    if isinstance(event, RandomizedResponseDpEvent):
        p, q = float(event.truthful), float((1 - event.truthful) / (event.n_options - 1))
        rest = (event.n_options - 2) * q
        return np.array([p, q, rest]), np.array([q, p, rest])
    mu, shift = float(event.mu), event.shift
    reach = math.ceil(12 * math.sqrt(2 * mu)) + shift
    at = np.arange(-reach, reach + 1)
    return ive(np.abs(at - shift), 2 * mu), ive(np.abs(at), 2 * mu)


def delta_at(event, epsilons: np.ndarray) -> np.ndarray:
    """The hockey-stick divergence at each epsilon, which may be negative; that of no job for None."""
    if event is None:
        return np.maximum(0.0, -np.expm1(epsilons))
    p, q = masses(event)
    with np.errstate(divide="ignore", invalid="ignore"):
        losses = np.log(p) - np.log(q)
    order = np.argsort(-losses)
    p_above, q_above = (np.concatenate([[0.0], np.cumsum(one[order])]) for one in (p, q))
    n_above = np.searchsorted(-losses[order], -epsilons)
    return p_above[n_above] - np.exp(np.minimum(epsilons, 700.0)) * q_above[n_above]


def worst_delta(first, offers) -> float:
    """The true delta if what follows the first job is chosen, for each of its answers, as it leaks most."""
    p, q = masses(first)
    seen = p > 1e-15
    losses = np.log(p[seen] / np.maximum(q[seen], 1e-300))
    then = np.max([delta_at(offer, EPSILON - losses) for offer in (None, *offers)], axis=0)
    return float((p[seen] * then).sum())


def largest_shift(spent: Spending, mu: int) -> int:
    """The furthest that a job with so much noise may move its number after others, if that is 700 or more."""

    def is_admitted(shift: int) -> bool:
        return cover_of(spent + spends(shifted(shift, mu)), EPSILON, DELTA).is_covered

    low, high = 700, 1 << 15
    assert is_admitted(low)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_admitted(middle) else (low, middle)
    return low


def largest_response(spent: Spending, n_options: int) -> RandomizedResponseDpEvent | None:
    low, high = Fraction(1, n_options), Fraction(1)
    for _ in range(30):
        middle = (low + high) / 2 if n_options < 100 else Fraction(float(low * high) ** 0.5)
        response = RandomizedResponseDpEvent(n_options, middle, Adjacency.REPLACE_ONE)
        low, high = (middle, high) if cover_of(spent + spends(response), EPSILON, DELTA).is_covered else (low, middle)
    return RandomizedResponseDpEvent(n_options, low, Adjacency.REPLACE_ONE) if low > Fraction(1, n_options) else None


@pytest.mark.parametrize("first", [700, 1100])
def test_no_choice_by_the_first_answer_gets_more_out_of_the_filter_than_the_budget(first):
    """What follows has Gaussian noise of any size, or bounded loss, whichever leaks most: the analyst's best."""
    spent = spends(shifted(first))
    noisy = [shifted(shift, mu) for mu in (MU, 5 * MU // 6) for shift in [largest_shift(spent, mu)]]
    responses = [largest_response(spent, n_options) for n_options in (2, 16, 10**4, 10**6)]
    assert noisy
    of_noise = worst_delta(shifted(first), noisy)
    of_all = worst_delta(shifted(first), [*noisy, *filter(None, responses)])
    assert 0.5 * DELTA < of_noise <= float(GAUSSIAN_PART) * DELTA
    assert of_noise <= of_all <= DELTA


def test_a_tenth_more_than_the_filter_admits_would_pass_the_budget():
    spent = spends(shifted(1000))
    shift = largest_shift(spent, MU)
    more = math.ceil(math.sqrt(1.1 * (1000**2 + shift**2) - 1000**2))
    assert worst_delta(shifted(1000), [shifted(shift)]) <= DELTA < worst_delta(shifted(1000), [shifted(more)])


@pytest.mark.parametrize("truthful", [0.52, 0.55])
def test_a_period_whose_first_job_has_other_noise_admits_what_renyi_orders_do(truthful):
    """Then no part of delta is a Gaussian filter's, and what follows keeps the budget with all of it."""
    response = RandomizedResponseDpEvent(2, Fraction(truthful), Adjacency.REPLACE_ONE)
    spent = spends(response)
    assert cover_of(spent, EPSILON, DELTA).gaussian is None
    offers = [shifted(largest_shift(spent, MU))]
    responses = [largest_response(spent, n_options) for n_options in (2, 16, 10**4)]
    assert 0 < worst_delta(response, [*offers, *filter(None, responses)]) <= DELTA


def test_what_many_jobs_come_to_if_fixed_beforehand_is_that_of_one_gaussian_and_no_less():
    """Four jobs that each move a number by 700 show as much as one that moves it by 1400 under as much noise."""
    many = sum((spends(shifted(700)) for _ in range(4)), Spending())
    stated = many.epsilon(DELTA)
    together = worst_delta_of_one(shifted(1400), stated)
    assert 0.98 * DELTA < together <= DELTA


def worst_delta_of_one(event, epsilon: float) -> float:
    return float(delta_at(event, np.array([epsilon]))[0])
