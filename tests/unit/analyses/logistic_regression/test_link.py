import dataclasses

import numpy as np
import pytest
from scipy.special import expit

from analyses.logistic_regression.link import LabelledMoments, calibrated, fit, ridge_of
from bench.baselines.logistic import exact_weights

CONSTANT = 0.35


def normal_rows(n_rows=40_000, seed=1, centre=-0.6):
    """Rows of correlated normal features, of norm 1 at most in nearly all, and labels of a true logistic model."""
    rng = np.random.default_rng(seed)
    mixed = rng.normal(size=(4, 4)) * 0.12
    x = rng.normal(size=(n_rows, 4)) @ mixed + 0.1
    weights = np.array([6.0, -4.0, 3.0, 0.0])
    y = (rng.random(n_rows) < expit(centre + x @ weights)).astype(float)
    return x, y, weights, centre


def moments_of(x, y, deviation=0.0, seed=2):
    rows = np.column_stack([x, CONSTANT * (2 * y - 1), np.full(len(x), CONSTANT)])
    noise = np.random.default_rng(seed).normal(0, deviation, (rows.shape[1],) * 2)
    return LabelledMoments(rows.T @ rows + (noise + noise.T) / np.sqrt(2), CONSTANT, deviation)


def slope_of(log_odds, y):
    """The factor that would make predictions fit best."""
    return exact_weights(np.column_stack([log_odds, np.ones(len(log_odds))]), y)


def test_for_normal_features_the_weights_are_those_of_the_true_model():
    x, y, weights, centre = normal_rows(400_000)
    found, likeliest = fit(moments_of(x, y)), exact_weights(np.column_stack([x, np.ones(len(x))]), y, 1e-9)
    assert found.weights == pytest.approx(weights, abs=0.25)
    assert [*found.weights, found.intercept] == pytest.approx(likeliest, abs=0.02)
    assert found.intercept == pytest.approx(centre, abs=0.05)
    assert found.ridge == 0
    assert found.mean_label == pytest.approx(y.mean())
    assert found.log_odds_deviation == pytest.approx((x @ weights).std(), rel=0.02)


def test_four_times_the_line_of_least_squares_where_the_first_order_gradient_is_zero_is_not_calibrated_but_this_is():
    x, y, _, _ = normal_rows(centre=-1.5)
    first_order = 4 * np.linalg.lstsq(np.column_stack([x, np.ones(len(x))]), y - 0.5)[0]
    assert slope_of(x @ first_order[:4] + first_order[4], y)[0] > 1.25
    found = fit(moments_of(x, y))
    slope, shift = slope_of(x @ found.weights + found.intercept, y)
    assert slope == pytest.approx(1, abs=0.05)
    assert shift == pytest.approx(0, abs=0.05)


@pytest.mark.parametrize("deviation", [3.0, 10.0, 25.0])
def test_noise_does_not_make_the_weights_overconfident(deviation):
    x, y, _, _ = normal_rows(6000)
    testing, labels, _, _ = normal_rows(20_000, seed=9)
    slopes = []
    for seed in range(40):
        found = fit(moments_of(x, y, deviation, seed))
        if found.weights.any():
            slopes.append(slope_of(testing @ found.weights + found.intercept, labels)[0])
    assert len(slopes) > 30
    assert 0.8 < np.median(slopes) < 1.3


def test_a_release_of_noise_alone_says_so_and_gives_no_weights():
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(50, 4)) / 4, (rng.random(50) < 0.5).astype(float)
    few = fit(moments_of(x, y, 50.0))
    assert not few.weights.any()
    assert "there is only noise" in few.note
    nothing = [fit(moments_of(x, y, 0.5, seed)) for seed in range(30)]
    assert any(not found.weights.any() for found in nothing)


def test_a_few_hundred_rows_whose_number_the_noise_tells_are_no_noise():
    """The noise's level, which grows with the columns, is above the entry that counts the rows; a deviation is not."""
    rng = np.random.default_rng(5)
    line = rng.normal(size=400)
    x = (line[:, np.newaxis] + 0.3 * rng.normal(size=(400, 30))) / 20
    y = (line > 0).astype(float)
    better = 0
    for seed in range(20):
        moments = moments_of(x, y, 6.0, seed)
        assert moments.noise_level / CONSTANT**2 > len(x)
        found = fit(moments)
        better += bool(found.weights.any()) and np.corrcoef(x @ found.weights, line)[0, 1] > 0.8
    assert better >= 15


def test_labels_that_do_not_depend_on_the_features_are_hardly_ever_said_to_and_others_are():
    rng = np.random.default_rng(6)
    x = rng.normal(size=(600, 8)) / 8
    of_chance, of_x = (rng.random(600) < 0.4).astype(float), (rng.random(600) < expit(20 * x[:, 0])).astype(float)
    said = {"nothing": 0, "something": 0}
    for seed in range(100):
        for name, y in (("nothing", of_chance), ("something", of_x)):
            found = fit(moments_of(x, y, 3.0, seed))
            said[name] += not found.weights.any() or "may not depend on the features" in found.note
    assert said["nothing"] >= 88
    assert said["something"] <= 10


def test_the_number_of_rows_is_within_what_is_declared():
    x, y, _, _ = normal_rows()
    released = moments_of(x, y, 2.0)
    for fewest, most in ((10.0, len(x) - 100.0), (len(x) + 100.0, 1e6)):
        declared = dataclasses.replace(released, fewest=fewest, most=most)
        assert declared.n_rows == (most if most < len(x) else fewest)


def test_the_ridge_lifts_the_smallest_eigenvalue_to_half_of_the_noise_level_and_no_further():
    assert ridge_of(5.0, 2.0) == 0
    assert ridge_of(0.5, 2.0) == pytest.approx(0.5)
    assert ridge_of(-7.0, 2.0) == pytest.approx(1.0)
    x, y, _, _ = normal_rows()
    x = np.column_stack([x, x[:, 0] + x[:, 1]])
    found = fit(moments_of(x, y, 5.0))
    assert 0 < found.ridge <= 0.5 * moments_of(x, y, 5.0).noise_level
    assert "a ridge keeps its weight small" in found.note


def test_columns_that_depend_on_each_other_have_finite_weights_without_noise():
    x, y, _, _ = normal_rows()
    whole, twice = fit(moments_of(x, y)), fit(moments_of(np.column_stack([x, x[:, :1]]), y))
    assert twice.weights[:1] + twice.weights[4:] == pytest.approx(whole.weights[:1], rel=1e-6)


@pytest.mark.parametrize("centre", [-4.0, -1.0, 0.0, 2.0])
@pytest.mark.parametrize("slope", [0.05, 1.0, 4.0])
def test_slope_and_centre_are_those_whose_labels_have_these_moments(slope, centre):
    values = np.linspace(-9, 9, 20_001)
    masses = np.exp(-(values**2) / 2)
    masses /= masses.sum()
    chance = expit(centre + slope * values)
    found = calibrated(0.25, float(masses @ (values / 2 * chance)), float(masses @ chance))
    assert found == pytest.approx((2 * slope, centre), rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("mean_label", [1e-4, 0.3, 0.9999])
def test_labels_that_a_threshold_tells_apart_have_a_finite_slope(mean_label):
    slope, centre = calibrated(1.0, 10.0, mean_label)
    assert 1 < slope < 100
    assert np.isfinite(centre)
