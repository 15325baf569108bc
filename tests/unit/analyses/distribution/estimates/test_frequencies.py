"""Frequencies, trees and monotone fits: against dense products, quadratic programs and scikit-learn."""

import numpy as np
import pytest
from scipy.linalg import hadamard
from scipy.optimize import LinearConstraint, minimize
from sklearn.isotonic import IsotonicRegression

from analyses.distribution.estimates import tree_estimate
from analyses.distribution.estimates.frequencies import (
    Level,
    estimate,
    estimate_levels,
    estimate_signed,
    haar_frequencies,
    walsh_hadamard,
)
from analyses.distribution.estimates.metrics import (
    kolmogorov_smirnov,
    mean_of,
    quantiles,
    range_query_error,
    variance_of,
    wasserstein,
)
from analyses.distribution.estimates.monotone import isotonic
from analyses.distribution.estimates.tree_estimate import least_squares, non_negative
from dp.local_mechanism.hadamard_response import HadamardResponse
from dp.local_mechanism.hashed_response import DirectResponse, HashedResponse
from dp.local_mechanism.hierarchy import HaarResponse, HierarchicalResponse, level_sizes
from dp.local_mechanism.odds import Odds
from dp.local_mechanism.public_choice import PublicChoices
from entropy import InsecureTestEntropy

ODDS = Odds.of_epsilon(2.0)


def choices_of(n):
    return PublicChoices(b"a question", [str(i) for i in range(n)])


def beta_values(n, d, seed=1):
    return np.minimum((np.random.default_rng(seed).beta(5, 2, n) * d).astype(np.int64), d - 1)


@pytest.mark.parametrize("oracle", [DirectResponse(12, ODDS), HashedResponse.of_odds(12, ODDS)])
def test_frequencies_are_unbiased_and_vary_as_stated(oracle):
    values, n = np.repeat(np.arange(12), 250) % 6, 3000
    truth = np.bincount(values, minlength=12) / n
    source, found = InsecureTestEntropy("oracles"), []
    for run in range(60):
        choices = PublicChoices(f"question {run}".encode(), [str(i) for i in range(n)])
        found.append(estimate(oracle, oracle.respond(values, choices, source), choices).frequencies)
    error = np.mean(found, axis=0) - truth
    assert np.abs(error).max() < 4.5 * np.sqrt(float(oracle.variance) / n / 60) * 1.5
    rare = np.var(np.array(found)[:, 6:], axis=0).mean()
    assert rare == pytest.approx(float(oracle.variance) / n, rel=0.25)


def test_hashes_in_blocks_are_hashes(monkeypatch):
    oracle, n = HashedResponse.of_odds(12, ODDS), 500
    choices = choices_of(n)
    responses = oracle.respond(np.arange(n) % 12, choices, InsecureTestEntropy("blocks"))
    whole = estimate(oracle, responses, choices).frequencies
    monkeypatch.setattr("analyses.distribution.estimates.frequencies._BLOCK", 100)
    assert (estimate(oracle, responses, choices).frequencies == whole).all()


def test_nobody_answered():
    assert estimate(DirectResponse(4, ODDS), np.zeros(0, dtype=np.int64), choices_of(0)).variance == np.inf


def test_the_transform_is_the_hadamard_matrix():
    x = np.random.default_rng(2).normal(size=16)
    assert walsh_hadamard(x) == pytest.approx(hadamard(16) @ x)


def test_hadamard_responses_give_signed_frequencies():
    mechanism, n = HadamardResponse(5, ODDS), 60_000
    values, choices = np.arange(n) % 5, choices_of(n)
    negated = values == 3
    draws = mechanism.draw(InsecureTestEntropy("h"), choices)
    responses = mechanism.signs_of(values, choices.rows(mechanism.n_rows), draws, negated)
    found = estimate_signed(mechanism, responses, choices)
    assert found == pytest.approx([0.2, 0.2, 0.2, -0.2, 0.2], abs=0.03)


@pytest.mark.parametrize("d", [16, 13])
def test_trees_give_back_what_went_in(d):
    values, choices = beta_values(120_000, d), choices_of(120_000)
    truth = np.bincount(values, minlength=d) / len(values)
    tree, haar = HierarchicalResponse(d, ODDS), HaarResponse(d, ODDS)
    levels = estimate_levels(tree, tree.respond(values, choices, InsecureTestEntropy("tree")), choices)
    assert [len(level.frequencies) for level in levels] == list(tree.sizes)
    raw = least_squares(levels, 4)[-1]
    assert raw == pytest.approx(truth, abs=0.03)
    assert raw.sum() == pytest.approx(1)
    leaves, has_converged = non_negative(levels, 4)
    assert has_converged
    assert leaves == pytest.approx(truth, abs=0.03)
    found = haar_frequencies(haar, haar.respond(values, choices, InsecureTestEntropy("haar")), choices)
    assert found == pytest.approx(truth, abs=0.04)


def made_up_levels(d, branching, seed):
    rng = np.random.default_rng(seed)
    return [
        Level(rng.normal(1 / size, 1.5 / size, size), float(v))
        for size, v in zip(level_sizes(d, branching), rng.uniform(0.5, 4, 9), strict=False)
    ]


def problem(levels, branching):
    """The rows of levels as sums of leaves, their targets and weights."""
    d = len(levels[-1].frequencies)
    rows, targets, weights = [], [], []
    for depth, level in enumerate(levels):
        span = branching ** (len(levels) - 1 - depth)
        for v, y in enumerate(level.frequencies):
            row = np.zeros(d)
            row[v * span : (v + 1) * span] = 1
            rows.append(row)
            targets.append(y)
            weights.append(1 / level.variance)
    return np.array(rows), np.array(targets), np.array(weights)


@pytest.mark.parametrize(("d", "branching"), [(16, 4), (13, 4), (9, 2), (3, 4)])
def test_tree_estimates_solve_their_quadratic_programs(d, branching):
    levels = made_up_levels(d, branching, d)
    rows, targets, weights = problem(levels, branching)
    root = np.sqrt(weights)[:, None]
    # Least squares with sum 1, by its normal equations with a multiplier.
    normal = np.block([[(rows * root).T @ (rows * root), np.ones((d, 1))], [np.ones((1, d)), np.zeros((1, 1))]])
    solved = np.linalg.solve(normal, np.append(rows.T @ (weights * targets), 1))[:d]
    found = least_squares(levels, branching)
    assert found[-1] == pytest.approx(solved, abs=1e-10)
    assert np.concatenate(found) == pytest.approx(rows @ found[-1], abs=1e-10)

    leaves, has_converged = non_negative(levels, branching)
    program = minimize(
        lambda x: weights @ (rows @ x - targets) ** 2 / 2,
        np.full(d, 1 / d),
        jac=lambda x: rows.T @ (weights * (rows @ x - targets)),
        bounds=[(0, 1)] * d,
        constraints=LinearConstraint(np.ones(d), 1, 1),
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    assert has_converged
    assert leaves == pytest.approx(program.x, abs=1e-5)


def test_levels_about_which_nobody_answered_do_not_matter():
    levels = made_up_levels(16, 4, 5)
    unknown = [Level(np.full(4, 1 / 4), np.inf), levels[1]]
    alone = levels[1].frequencies + (1 - levels[1].frequencies.sum()) / 16
    assert least_squares(unknown, 4)[-1] == pytest.approx(alone, abs=1e-6)


def test_alternating_directions_that_did_not_converge_say_so(monkeypatch):
    monkeypatch.setattr(tree_estimate, "MAX_ROUNDS", 2)
    assert not non_negative(made_up_levels(16, 4, 1), 4)[1]


@pytest.mark.parametrize("seed", range(5))
def test_isotonic_distributions_are_those_of_scikit_learn(seed):
    raw = np.random.default_rng(seed).normal(1 / 40, 0.05, 40)
    inner = np.cumsum(raw + (1 - raw.sum()) / 40)[:-1]
    fitted = IsotonicRegression(y_min=0, y_max=1).fit_transform(np.arange(39), inner)
    found = isotonic(raw)
    assert np.cumsum(found)[:-1] == pytest.approx(fitted, abs=1e-12)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(1)
    assert isotonic(np.array([0.25, 0.75])) == pytest.approx([0.25, 0.75])


def test_metrics_of_small_distributions():
    p, q = np.array([1.0, 0, 0, 0]), np.array([0, 0, 0.5, 0.5])
    assert wasserstein(p, q) == pytest.approx((2 * 0.5 + 3 * 0.5) / 4)
    assert kolmogorov_smirnov(p, q) == 1
    assert mean_of(q) == pytest.approx(0.75)
    assert variance_of(q) == pytest.approx(1 / 64)
    assert quantiles(q, np.array([0.0, 0.25, 0.5, 0.75, 1.0])) == pytest.approx([0, 0.625, 0.75, 0.875, 1])
    assert range_query_error(p, q, 0.5) == pytest.approx((1 + 0.5 + 1) / 3)
    assert range_query_error(p, p, 0.1) == 0
