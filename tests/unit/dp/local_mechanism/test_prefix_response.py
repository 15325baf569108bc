"""Responses about prefixes: levels, functions, and the exact odds of what is said."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from dp.cost.accounting import CalibrationError
from dp.local_mechanism.odds import Odds
from dp.local_mechanism.prefix_response import FIRST_BITS, MAX_VALUES, PrefixResponse
from dp.local_mechanism.public_choice import PublicChoices

ODDS = Odds.of_epsilon(1.0)


@pytest.mark.parametrize("n_values", [2, 3, 1023, 1024, 1025, 1 << 20, (1 << 20) + 1, MAX_VALUES])
def test_levels_lead_from_a_thousand_prefixes_to_all_values_by_at_most_64_branches(n_values):
    mechanism = PrefixResponse(n_values + 1, ODDS)
    sizes = [mechanism.n_prefixes(level) for level in range(len(mechanism.shifts))]
    assert sizes[0] <= 1 << FIRST_BITS
    assert sizes[-1] == n_values
    assert all(more <= 64 * few for few, more in pairwise(sizes))


def test_every_output_of_every_pair_of_inputs_is_within_the_odds_and_the_empty_input_is_one_of_them():
    """The law of a response given its public choice, over all outputs: a draw moves a bucket by the same law."""
    mechanism = PrefixResponse((1 << 14) + 1, ODDS)
    choices, values = PublicChoices(b"q", map(str, range(200))), [0, 1, 63, 64, (1 << 14) - 1, 1 << 14]
    levels, functions = mechanism.asked(choices)
    truth, lie = mechanism.oracle.response.truthful, mechanism.oracle.response.other
    assert truth / lie == Fraction(ODDS.favoured, ODDS.other)
    said = [mechanism.buckets_of(np.full(200, value), levels, functions) for value in values]
    draws = np.zeros(200, dtype=np.int64)  # no lie
    for value, buckets in zip(values, said, strict=True):
        assert (mechanism.outputs_of(np.full(200, value), choices, draws) == buckets).all()
        assert buckets.min() >= 0
        assert buckets.max() < mechanism.n_outputs
    first = levels == 0
    assert (said[0] == said[1])[first].all()  # inputs with one prefix of the first level are one input there
    assert (said[0] != said[1])[~first].any()
    assert (said[-2] != said[-1])[first].any()  # the empty input has none of the prefixes


def test_two_values_meet_in_one_of_g_functions_and_levels_have_functions_of_their_own():
    mechanism = PrefixResponse(MAX_VALUES + 1, ODDS)
    functions = np.arange(mechanism.n_functions)
    values = np.array([0, 1, 2, 1 << 20, MAX_VALUES - 1, MAX_VALUES])
    for level in (0, len(mechanism.shifts) - 1):
        buckets = mechanism.buckets(level, functions, values[:, None].astype(np.uint64))
        for one in range(len(values)):
            assert np.bincount(buckets[one]) / len(functions) == pytest.approx(1 / mechanism.n_outputs, abs=0.03)
            for other in range(one):
                meet = np.mean(buckets[one] == buckets[other])
                assert meet == pytest.approx(1 / mechanism.n_outputs, abs=0.03)
    apart = mechanism.buckets(0, functions, np.uint64(5)[None]) != mechanism.buckets(1, functions, np.uint64(5)[None])
    assert apart.any()


def test_more_values_than_floating_point_numbers_hold_are_refused():
    with pytest.raises(CalibrationError, match="at most 2\\^48"):
        PrefixResponse(MAX_VALUES + 2, ODDS)
