"""Shares of categories: their errors by enumeration, and how often their intervals hold the truth."""

from types import SimpleNamespace

import numpy as np
import pytest

from analyses.distribution.estimates.estimate import estimated
from analyses.distribution.estimates.shares import _errors, shares_of
from analyses.distribution.estimates.tally import tally_of
from analyses.distribution.inquiry import DistributionParams, Inquiry
from dp.local_mechanism.hadamard_response import HadamardResponse
from dp.local_mechanism.hashed_response import DirectResponse
from dp.local_mechanism.odds import Odds
from dp.local_mechanism.public_choice import PublicChoices
from entropy import InsecureTestEntropy
from results.kinds.distribution import DistributionResult, found_lines

ODDS = Odds.of_epsilon(1.0)
NO_JOB = SimpleNamespace(inputs=())
K = 5


def moments_of(scores, law):
    """Means of scores, shape (outputs, inputs), and covariances of each with the last one."""
    mean = law @ scores
    return mean, law @ (scores**2) - mean**2, law @ (scores * scores[:, -1:]) - mean * mean[-1]


def laws_of(oracle):
    """Scores of all outputs, and the law of the outputs for each input."""
    if isinstance(oracle, DirectResponse):
        p, q = float(oracle.response.truthful), float(oracle.response.other)
        law = np.full((K, K), q) + (p - q) * np.eye(K)
        return (np.eye(K) - q) / (p - q), law
    rows = np.arange(oracle.n_rows)
    entries = 1 - 2 * (np.bitwise_count(rows[:, None] & np.arange(K)) & 1).astype(int)
    c, truthful = float(oracle.variance) ** 0.5, float(oracle.odds.truthful)
    scores = c * np.concatenate([entries, -entries])
    law = []
    for of_input in entries.T:
        plus = np.where(of_input > 0, truthful, 1 - truthful)
        law.append(np.concatenate([plus, 1 - plus]) / oracle.n_rows)
    return scores, np.array(law)


@pytest.mark.parametrize("oracle", [DirectResponse(K, ODDS), HadamardResponse(K, ODDS)])
def test_errors_are_those_of_the_scores_by_enumeration(oracle):
    scores, laws = laws_of(oracle)
    inputs = np.array([0, 0, 0, 1, 2, 4, 4, 4])
    means, variances, covariances = map(np.array, zip(*(moments_of(scores, laws[v]) for v in inputs), strict=True))
    frequencies = np.bincount(inputs, minlength=K) / len(inputs)
    assert means.mean(axis=0) == pytest.approx(frequencies, abs=1e-9)
    found, with_empty = _errors(oracle, frequencies, len(inputs))
    assert found == pytest.approx(variances.mean(axis=0) / len(inputs))
    assert with_empty == pytest.approx(covariances.mean(axis=0)[:-1] / len(inputs), abs=1e-12)


def inquiry_of(method, epsilon=2.0):
    params = DistributionParams(range=(0.0, float(K)), buckets=K, bins=K, method=method)
    return Inquiry(params, Odds.of_epsilon(epsilon).favoured)


def answered(inquiry, inputs, run):
    choices = PublicChoices(f"question {run}".encode(), (f"d{i}" for i in range(len(inputs))))
    tally = tally_of(inquiry.response)
    tally.add(inquiry.response.respond(inputs, choices, InsecureTestEntropy(f"run {run}")), choices)
    return estimated(inquiry, tally)


@pytest.mark.parametrize("method", ["direct", "hashed", "hadamard"])
def test_intervals_of_shares_hold_the_truth_as_often_as_they_say(method):
    inquiry, runs = inquiry_of(method), 120
    inputs = np.repeat(np.arange(K + 1), [300, 180, 60, 0, 60, 150])
    truth, hits, errors = np.array([0.5, 0.3, 0.1, 0.0, 0.1]), 0, []
    for run in range(runs):
        shares, lower, upper = np.array(answered(inquiry, inputs, run)["shares"]).T
        hits += int(((lower <= truth) & (truth <= upper)).sum())
        errors.append((shares - truth) / (upper - lower))
    assert 0.92 < hits / (K * runs) < 0.98, "600 intervals: their part is off by .009"
    assert np.abs(np.mean(errors, axis=0)).max() < 3.5 * np.std(errors) / runs**0.5


def test_shares_are_unknown_where_hardly_anybody_has_a_value():
    oracle = DirectResponse(K, ODDS)
    assert shares_of(oracle, np.array([0.01, 0.0, 0.0, 0.0, 0.99]), 100) is None
    assert shares_of(oracle, np.array([0.3, 0.3, 0.3, 0.1, 0.0]), 10_000).shape == (K - 1, 3)


def test_a_result_about_a_category_states_its_shares_in_lines_and_in_the_table():
    found = answered(inquiry_of("hadamard"), np.repeat(np.arange(K), 100), 0)
    lines, (share, lower, upper) = found_lines(found), found["shares"][2]
    assert f"  share of 2: {share:.4f} ({lower:.4f} to {upper:.4f})" in lines
    assert any("shares of bins alone" in line for line in lines)
    table = DistributionResult(NO_JOB, found).table()
    assert [table[name][2] for name in ("share", "at_least", "at_most")] == [share, lower, upper]


def test_bins_of_several_buckets_have_no_line_each():
    params = DistributionParams(range=(0.0, 10.0), buckets=2 * K, bins=K, method="hadamard")
    inquiry = Inquiry(params, ODDS.favoured)
    found = answered(inquiry, np.repeat(np.arange(K), 200), 0)
    assert len(found["shares"]) == K
    assert not any("share of" in line for line in found_lines(found))
    assert "share" not in DistributionResult(NO_JOB, found).table()
