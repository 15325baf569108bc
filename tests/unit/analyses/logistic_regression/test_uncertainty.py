import numpy as np
import pytest
from labelled_tables import labelled_tables, moments_job
from scipy.special import expit

from analyses.logistic_regression.link import LabelledMoments, fit
from analyses.logistic_regression.protocol import plan
from analyses.logistic_regression.uncertainty import N_DRAWS, redrawn, standard_errors

CONSTANT = 0.35
WEIGHTS = np.array([6.0, -4.0, 3.0, 0.0])
N_ROWS = 3000


def drawn(rng, n_rows, n_alike=0):
    """Rows and labels of one logistic model, and some columns more that are nearly the first."""
    x = rng.normal(size=(n_rows, 4)) * 0.12 + 0.1
    y = (rng.random(n_rows) < expit(-0.6 + x @ WEIGHTS)).astype(float)
    alike = x[:, :1] + 0.01 * rng.normal(size=(n_rows, n_alike))
    return np.hstack([x, alike]), y


def moments_of(x, y, deviation=0.0, rng=None):
    rows = np.column_stack([x, CONSTANT * (2 * y - 1), np.full(len(x), CONSTANT)])
    matrix = rows.T @ rows
    if deviation:
        half = rng.normal(0, deviation / np.sqrt(2), matrix.shape)
        matrix += half + half.T
    return LabelledMoments(matrix, CONSTANT, deviation)


def with_intercept(found):
    return np.append(found.weights, found.intercept)


def z_scores(deviation, runs, n_alike=0, shrink=1.0):
    """How many standard errors the weights are off, in independent jobs on independent tables."""
    rng = np.random.default_rng(4)
    whole, labels = drawn(rng, 200_000, n_alike)
    found = []
    for _ in range(runs):
        moments = moments_of(*drawn(rng, N_ROWS, n_alike), deviation, rng)
        fitted = fit(moments)
        if not fitted.weights.any():
            continue
        spread = np.std([with_intercept(f) for f in redrawn(moments, fitted)], axis=0) * shrink
        everybody = moments_of(whole, labels).matrix * (N_ROWS / len(whole))
        truth = with_intercept(fit(LabelledMoments(everybody, CONSTANT, 0.0), fitted.ridge))
        if n_alike == 0 and fitted.ridge == 0:
            truth = np.append(WEIGHTS, -0.6)
        found.append((with_intercept(fitted) - truth) / spread)
    assert len(found) > 0.9 * runs
    return np.abs(np.array(found))


def test_95_percent_intervals_of_few_jobs_hold_the_true_weights_in_90_to_99_of_100():
    assert 0.9 < (z_scores(2.0, 16) < 1.96).mean() <= 0.99


@pytest.mark.slow
@pytest.mark.parametrize(("deviation", "n_alike"), [(0.5, 0), (2.0, 0), (1.0, 2), (6.0, 0)])
def test_95_percent_intervals_hold_the_truth_in_45_to_49_of_50_jobs(deviation, n_alike):
    """Of the true model where no ridge is needed, else of the same ridge without noise on everybody."""
    assert 0.9 < (z_scores(deviation, 50, n_alike) < 1.96).mean() <= 0.99


@pytest.mark.slow
def test_so_the_same_test_notices_errors_that_are_a_third_too_small():
    assert (z_scores(2.0, 40, shrink=0.67) < 1.96).mean() < 0.9


def test_errors_are_in_the_units_of_the_columns_and_the_same_for_the_same_release():
    tables = labelled_tables(400)
    job = moments_job({"max_rows": 400}, privacy={"epsilon": 1e4, "delta": 1e-5})
    planned = plan(job, [t.schema for t in tables.values()])
    rng = np.random.default_rng(1)
    x = rng.uniform(-0.3, 0.3, (400, 6))
    y = (x[:, 0] > x[:, 1]).astype(float)
    moments = moments_of(x, y)
    moments = LabelledMoments(moments.matrix, planned.constant / planned.params.gamma, 0.5)
    found = fit(moments)
    per_unit, of_intercept = standard_errors(planned, moments, found)
    scaled = np.std([f.weights for f in redrawn(moments, found)], axis=0)
    assert per_unit == pytest.approx(scaled / (planned.row_norm * 4.0))
    assert of_intercept > 0
    assert (per_unit, of_intercept) == standard_errors(planned, moments, found)
    assert len(redrawn(moments, found)) == N_DRAWS


def test_where_there_is_only_noise_there_are_no_errors():
    tables = labelled_tables(60)
    planned = plan(moments_job(), [t.schema for t in tables.values()])
    rng = np.random.default_rng(3)
    nothing = moments_of(rng.normal(size=(50, 6)) / 4, np.zeros(50), 50.0, rng)
    assert standard_errors(planned, nothing, fit(nothing)) is None
