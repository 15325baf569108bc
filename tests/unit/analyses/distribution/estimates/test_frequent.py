"""Frequent values among very many: found with intervals that hold, and none where nothing is frequent."""

import numpy as np
import pytest

from analyses.distribution.estimates.frequent import PrefixTally, frequent_values, seen_from
from dp.local_mechanism.odds import Odds
from dp.local_mechanism.prefix_response import PrefixResponse
from dp.local_mechanism.public_choice import PublicChoices
from entropy import InsecureTestEntropy

N_VALUES = 1 << 28
FREQUENT = {123_456_788: 0.5, 123_456_789: 0.25}
"""Two values that differ in their last bit alone."""


def tallied(values, n, *, epsilon=4.0, seed="frequent", parts=1):
    """Return the tally of n responses: of values, the others of the empty input."""
    mechanism = PrefixResponse(N_VALUES + 1, Odds.of_epsilon(epsilon))
    choices = PublicChoices(seed.encode(), map(str, range(n)))
    inputs = np.append(values, np.full(n - len(values), N_VALUES))
    responses = mechanism.respond(inputs, choices, InsecureTestEntropy(seed))
    tally = PrefixTally(mechanism)
    for some in np.array_split(np.arange(n), parts):
        tally.add(responses[some], choices.part(int(some[0]), int(some[-1]) + 1))
    return tally


def drawn(n, seed=1):
    rng = np.random.default_rng(seed)
    rare = rng.integers(0, N_VALUES, n)
    chosen = rng.choice([*FREQUENT, -1], n, p=[*FREQUENT.values(), 0.25])
    return np.where(chosen < 0, rare, chosen)


def test_frequent_values_are_found_whatever_their_neighbours_and_nobody_else_is():
    n = 20_000
    tally = tallied(drawn(n), 2 * n)
    found = frequent_values(tally)
    assert found.values.tolist() == list(FREQUENT)
    assert found.present == pytest.approx(0.5, abs=0.02)
    for share, (_, lower, upper) in zip(FREQUENT.values(), found.shares, strict=True):
        assert 0 < lower < share < upper < lower + 0.25
    assert seen_from(tally.mechanism, 2 * n)[1] < min(FREQUENT.values()) / 2


def test_a_tally_is_the_same_however_responses_are_divided():
    one, many = (frequent_values(tallied(drawn(5000), 5000, parts=parts)) for parts in (1, 7))
    assert (one.values.tolist(), one.shares.tolist()) == (many.values.tolist(), many.shares.tolist())


@pytest.mark.parametrize(("epsilon", "runs"), [(1.0, 1), (16.0, 3)])
def test_no_value_is_said_to_be_frequent_where_all_are_different(epsilon, runs):
    """At epsilon 16 hardly a response supports a value that nobody has: no normal number."""
    rng = np.random.default_rng(2)
    for run in range(runs):
        values = rng.choice(N_VALUES, 2000)
        found = frequent_values(tallied(values, 2000, epsilon=epsilon, seed=f"rare {run}"))
        assert found is None or not len(found.values)


@pytest.mark.parametrize(("n_present", "n"), [(100, 100), (0, 5000)])
def test_nothing_is_known_of_hardly_any_responses_or_of_empty_slots_alone(n_present, n):
    assert frequent_values(tallied(drawn(n_present), n, epsilon=1.0)) is None
