import math

import numpy as np
import pytest

from dp.cost.accounting import Adjacency, AdjacencyError, CalibrationError
from dp.cost.composition import composed_epsilon
from dp.mechanism.scalar import DiscreteGaussianNoise, DiscreteLaplaceNoise, Mechanism, SkellamNoise
from entropy import InsecureTestEntropy

ADD = Adjacency.ADD_OR_REMOVE_ONE
KINDS = [SkellamNoise, DiscreteGaussianNoise, DiscreteLaplaceNoise]


@pytest.mark.parametrize("kind", KINDS)
def test_noise_comes_with_the_cost_of_its_release(kind):
    mechanism = kind(5, 9, 3, 1000, ADD)
    assert mechanism.draw(InsecureTestEntropy("cost")).shape == (5,)
    assert mechanism.event.adjacency is ADD
    assert mechanism.events("coordinator") == (mechanism.event,)
    with pytest.raises(AdjacencyError, match="not for the view of the coalition"):
        mechanism.events("coalition")


def test_a_mechanism_without_its_cost_cannot_be_made():
    class Free(Mechanism):
        length = 1

        def _draw(self, entropy):
            return np.zeros(1, dtype=np.int64)

    with pytest.raises(TypeError, match="event"):
        Free()


def test_a_mechanism_cannot_hand_out_noise_past_its_cost():
    with pytest.raises(TypeError, match="without its cost"):

        class Bypass(SkellamNoise):
            def draw(self, entropy):
                return self._draw(entropy)


def test_a_mechanism_with_an_event_of_unknown_cost_draws_nothing():
    class Odd(SkellamNoise):
        @property
        def event(self):
            return "nothing"

    with pytest.raises((TypeError, AttributeError)):
        Odd(1, 1, 1, 10, ADD).draw(InsecureTestEntropy("odd"))


@pytest.mark.parametrize("kind", KINDS)
def test_calibration_gives_the_least_parameter_that_suffices(kind):
    bounds = {"length": 4, "squared_l2": 50, "l1": 10, "adjacency": ADD}
    found = kind.calibrate(**bounds, epsilon=0.8, delta=1e-6)
    assert composed_epsilon(found.event, 1e-6).epsilon <= 0.8
    less = kind(4, 50, 10, found.parameter - 1, ADD)
    assert composed_epsilon(less.event, 1e-6).epsilon > 0.8


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf, 5e-324, "1", 1e-300])
@pytest.mark.parametrize("kind", KINDS)
def test_an_epsilon_that_no_noise_meets_is_refused(kind, epsilon):
    with pytest.raises(CalibrationError):
        kind.calibrate(length=1, squared_l2=1, l1=1, adjacency=ADD, epsilon=epsilon, delta=1e-6)


def test_laplace_noise_also_has_a_pure_epsilon():
    mechanism = DiscreteLaplaceNoise(3, 9, 3, 6, ADD)
    assert mechanism.pure_epsilon == 0.5
    assert composed_epsilon(mechanism.event, 1e-30).epsilon <= 0.5 * (1 + 1e-5)


@pytest.mark.parametrize("bad", [(0, 1, 1, 1), (1, -1, 1, 1), (1, 1, -1, 1), (1, 1, 1, 0), (1, 1, 1, 2**200)])
@pytest.mark.parametrize("kind", KINDS)
def test_bounds_and_parameters_that_cannot_be_are_refused(kind, bad):
    with pytest.raises(ValueError, match=r"at least one number|outside"):
        kind(*bad, ADD)
