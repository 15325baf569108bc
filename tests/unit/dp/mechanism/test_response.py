"""Randomized response and local hashing: what is drawn, what it costs, and what it says on average."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chisquare

from dp.cost.accounting import Adjacency, CalibrationError
from dp.cost.composition import composed_epsilon
from dp.mechanism.hashing import MAX_BUCKETS, LocalHashing
from dp.mechanism.response import RandomizedResponse
from entropy import InsecureTestEntropy

THIRDS = RandomizedResponse(4, Fraction(1, 2))


def entropy():
    return InsecureTestEntropy("reports")


def answered(oracle, choices, source):
    return oracle.reports(choices, oracle.draw(source, len(choices)))


def test_reports_have_the_probabilities_that_are_accounted_for():
    for choice in range(4):
        reports = answered(THIRDS, np.full(60_000, choice), entropy())
        expected = np.full(4, 10_000.0)
        expected[choice] = 30_000
        assert chisquare(np.bincount(reports, minlength=4), expected).pvalue > 1e-4


def test_reports_of_two_choices_differ_by_the_stated_factor_at_most():
    assert THIRDS.other == Fraction(1, 6)
    assert THIRDS.pure_epsilon == pytest.approx(np.log(3), rel=1e-12)
    assert composed_epsilon(THIRDS.event(), 1e-9).epsilon <= np.log(3) * (1 + 1e-6)
    assert [event.adjacency for event in THIRDS.events("coalition")] == [Adjacency.REPLACE_ONE]


@pytest.mark.parametrize(("n_options", "n_reports", "epsilon"), [(2, 1, 1.0), (9, 4, 0.5), (9, 2, 4.0)])
def test_the_most_truthful_response_within_a_budget_is_found(n_options, n_reports, epsilon):
    found = RandomizedResponse.calibrate(n_options, n_reports=n_reports, epsilon=epsilon, delta=1e-6)

    def spent(response):
        return composed_epsilon({response.event(): n_reports}, 1e-6).epsilon

    assert spent(found) <= epsilon
    assert spent(RandomizedResponse(n_options, found.truthful + Fraction(1, 1 << 20))) > epsilon
    # Never below what adding up pure epsilons allows.
    assert found.pure_epsilon >= epsilon / n_reports - 1e-4


@pytest.mark.parametrize(
    "oracle",
    [
        RandomizedResponse(5, Fraction(3, 5)),
        LocalHashing(5, RandomizedResponse(3, Fraction(3, 5)), "test"),
        LocalHashing(5, RandomizedResponse(2, Fraction(7, 10)), "test"),
    ],
)
def test_debiased_reports_count_the_choices_on_average(oracle):
    truth = np.repeat(np.arange(5), [4000, 3000, 2000, 1000, 0])
    source, counts = entropy(), []
    for _ in range(40):
        reports = answered(oracle, truth, source)
        counts.append(oracle.unbiased_indicators(reports).sum(axis=0))
    error = np.mean(counts, axis=0) - [4000, 3000, 2000, 1000, 0]
    spread = np.std(counts, axis=0) / np.sqrt(40)
    # The functions of local hashing are fixed: their deviation, one of 10,000 slots each, does not average out.
    slack = 4 * np.sqrt(10_000 / 4) if isinstance(oracle, LocalHashing) else 0
    assert np.all(np.abs(error) < 4 * spread + slack)


def test_products_of_two_debiased_reports_count_pairs_on_average():
    first, second = RandomizedResponse(3, Fraction(3, 4)), LocalHashing(3, RandomizedResponse(4, Fraction(1, 2)), "b")
    a, b = np.repeat([0, 1, 2], 3000), np.repeat([0, 0, 1], 3000)
    source, found = entropy(), []
    for _ in range(30):
        left = first.unbiased_indicators(answered(first, a, source))
        right = second.unbiased_indicators(answered(second, b, source))
        found.append(left.T @ right)
    error, spread = np.mean(found, axis=0), np.std(found, axis=0)
    assert np.all(np.abs(error - [[3000, 0, 0], [3000, 0, 0], [0, 3000, 0]]) < 4 * spread / np.sqrt(30) + 250)


def test_functions_of_local_hashing_collide_as_often_as_buckets_say():
    oracle = LocalHashing(6, RandomizedResponse(3, Fraction(1, 2)), "collisions")
    tables = oracle._buckets(30_000)
    assert tables.max() == 2
    for first, second in ((0, 1), (2, 5)):
        assert np.mean(tables[:, first] == tables[:, second]) == pytest.approx(1 / 3, abs=0.01)
    other = LocalHashing(6, RandomizedResponse(3, Fraction(1, 2)), "another label")
    assert np.mean(tables == other._buckets(30_000)) == pytest.approx(1 / 3, abs=0.01)


def test_buckets_are_uniform_also_where_they_do_not_divide_a_byte():
    tables = LocalHashing(4, RandomizedResponse(200, Fraction(1, 2)), "uniform")._buckets(20_000)
    assert chisquare(np.bincount(tables.reshape(-1), minlength=200)).pvalue > 1e-4


def test_reports_of_as_many_buckets_as_a_byte_has_are_uniform_and_count_the_choices():
    oracle = LocalHashing.calibrate(257, "full byte", n_reports=2, epsilon=16.0, delta=1e-6)
    assert oracle.response.n_options == MAX_BUCKETS == 256
    truth = np.repeat([0, 256], [800, 400])
    reports = answered(oracle, truth, entropy())
    tables = oracle._buckets(len(truth))
    assert chisquare(np.bincount(tables.reshape(-1), minlength=256)).pvalue > 1e-4
    truthful = np.mean(reports == tables[np.arange(len(truth)), truth])
    assert truthful == pytest.approx(float(oracle.response.truthful), abs=0.06)
    counts = oracle.unbiased_indicators(reports).sum(axis=0)
    assert counts[[0, 256]] == pytest.approx([800, 400], abs=60)
    assert np.abs(counts[1:256]).max() < 60


def test_hashing_takes_more_buckets_where_the_budget_is_larger():
    few, many = (LocalHashing.calibrate(300, "x", n_reports=1, epsilon=e, delta=1e-9) for e in (0.5, 3.0))
    assert few.response.n_options == 3
    assert many.response.n_options == 21
    for oracle, epsilon in ((few, 0.5), (many, 3.0)):
        assert composed_epsilon(oracle.event(), 1e-9).epsilon <= epsilon


@pytest.mark.parametrize(("n_options", "truthful"), [(1, Fraction(1)), (4, Fraction(1, 5)), (4, Fraction(1))])
def test_a_response_that_cannot_be_is_refused(n_options, truthful):
    with pytest.raises(CalibrationError):
        RandomizedResponse(n_options, truthful)


def test_a_budget_too_small_for_any_truth_is_refused():
    with pytest.raises(CalibrationError, match="so small"):
        RandomizedResponse.calibrate(9, n_reports=4, epsilon=1e-7, delta=1e-9)


@pytest.mark.parametrize("oracle", [THIRDS, LocalHashing(4, RandomizedResponse(2, Fraction(3, 4)), "x")])
def test_a_choice_that_is_no_option_is_refused(oracle):
    for bad in ([4], [-1]):
        with pytest.raises(ValueError, match=r"outside 0\.\.3"):
            answered(oracle, np.array(bad), entropy())


def test_reports_without_truth_are_not_debiased():
    with pytest.raises(CalibrationError, match="do not depend on the truth"):
        RandomizedResponse(2, Fraction(1, 2)).unbiased_indicators(np.zeros(3, dtype=np.int64))
