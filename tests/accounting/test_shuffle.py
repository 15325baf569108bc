"""The view of who sees counts only: bounds against all outcomes of a few shuffled responses, and known numbers."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from dp.cost.accounting import CalibrationError
from dp.cost.composition import composed_epsilon
from dp.cost.shuffle import farthest_rows, shuffled_delta, shuffled_epsilon
from dp.local_mechanism.odds import Odds
from dp.local_mechanism.sign_response import SignResponse
from dp.local_mechanism.wave import Wave


def counts_law(wave, inputs):
    """The exact law of how often each output comes up, as a dictionary from counts to probabilities."""
    law = {(0,) * wave.n_outputs: Fraction(1)}
    for value in inputs:
        weights, after = wave.weights_of(value).tolist(), Counter()
        for counts, probability in law.items():
            for j, weight in enumerate(weights):
                more = (*counts[:j], counts[j] + 1, *counts[j + 1 :])
                after[more] += probability * weight / wave.total
        law = dict(after)
    return law


def hockey_stick(first, second, epsilon):
    factor = Fraction(math.exp(epsilon))
    return float(sum(max(Fraction(0), p - factor * second.get(at, Fraction(0))) for at, p in first.items()))


@pytest.mark.parametrize("n", [1, 2, 4, 6])
@pytest.mark.parametrize("half_width", [0, 1])
def test_the_bound_is_above_what_all_outcomes_say(n, half_width):
    wave = Wave.square(3, Odds.of_epsilon(1.5, 1 << 8), half_width)
    for epsilon in (0.0, 0.3, 0.8, 1.4):
        for x, y in itertools.permutations(range(3), 2):
            bound = shuffled_delta([wave.weights_of(x).tolist(), wave.weights_of(y).tolist()], wave.other, n, epsilon)
            for others in ([0] * (n - 1), [2] * (n - 1), ([1, 2] * n)[: n - 1]):
                exact = hockey_stick(counts_law(wave, [x, *others]), counts_law(wave, [y, *others]), epsilon)
                assert exact <= bound


def test_the_bound_is_its_own_expectation_to_the_grid():
    """E[(S)+] over all outcomes of the terms: the bound may be a little above, and not below."""
    wave, n, epsilon = Wave.square(3, Odds.of_epsilon(1.0, 1 << 8), 1), 5, 0.4
    x, y = wave.weights_of(0).tolist(), wave.weights_of(2).tolist()
    m, total = wave.n_outputs, wave.total
    gamma = m * wave.other / total
    values = [0.0] + [m * (a - math.exp(epsilon) * b) / total for a, b in zip(x, y, strict=True)]
    chances = [1 - gamma] + [gamma / m] * m
    expected = sum(
        math.prod(chances[i] for i in outcome) * max(0.0, sum(values[i] for i in outcome))
        for outcome in itertools.product(range(m + 1), repeat=n)
    ) / (gamma * n)
    bound = shuffled_delta([x, y], wave.other, n, epsilon)
    assert expected <= bound <= expected * 1.001


def test_farther_inputs_cost_more_and_the_farthest_the_most():
    wave = Wave.square(12, Odds.of_epsilon(1.0), 2)
    rows = [wave.weights_of(i).tolist() for i in range(12)]
    deltas = [shuffled_delta([rows[0], rows[i]], wave.other, 200, 0.2) for i in range(1, 12)]
    assert all(a <= b * (1 + 1e-9) for a, b in itertools.pairwise(deltas))
    assert list(farthest_rows(wave.window, wave.other, 12)) == [rows[0], rows[11]]


@pytest.mark.parametrize(("n", "epsilon"), [(1_000, 0.13), (10_000, 0.038), (100_000, 0.011)])
def test_the_numbers_of_a_local_epsilon_of_one(n, epsilon):
    wave = Wave.square(256, Odds.of_epsilon(1.0))
    found = shuffled_epsilon(farthest_rows(wave.window, wave.other, 256), wave.other, n, 1e-6)
    assert found == pytest.approx(epsilon, rel=0.06)


def test_shuffling_never_costs_more_than_one_response():
    wave = Wave.square(8, Odds.of_epsilon(0.5), 2)
    rows = farthest_rows(wave.window, wave.other, 8)
    assert shuffled_epsilon(rows, wave.other, 1, 1e-9) <= 0.5
    assert shuffled_delta(rows, wave.other, 1, 0.5) < 1e-3
    epsilons = [shuffled_epsilon(rows, wave.other, n, 1e-6) for n in (10, 100, 1000)]
    assert epsilons == sorted(epsilons, reverse=True)


@pytest.mark.parametrize(
    "arguments", [([[1, 2], [2, 2]], 1, 5, 0.1), ([[1, 2], [2, 1]], 1, 0, 0.1), ([[1, 3], [3, 1]], 2, 5, 0.1)]
)
def test_what_has_no_bound_is_refused(arguments):
    with pytest.raises(CalibrationError):
        shuffled_delta(*arguments)


@pytest.mark.parametrize("shape", ["square", "triangle", "trapezoid"])
def test_the_event_of_a_response_dominates_every_pair_of_inputs(shape):
    odds = Odds.of_epsilon(1.0, 1 << 8)
    wave = Wave.of_shape(shape, 6, odds, 2, has_empty=True)
    signs = SignResponse(6, odds)
    tables = [[[Fraction(int(a), wave.total) for a in wave.weights_of(i)] for i in range(7)]]
    plus = [Fraction(odds.other * (5 - i) + odds.favoured * i, signs.total) for i in range(6)]
    tables.append([[p, 1 - p] for p in plus])
    p, q = odds.truthful, 1 - odds.truthful
    for epsilon in np.linspace(0, 1.1, 12):
        factor = Fraction(math.exp(epsilon))
        claimed = max(Fraction(0), p - factor * q) + max(Fraction(0), q - factor * p)
        for table in tables:
            for first, second in itertools.permutations(table, 2):
                exact = sum(max(Fraction(0), a - factor * b) for a, b in zip(first, second, strict=True))
                assert exact <= claimed
    assert composed_epsilon(odds.event(), 1e-9).epsilon <= 1.0 + 1e-6
