import dp_accounting
import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant
from sklearn.linear_model import LogisticRegression

from bench.baselines.logistic import (
    accuracy,
    dp_sgd_noise,
    dp_sgd_weights,
    exact_weights,
    local_noise_table,
)


def spent(multiplier, rate, steps, delta=1e-5):
    step = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(multiplier))
    accountant = RdpAccountant()
    accountant.compose(dp_accounting.SelfComposedDpEvent(step, steps))
    return accountant.get_epsilon(delta)


def test_the_noise_of_dp_sgd_is_the_least_that_meets_its_epsilon():
    epsilon = 0.5
    multiplier = dp_sgd_noise(epsilon=epsilon, delta=1e-5, sampling_rate=0.02, iterations=100)
    assert spent(multiplier, 0.02, 100) <= epsilon < spent(multiplier * 0.99, 0.02, 100)


def separable(n_rows, seed):
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 0.5, (n_rows, 3))
    x[:, 2] = 0.5
    return x, (x[:, 0] > x[:, 1]).astype(float)


@pytest.mark.slow
def test_dp_sgd_learns_and_less_so_with_less_epsilon():
    x, y = separable(4000, 1)
    budget = {"delta": 1e-5, "sampling_rate": 0.05, "iterations": 60, "optimiser": "adam", "learning_rate": 0.3}
    found = {
        epsilon: accuracy(x @ dp_sgd_weights(x, y, epsilon=epsilon, rng=np.random.default_rng(2), **budget), y)
        for epsilon in (4.0, 0.01)
    }
    assert found[4.0] > 0.95
    assert found[0.01] < 0.9


def test_the_weights_without_privacy_are_those_of_scikit_learn():
    x, y = separable(2000, 4)
    y = np.where(np.random.default_rng(5).random(2000) < 0.1, 1 - y, y)
    ridge = 1e-3
    theirs = LogisticRegression(C=1 / (ridge * len(x)), fit_intercept=False, tol=1e-8, max_iter=1000).fit(x, y)
    assert exact_weights(x, y, ridge) == pytest.approx(theirs.coef_[0], abs=0.01)


def test_local_noise_is_that_of_two_rows_that_are_2_apart():
    x, y = np.zeros((30_000, 2)), np.zeros(30_000)
    noisy_x, noisy_y = local_noise_table(x, y, epsilon=1.0, delta=1e-5, rng=np.random.default_rng(3))
    deviation = 2 * 3.7304  # of the analytic Gaussian mechanism at epsilon 1, delta 1e-5
    assert np.std(noisy_x) == pytest.approx(deviation, rel=0.02)
    assert np.std(noisy_y) == pytest.approx(deviation, rel=0.02)


def test_accuracy_counts_labels_on_the_right_side():
    assert accuracy(np.array([0.1, -0.1, 2.0, 0.0]), np.array([1.0, 1.0, 0.0, 0.0])) == 0.5
