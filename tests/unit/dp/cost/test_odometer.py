"""Readings of odometers against the exact probability that the loss ever exceeds them, whatever is asked next."""

import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from dp.cost.accounting import ORDERS, Adjacency
from dp.cost.events.event import renyi_curve
from dp.cost.events.randomized_response import RandomizedResponseDpEvent
from dp.cost.odometer import reading

OFFERED = [RandomizedResponseDpEvent(2, Fraction(p), Adjacency.REPLACE_ONE) for p in (0.55, 0.7, 0.9)]
CURVES = [renyi_curve(event) for event in OFFERED]
LOSSES = [math.log(float(event.truthful / (1 - event.truthful))) for event in OFFERED]


def most_likely_excess(read, n_jobs: int, delta: float) -> float:
    """The probability that the loss ever exceeds what `read` says, if each job is chosen to make that likely."""

    @cache
    def of(numbers: tuple[int, ...], balance: tuple[int, ...]) -> float:
        loss = sum(LOSSES[i] * balance[i] for i in range(len(OFFERED)))
        curve = sum((numbers[i] * CURVES[i] for i in range(len(OFFERED))), np.zeros(len(ORDERS)))
        if sum(numbers) and loss > read(curve, sum(numbers), delta):
            return 1.0
        if sum(numbers) == n_jobs:
            return 0.0
        return max(
            sum(
                chance
                * of(
                    tuple(numbers[j] + (j == i) for j in range(3)),
                    tuple(balance[j] + step * (j == i) for j in range(3)),
                )
                for chance, step in ((float(event.truthful), 1), (1 - float(event.truthful), -1))
            )
            for i, event in enumerate(OFFERED)
        )

    return of((0, 0, 0), (0, 0, 0))


@pytest.mark.parametrize("delta", [0.3, 0.01])
def test_the_loss_ever_exceeds_the_reading_with_probability_delta_at_most_however_jobs_are_chosen(delta):
    found = most_likely_excess(lambda curve, n, delta: reading(curve, n, 4, delta), 10, delta)
    assert found <= delta


def test_a_reading_of_two_thirds_would_be_exceeded_more_often():
    assert most_likely_excess(lambda curve, n, delta: 0.66 * reading(curve, n, 4, delta), 10, 0.3) > 0.3


def test_nothing_is_read_before_the_first_job_and_the_reading_never_falls():
    assert reading(np.zeros(len(ORDERS)), 0, 22, 1e-6) == 0
    readings = [reading(n * CURVES[0], n, 22, 1e-6) for n in range(1, 50)]
    assert readings == sorted(readings)
    assert reading(np.full(len(ORDERS), np.inf), 1, 22, 1e-6) == np.inf


def test_pure_losses_add_up_and_gaussian_noise_costs_little_more_than_its_own_epsilon():
    pure = np.ones(len(ORDERS))
    assert reading(3 * pure, 3, 22, 1e-6) == pytest.approx(3, abs=1e-4)
    gaussian = 0.0283 * ORDERS.astype(np.float64)  # (1, 1e-6) fixed beforehand
    assert 1.0 < reading(gaussian, 1, 22, 1e-6) < 1.35
