"""Counts and moments over records of one person, each answered about by a device of its own: errors by enumeration."""

from itertools import product
from math import sqrt

import numpy as np
import pytest

from analyses.pattern_count.persons import PersonTally, check_size, described, forecast, scores_of
from dp.local_mechanism.hashed_response import DirectResponse
from dp.local_mechanism.odds import Odds
from dp.local_mechanism.public_choice import PublicChoices
from dp.local_mechanism.sign_response import SignResponse
from entropy import InsecureTestEntropy

BITS = SignResponse(2, Odds.of_epsilon(1.0), has_empty=True)
NUMBERS = SignResponse(16, Odds.of_epsilon(2.0), has_empty=True)
EMPTY, SILENT = 2, 3
UNIT = (0.0, 1.0)


def expected(mechanism, people):
    """How many persons give each combination of outputs on average.

    Args:
        mechanism: which is answered by.
        people: tuples of inputs to how many persons have them; `d + 1` for a record that nobody answers about.
    """
    m, d = len(next(iter(people))), mechanism.n_inputs
    law = np.zeros((d + 2, 4))
    law[: d + 1, 1:] = mechanism.weights_of(np.arange(d + 1)) / mechanism.total
    law[d + 1, 0] = 1.0
    counts = np.zeros((4,) * m)
    for inputs, n in people.items():
        cells = np.array(float(n))
        for one in inputs:
            cells = np.multiply.outer(cells, law[one])
        counts += cells
    return counts


def found(mechanism, people, order=2):
    m = len(next(iter(people)))
    return described([mechanism] * m, expected(mechanism, people), [f"r{j}" for j in range(m)], [UNIT] * m, order)


@pytest.mark.parametrize("inputs", list(product(range(4), repeat=3)))
def test_each_pattern_is_counted_without_bias_and_its_variance_too(inputs):
    """Whatever three records say, or whether they say anything: all orders, all patterns, by the law of the outputs."""
    n = 1000
    for row in found(BITS, {inputs: n}, order=3)["patterns"]:
        own = [inputs[int(name[1])] for name in row["records"]]
        has_all = SILENT not in own
        assert row["persons"] == pytest.approx(n if has_all else 0, abs=1)
        truth = n if own == row["values"] else 0
        assert row["count"] == pytest.approx(truth, abs=1e-9 * n)
        moments = [
            float((BITS.weights_of(np.array([one]))[0] / BITS.total) @ scores_of(BITS)[1:, value] ** 2)
            for one, value in zip(own, row["values"], strict=True)
            if has_all
        ]
        variance = n * np.prod(moments) - truth if has_all else 0.0
        assert row["standard_error"] == pytest.approx(sqrt(variance), rel=1e-6, abs=1e-6)


CATEGORIES = [DirectResponse(k + 1, Odds.of_epsilon(1.0)) for k in (2, 4, 3)]
"""Of records with 2, 4 and 3 values; the last input of each is that of a record without one."""

OF_CATEGORIES = [(0.0, 2.0), (1.0, 5.0), (-1.0, 2.0)]


def expected_of_categories(people):
    """As `expected`, of records with different numbers of values; an input of None is no response."""
    counts = np.zeros([2 + one.n_inputs - 1 for one in CATEGORIES])
    for inputs, n in people.items():
        cells = np.array(float(n))
        for mechanism, one in zip(CATEGORIES, inputs, strict=True):
            law = np.zeros(1 + mechanism.n_inputs)
            if one is None:
                law[0] = 1.0
            else:
                law[1:], law[1 + one] = float(mechanism.response.other), float(mechanism.response.truthful)
            cells = np.multiply.outer(cells, law)
        counts += cells
    return counts


@pytest.mark.parametrize("inputs", list(product((0, 1, 2, None), (0, 1, 2, 3, 4, None), (0, 2, 3, None))))
def test_of_categories_each_pattern_is_counted_without_bias_and_its_variance_too(inputs):
    """Whatever records of 2, 4 and 3 values say: all patterns of up to three, by the law of the outputs."""
    n, starts = 1000, [0, 1, -1]
    told = described(CATEGORIES, expected_of_categories({inputs: n}), ["r0", "r1", "r2"], OF_CATEGORIES, 3)
    assert len(told["patterns"]) == 9 + (8 + 6 + 12) + 24
    assert "powers" not in told
    for row in told["patterns"]:
        places = [int(name[1]) for name in row["records"]]
        own, has_all = [inputs[at] for at in places], None not in [inputs[at] for at in places]
        wanted = [value - starts[at] for at, value in zip(places, row["values"], strict=True)]
        truth = n if own == wanted else 0
        assert row["persons"] == pytest.approx(n if has_all else 0, abs=1)
        assert row["count"] == pytest.approx(truth, abs=1e-9 * n)
        moments = []
        for at, one, value in zip(places, own, wanted, strict=True):
            p, q = float(CATEGORIES[at].response.truthful), float(CATEGORIES[at].response.other)
            law = p if one == value else q
            moments.append((law * (1 - q) ** 2 + (1 - law) * q**2) / (p - q) ** 2)
        variance = n * np.prod(moments) - truth if has_all else 0.0
        assert row["standard_error"] == pytest.approx(sqrt(variance), rel=1e-6, abs=1e-6)


def test_categories_of_two_values_are_counted_as_signs_are():
    people = {(1, 1): 300, (0, EMPTY): 100, (0, 1): 250, (1, SILENT): 20}
    by_signs = found(BITS, people)
    direct = [DirectResponse(3, BITS.odds)] * 2
    by_categories = described(direct, expected(BITS, people), ["r0", "r1"], [(0.0, 2.0)] * 2, 2)
    for part in ("patterns", "powers"):
        for one, other in zip(by_signs[part], by_categories[part], strict=True):
            for name, value in one.items():
                assert other[name] == (value if isinstance(value, list) else pytest.approx(value))


def test_intervals_of_counts_of_categories_hold_in_nineteen_of_twenty_runs():
    """Patterns that many persons have, that few have and that nobody has; some have no value or do not answer."""
    rng, n = np.random.default_rng(7), 400
    inputs = np.stack([rng.choice(k + 1, n, p=p) for k, p in ((2, [0.6, 0.3, 0.1]), (4, [0.5, 0.3, 0.15, 0.0, 0.05]))])
    wanted = {(0, 1): inputs.T.tolist().count([0, 0]), (1, 3): inputs.T.tolist().count([1, 2]), (0, 4): 0}
    held = dict.fromkeys(wanted, 0)
    choices = PublicChoices(b"categories", map(str, range(n)))
    for run in range(200):
        tally = PersonTally(CATEGORIES[:2])
        said = [
            CATEGORIES[at].respond(inputs[at], choices, InsecureTestEntropy(f"{run} {at}")).tolist() for at in (0, 1)
        ]
        tally.add([(f"{i}", at) for i in range(n) for at in (0, 1)], np.array(said).T.ravel())
        told = described(CATEGORIES[:2], tally.counts, ["a", "b"], OF_CATEGORIES[:2], 2)
        rows = {tuple(row["values"]): row for row in told["patterns"] if len(row["records"]) == 2}
        for values, truth in wanted.items():
            held[values] += abs(rows[values]["count"] - truth) <= 1.96 * rows[values]["standard_error"]
    assert all(180 <= n_held <= 199 for n_held in held.values()), held


def test_the_forecast_of_categories_is_the_largest_error_that_results_state():
    people = dict.fromkeys(product(range(2), range(4), range(3)), 100)
    told = described(CATEGORIES, expected_of_categories(people), ["r0", "r1", "r2"], OF_CATEGORIES, 3)["patterns"]
    known = forecast(CATEGORIES, 3, OF_CATEGORIES, 3 * 2400)
    for size, quantity in enumerate(known.quantities, 1):
        errors = [row["standard_error"] for row in told if len(row["records"]) == size]
        assert quantity.standard_error == pytest.approx(max(errors))
        assert quantity.best_case <= min(errors)
        assert max(errors) <= quantity.bad_case
    assert any("err most" in said for said in known.assumptions)


def test_more_counts_than_a_coordinator_keeps_are_refused():
    check_size([2] * 8, 4)
    with pytest.raises(ValueError, match="others: 1679616 combinations"):
        check_size([4] * 8, 2)
    with pytest.raises(ValueError, match=r"order: \d+ patterns, at most 4096"):
        check_size([20] * 4, 3)


def test_persons_who_have_not_answered_about_all_records_of_a_pattern_are_not_in_it():
    """What is stated is about those who answered: where who has the first record answers less, it has fewer of them."""
    people = {(1, 1): 600, (1, SILENT): 400, (0, 0): 900, (0, SILENT): 100}
    rows = {(*row["records"], *row["values"]): row for row in found(BITS, people)["patterns"]}
    assert rows["r0", 1]["count"] == pytest.approx(1000)
    assert [rows[name]["persons"] for name in (("r0", 1), ("r0", "r1", 1, 1))] == pytest.approx([2000, 1500], abs=1)
    assert rows["r0", "r1", 1, 1]["count"] == pytest.approx(600)
    assert rows["r0", "r1", 0, 0]["count"] == pytest.approx(900)


def test_powers_of_the_number_of_ones_are_without_bias():
    people = {(1, 1, 1): 100, (1, 0, 1): 300, (0, 0, 0): 50, (EMPTY, 1, 1): 70, (1, 1, SILENT): 1000}
    powers = found(BITS, people, order=3)["powers"]
    assert [row["persons"] for row in powers] == pytest.approx([520] * 3, abs=1)
    for row in powers:
        assert row["sum"] == pytest.approx(100 * 3 ** row["power"] + 370 * 2 ** row["power"])
        assert row["standard_error"] > 0


def test_means_and_covariances_are_those_of_who_has_both():
    """Inputs of 16 stand for the middles of 16 parts of a range; empty records and silent devices say nothing."""
    people = {(3, 12): 2000, (12, 3): 1000, (8, 8): 500, (EMPTY_16, 15): 700, (15, SILENT_16): 900}
    ranges = [(10.0, 26.0), (-1.0, 1.0)]
    told = described([NUMBERS] * 2, expected(NUMBERS, people), ["a", "b"], ranges, 2)
    first = np.repeat([3, 12, 8, 15], [2000, 1000, 500, 900]) + 0.5 + 10
    assert told["means"][0]["mean"] == pytest.approx(first.mean())
    a = np.repeat([3, 12, 8], [2000, 1000, 500]).astype(float)
    b = np.repeat([12, 3, 8], [2000, 1000, 500]) / 8
    assert told["covariances"][0]["covariance"] == pytest.approx(np.cov(a, b, bias=True)[0, 1])
    assert told["covariances"][0]["persons"] == pytest.approx(4200, abs=1)


EMPTY_16, SILENT_16 = 16, 17


def test_records_without_a_value_tell_no_mean():
    told = found(NUMBERS, {(EMPTY_16, 3): 500})
    assert told["means"][0]["mean"] is None
    assert told["covariances"][0]["standard_error"] is None


def test_intervals_of_counts_hold_in_nineteen_of_twenty_runs():
    rng, held = np.random.default_rng(5), []
    inputs = rng.choice([0, 1, EMPTY], p=[0.5, 0.4, 0.1], size=(400, 2))
    truth = int(np.sum(np.all(inputs == 1, axis=1)))
    for run in range(200):
        kinds = 1 + BITS.respond(inputs.reshape(-1), InsecureTestEntropy(f"{run}")).reshape(-1, 2)
        counts = np.zeros((4, 4), dtype=np.int64)
        np.add.at(counts, tuple(kinds.T), 1)
        (row,) = [
            row
            for row in described([BITS] * 2, counts, ["a", "b"], [UNIT] * 2, 2)["patterns"]
            if row["values"] == [1, 1]
        ]
        held.append(abs(row["count"] - truth) <= 1.96 * row["standard_error"])
    assert 0.9 <= np.mean(held) <= 0.99


def test_a_tally_is_the_same_however_responses_are_divided():
    people = [("ann", 0), ("ann", 2), ("ben", 1), ("cem", 0), ("cem", 1), ("cem", 2)]
    responses = np.array([0, 1, 2, 1, 1, 0])
    tallies = []
    for cuts in ([], [1], [2, 5], [1, 2, 3, 4, 5]):
        tally = PersonTally([BITS] * 3)
        for part in np.split(np.arange(6), cuts):
            tally.add([people[at] for at in part], responses[part])
        tallies.append(tally.counts)
    assert all(np.array_equal(one, tallies[0]) for one in tallies)
    assert tallies[0].sum() == 3
    assert tallies[0][1, 0, 2] == tallies[0][0, 3, 0] == tallies[0][2, 2, 1] == 1


def test_the_forecast_is_the_error_that_results_state():
    """For even patterns of persons who answer about all, as it assumes; and a few persons show nothing."""
    people = dict.fromkeys(product((0, 1), repeat=3), 1000)
    of_size = {len(row["records"]): row["standard_error"] for row in found(BITS, people, order=3)["patterns"]}
    known = forecast([BITS] * 3, 3, [UNIT] * 3, 24_000)
    assert [one.standard_error for one in known.quantities] == pytest.approx(list(of_size.values()))
    assert not known.infeasible
    assert forecast([SignResponse(2, Odds.of_epsilon(0.1), has_empty=True)] * 3, 3, [UNIT] * 3, 24).infeasible
    even = found(NUMBERS, dict.fromkeys(product(range(16), repeat=2), 10))
    mean, covariance = forecast([NUMBERS] * 2, 2, [UNIT] * 2, 2 * 2560).quantities
    assert mean.standard_error == pytest.approx(even["means"][0]["standard_error"])
    assert covariance.standard_error == pytest.approx(even["covariances"][0]["standard_error"])


@pytest.mark.parametrize(
    ("epsilon", "said"),
    [(0.5, (0.28, 0.88, 2.6, 7.8, 609)), (1.0, (0.14, 0.27, 0.47, 0.80, 6.5)), (2.0, (0.06, 0.09, 0.12, 0.16, 0.33))],
)
def test_the_page_states_the_errors_of_a_million_persons(epsilon, said):
    """In per cent of them, in a bad case, of patterns of 1, 2, 3, 4 and 8 records."""
    known = forecast(
        [SignResponse(2, Odds.of_epsilon(epsilon), has_empty=True)] * 8, 8, [UNIT] * 8, 8_000_000
    ).quantities
    errors = [known[v - 1].bad_case / 1e4 for v in (1, 2, 3, 4, 8)]
    assert errors == pytest.approx(said, rel=0.05, abs=0.005)


@pytest.mark.parametrize(
    ("epsilon", "k", "said"),
    [
        (0.5, 4, (0.40, 1.7, 6.8)),
        (0.5, 16, (0.79, 6.4, 51)),
        (1.0, 8, (0.27, 0.83, 2.4)),
        (1.0, 16, (0.38, 1.6, 6.2)),
        (2.0, 4, (0.09, 0.14, 0.20)),
        (4.0, 16, (0.06, 0.08, 0.11)),
    ],
)
def test_the_page_states_the_errors_of_categories(epsilon, k, said):
    """As above, of patterns of 1, 2 and 3 records with k categories each."""
    known = forecast([DirectResponse(k + 1, Odds.of_epsilon(epsilon))] * 3, 3, [(0.0, float(k))] * 3, 3_000_000)
    errors = [one.bad_case / 1e4 for one in known.quantities]
    assert errors == pytest.approx(said, rel=0.05, abs=0.005)
