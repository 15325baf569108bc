"""Shares of categories: their errors by enumeration, and how often their intervals hold the truth."""

from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

from analyses.distribution.estimates.about_intervals import FEW_RESPONSES, FEW_SIGNS, OF_WAVES
from analyses.distribution.estimates.estimate import CLOSED, estimated, statistics
from analyses.distribution.estimates.noise_of_responses import errors_of_frequencies
from analyses.distribution.estimates.shares import _errors, shares_of
from analyses.distribution.estimates.tally import tally_of
from analyses.distribution.inquiry import DistributionParams, Inquiry
from dp.local_mechanism.hadamard_response import HadamardResponse
from dp.local_mechanism.hashed_response import DirectResponse, HashedResponse
from dp.local_mechanism.odds import Odds
from dp.local_mechanism.public_choice import PublicChoices
from dp.local_mechanism.sign_response import SignResponse
from dp.local_mechanism.wave import Wave
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
    if isinstance(oracle, HashedResponse):
        g, p = oracle.n_buckets, float(oracle.response.truthful)
        functions = np.array(list(product(range(g), repeat=K)))
        supports = np.concatenate([functions == output for output in range(g)]).astype(float)
        law = np.where(supports.T > 0, p, (1 - p) / (g - 1)) / len(functions)
        return (supports - 1 / g) / (p - 1 / g), law
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


@pytest.mark.parametrize(
    "oracle", [DirectResponse(K, ODDS), HashedResponse.of_odds(K, ODDS), HadamardResponse(K, ODDS)]
)
def test_draws_of_errors_have_the_covariance_of_the_scores_by_enumeration(oracle):
    scores, laws = laws_of(oracle)
    f, n = np.array([0.4, 0.1, 0.0, 0.2, 0.3]), 50
    law = f @ laws
    mean = law @ scores
    exact = (scores.T * law) @ scores - np.outer(mean, mean)
    factor = errors_of_frequencies(oracle, f, (n,), (np.eye(K),))  # draws are linear in the normal numbers
    assert mean == pytest.approx(f, abs=1e-9)
    assert n * factor.T @ factor == pytest.approx(exact)


@pytest.mark.parametrize("method", ["tree", *(pytest.param(one, marks=pytest.mark.slow) for one in ("haar", "hashed"))])
def test_intervals_of_responses_hold_the_truth_as_often_as_they_say(method):
    """The empty input is one in ten; the other rows are drawn anew in each run, as intervals are about their law."""
    d, n, runs, rng = 22, 2500, 40, np.random.default_rng(2)
    params = DistributionParams(range=(0.0, 1.0), buckets=d, bins=d, method=method, queries=((0.2, 0.4), (0.5, 0.55)))
    inquiry = Inquiry(params, Odds.of_epsilon(2.0).favoured)
    p = np.append(0.9 * rng.dirichlet(np.full(d, 0.4)), 0.1)
    truth, held = statistics(inquiry, p[:-1] / 0.9), []
    for run in range(runs):
        result = answered(inquiry, rng.choice(d + 1, n, p=p), run)
        known = result["intervals"]
        ends = np.array([known["mean"], *known["quantiles"], *known["queries"], *known["probabilities"]])
        held.append((ends[:, 0] <= truth) & (truth <= ends[:, 1]))
    hits = np.mean(held, axis=0)
    assert 0.91 < hits[:8].mean() < 0.99, "320 intervals, some 100 of them independent"
    assert 0.92 < hits[8:].mean() < 0.98
    assert hits.min() >= 0.75, "no number is left out"
    assert "about the distribution that the rows are from" in result["about_intervals"]


@pytest.mark.parametrize(
    ("method", "buckets"), [("hashed", K), ("hashed", 4 * K), ("tree", K), ("sign", K), ("wave", K)]
)
def test_where_nobody_or_hardly_anybody_has_a_value_nothing_is_stated_in_closed_form_and_the_text_says_so(
    method, buckets
):
    inquiry = inquiry_of(method, buckets=buckets)
    for n in (1, 5, 300):
        result = answered(inquiry, np.full(n, inquiry.empty), n)
        assert [result[name] for name in ("intervals", "shares", *CLOSED)] == [None] * (2 + len(CLOSED))
        said = {"sign": FEW_SIGNS, "wave": OF_WAVES}
        assert result["about_intervals"] == said.get(method, FEW_RESPONSES)
    assert answered(inquiry, np.zeros(3000, dtype=int), 1)["about_intervals"] not in (FEW_SIGNS, FEW_RESPONSES)


def inquiry_of(method, epsilon=2.0, buckets=K):
    params = DistributionParams(range=(0.0, float(K)), buckets=buckets, bins=K, method=method)
    return Inquiry(params, Odds.of_epsilon(epsilon).favoured)


def answered(inquiry, inputs, run):
    choices = PublicChoices(f"question {run}".encode(), (f"d{i}" for i in range(len(inputs))))
    tally, own = tally_of(inquiry.response), () if isinstance(inquiry.response, Wave | SignResponse) else (choices,)
    tally.add(inquiry.response.respond(inputs, *own, InsecureTestEntropy(f"run {run}")), choices)
    return estimated(inquiry, tally)


@pytest.mark.parametrize(
    "method", ["direct", *(pytest.param(one, marks=pytest.mark.slow) for one in ("hashed", "hadamard"))]
)
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
    assert any("Those of shares are about the rows that answered" in line for line in lines)
    table = DistributionResult(NO_JOB, found).table()
    assert [table[name][2] for name in ("share", "at_least", "at_most")] == [share, lower, upper]


def test_bins_of_several_buckets_have_no_line_each():
    params = DistributionParams(range=(0.0, 10.0), buckets=2 * K, bins=K, method="hadamard")
    inquiry = Inquiry(params, ODDS.favoured)
    found = answered(inquiry, np.repeat(np.arange(K), 200), 0)
    assert len(found["shares"]) == K
    assert not any("share of" in line for line in found_lines(found))
    assert any("shares of bins alone" in line for line in found_lines(found))
    assert "share" not in DistributionResult(NO_JOB, found).table()
