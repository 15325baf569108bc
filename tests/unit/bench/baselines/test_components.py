import numpy as np
import pytest

from analyses.pca.protocol import leading_components
from analyses.pca.reference import captured_variance
from bench.baselines.components import central_components, local_noise_components

BUDGET = {"delta": 1e-6}


@pytest.fixture
def rows():
    rng = np.random.default_rng(5)
    rows = np.abs(rng.normal(size=(5000, 6)) * [3, 2, 1, 0.3, 0.2, 0.1])
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def captured(rows, find, epsilon, seed=1):
    rng = np.random.default_rng(seed)
    return captured_variance(rows.T @ rows, find(epsilon=epsilon, rng=rng, **BUDGET))


def test_with_a_generous_epsilon_central_privacy_finds_the_exact_components(rows):
    moment = rows.T @ rows
    exact = leading_components(moment, 2)[1]
    found = captured(rows, lambda **o: central_components(moment, 2, **o), 100.0)
    assert found == pytest.approx(captured_variance(moment, exact), rel=1e-4)


def test_central_privacy_beats_local_noise_at_the_same_epsilon(rows):
    moment = rows.T @ rows
    central = captured(rows, lambda **o: central_components(moment, 2, **o), 0.5)
    local = captured(rows, lambda **o: local_noise_components(rows, 2, **o), 0.5)
    assert central > local


def test_local_noise_becomes_useful_when_privacy_is_given_up(rows):
    strict = captured(rows, lambda **o: local_noise_components(rows, 2, **o), 0.1)
    loose = captured(rows, lambda **o: local_noise_components(rows, 2, **o), 1e4)
    assert loose > strict + 0.1


def test_components_of_both_rivals_are_orthonormal(rows):
    rng = np.random.default_rng(0)
    for found in (
        central_components(rows.T @ rows, 3, epsilon=1.0, rng=rng, **BUDGET),
        local_noise_components(rows, 3, epsilon=1.0, rng=rng, **BUDGET),
    ):
        assert np.allclose(found @ found.T, np.eye(3), atol=1e-10)


def test_captured_variance_is_the_share_of_the_trace():
    moment = np.diag([3.0, 1.0])
    assert captured_variance(moment, np.array([[1.0, 0.0]])) == pytest.approx(0.75)
