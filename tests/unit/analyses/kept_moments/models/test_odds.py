"""Weights of log odds from the moments of a population that is known, and errors of which the law is known."""

import numpy as np
import pytest
from releases import plan_of, released, tables_of

from analyses.kept_moments.models.odds import along, fitted, n_points
from analyses.kept_moments.models.population import Features, Population
from analyses.kept_moments.questions import ask

COVARIANCE = np.array([[4.0, 1.0, 0.3], [1.0, 1.0, -0.2], [0.3, -0.2, 0.5]])
MEAN = np.array([1.0, -0.5, 2.0])
SLOPES = np.array([[0.4, -0.2, 0.1], [-0.8, 0.3, 0.5], [1.0, 0.2, -0.6]])
BASES = np.array([-1.0, 0.5, -0.3])


def moments_of_numbers():
    whole = np.eye(4)
    whole[:3, :3], whole[:3, 3], whole[3, :3] = COVARIANCE + np.outer(MEAN, MEAN), MEAN, MEAN
    return whole


def shares(odds):
    found = np.exp(odds)
    return found / (1 + found.sum(axis=-1, keepdims=True))


@pytest.mark.parametrize("n_odds", [1, 2, 3])
def test_weights_are_those_of_the_population_to_a_thousandth(n_odds):
    """The mean of p(x) x by a rule in all three numbers, which the code under test does not use."""
    at, weights = np.polynomial.hermite_e.hermegauss(40)
    places = np.indices((40,) * 3).reshape(3, -1)
    rows = MEAN + at[places].T @ np.linalg.cholesky(COVARIANCE).T
    parts = weights[places].prod(axis=0) / weights.sum() ** 3
    true = np.vstack([SLOPES[:, :n_odds], BASES[:n_odds]])
    whole = np.column_stack([rows, np.ones(len(rows))])
    target = whole.T @ (parts[:, None] * shares(whole @ true))
    features = Features(("a", "b", "c"), (), (0, 1, 2))
    points = along(Population.of(moments_of_numbers(), features), n_odds, np.zeros(3), np.ones(3))
    assert len(points(true)[1]) == n_points(features, n_odds)
    found = fitted(points, target, np.zeros_like(true))
    assert found == pytest.approx(true, abs=1e-3)


def test_points_have_the_moments_of_the_population_whatever_the_weights_are():
    features = Features(("a", "yes", "b", "c"), ((1,),), (0, 2, 3))
    rng = np.random.default_rng(2)
    yes = rng.random(500) < 0.3
    rows = rng.normal(size=(500, 3)) + np.outer(yes, [1, 0, -2])
    whole = np.column_stack([rows[:, :1], yes, rows[:, 1:], np.ones(500)])
    raw = whole.T @ whole / 500
    points = along(Population.of(raw, features), 2, np.zeros(4), np.ones(4))
    for weights in (np.zeros((5, 2)), rng.normal(size=(5, 2))):
        found, parts, beyond = points(weights)
        assert found.T @ (parts[:, None] * found) + beyond == pytest.approx(raw, abs=1e-9)


def test_the_error_by_chance_of_two_yes_or_no_is_that_of_their_table():
    """A hundred draws, whose own deviation is off by a fourteenth, would not be this near."""
    tables = tables_of(5000)
    release = released(tables, plan_of(tables, epsilon=1000.0))
    found = ask(release, "logistic", label="bank.owns", columns=["clinic.risk"])
    counts = np.array(ask(release, "crosstab", down="clinic.risk", across="bank.owns").table["count"]).reshape(3, 2)
    of_level = (1 / counts).sum(axis=1)
    expected = np.sqrt([of_level[1] + of_level[0], of_level[2] + of_level[0], of_level[0]])
    assert found.table["chance_error"] == pytest.approx(expected.tolist(), rel=0.02)
