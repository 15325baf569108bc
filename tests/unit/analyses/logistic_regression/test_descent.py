import numpy as np
import pytest

from analyses.logistic_regression.descent import Descent, on_lattice, squared_lattice_bound


@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
def test_a_descent_finds_the_lowest_point_of_a_bowl(optimiser):
    lowest = np.array([0.3, -0.2, 0.5])
    descent = Descent(3, optimiser, 0.05, 10.0)
    for _ in range(500):
        descent.follow(descent.weights - lowest)
    assert descent.weights == pytest.approx(lowest, abs=1e-3)


@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
def test_the_weights_stay_in_the_ball_and_reach_its_edge(optimiser):
    descent = Descent(2, optimiser, 0.5, 1.0)
    for _ in range(30):
        descent.follow(np.array([-3.0, -4.0]))
        assert np.linalg.norm(descent.weights) <= 1 + 1e-12
    assert np.linalg.norm(descent.weights) == pytest.approx(1.0)


def test_sgd_subtracts_the_gradient_times_the_rate_and_adam_moves_by_the_rate_whatever_its_size():
    for optimiser, expected in (("sgd", [-0.2, 0.02]), ("adam", [-0.1, 0.1])):
        descent = Descent(2, optimiser, 0.1, 10.0)
        descent.follow(np.array([2.0, -0.2]))
        assert descent.weights == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("weights", [[0.6, 0.8], [0.6004, 0.7997], [-1.0, 0.0], [0.0, 0.0], [0.70711, -0.70711]])
@pytest.mark.parametrize("units", [1, 3, 1024])
def test_weights_on_the_lattice_are_near_and_never_too_long(weights, units):
    bound = squared_lattice_bound(units, 1.0)
    found = on_lattice(np.array(weights), units, bound)
    assert int(found @ found) <= bound
    assert np.abs(found - np.array(weights) * units).max() <= 1.01
