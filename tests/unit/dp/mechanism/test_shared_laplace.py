"""Shared Laplace noise and the choice between it and Skellam noise: least noise, budgets spent, error near central."""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from analyses.pattern_count.plan import CELL_SENSITIVITY
from dp.audit.exact_law import laplace_shares
from dp.cost.accounting import CalibrationError
from dp.cost.events.discrete_laplace import DiscreteLaplaceDpEvent, LaplaceSharesDpEvent
from dp.cost.views import PERSON, VIEWS, Protected
from dp.mechanism.shared_laplace import (
    LAPLACE_LADDER,
    MAX_MEAN_UNITS,
    MEAN_UNIT,
    SharedLaplace,
    laplace_tail_bound,
    least_variance_noise,
    mean_rung,
    noise_fields,
    shared_noise,
)
from dp.mechanism.vector import SharedSkellam, VectorSensitivity
from entropy import InsecureTestEntropy

DELTA = 1e-6
POWER = dict.fromkeys(VIEWS, VectorSensitivity(3000**2, 3000))


def made(**changes):
    given = {
        "length": 4,
        "sensitivities": CELL_SENSITIVITY,
        "n_parties": 5,
        "colluding": 2,
        "mean_units": int(2 / MEAN_UNIT),
    }
    return SharedLaplace(**{**given, **changes})


def least_variance(sensitivities=CELL_SENSITIVITY, **changes):
    given = {"length": 4, "n_parties": 5, "colluding": 2, "epsilon": 1.0, "delta": DELTA, "view": "coordinator"}
    return least_variance_noise(**{**given, "sensitivities": sensitivities, **changes})


def central_deviation(epsilon: float, sensitivity: int) -> float:
    """Of discrete Laplace noise whose epsilon is pure: the geometric mechanism."""
    r = math.exp(-epsilon / sensitivity)
    return math.sqrt(2 * r) / (1 - r)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
@pytest.mark.parametrize(("n_parties", "colluding"), [(3, 1), (5, 2), (7, 3)])
def test_counts_err_at_most_1_point_3_times_as_much_as_under_a_central_geometric_mechanism(
    n_parties, colluding, epsilon
):
    found = least_variance(n_parties=n_parties, colluding=colluding, epsilon=epsilon)
    assert isinstance(found, SharedLaplace)
    assert found.standard_deviation("coordinator") <= 1.3 * central_deviation(epsilon, 1)


@pytest.mark.parametrize(
    ("n_parties", "colluding", "deviations"), [(5, 2, (3.36, 1.63, 0.227)), (3, 1, (3.24, 1.57, 0.220))]
)
def test_the_deviations_are_those_of_decision_023(n_parties, colluding, deviations):
    for epsilon, stated in zip((0.5, 1.0, 4.0), deviations, strict=True):
        found = least_variance(n_parties=n_parties, colluding=colluding, epsilon=epsilon)
        assert found.standard_deviation("coordinator") == pytest.approx(stated, rel=0.004)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
@pytest.mark.parametrize(("n_parties", "colluding"), [(3, 1), (5, 2)])
def test_one_large_number_errs_at_most_1_point_3_times_as_much(n_parties, colluding, epsilon):
    found = least_variance(POWER, length=1, n_parties=n_parties, colluding=colluding, epsilon=epsilon)
    assert isinstance(found, SharedLaplace)
    assert found.standard_deviation("coordinator") <= 1.3 * central_deviation(epsilon, 3000)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 16.0])
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("sensitivities", [CELL_SENSITIVITY, POWER], ids=["counts", "power"])
def test_nearly_all_of_the_epsilon_is_spent_and_the_noise_is_the_least(sensitivities, view, epsilon):
    found = least_variance(sensitivities, length=1 if sensitivities is POWER else 4, view=view, epsilon=epsilon)
    assert 0.98 * epsilon <= found.epsilon(view, DELTA).epsilon <= epsilon
    assert isinstance(found, SharedLaplace)
    # The variance is proportional to m (1 + m): 2^-11 less of the mean is at most 2^-10 less of it.
    less = replace(found, mean_units=found.mean_units - math.ceil(found.mean_units * 2.0**-11))
    assert less.epsilon(view, DELTA).epsilon > epsilon


def test_vectors_of_many_large_numbers_get_skellam_noise():
    many = dict.fromkeys(VIEWS, VectorSensitivity(10**6, 10**5))
    found = least_variance(many, length=10**4)
    assert isinstance(found, SharedSkellam)
    assert found == SharedSkellam.calibrate(
        length=10**4,
        sensitivities=many,
        n_parties=5,
        colluding=2,
        epsilon=1.0,
        delta=DELTA,
        view="coordinator",
    )


def test_where_either_may_win_the_smaller_variance_is_chosen():
    """Sixteen numbers move by 2: 1-norm 32, Euclidean norm 8."""
    some = dict.fromkeys(VIEWS, VectorSensitivity(64, 32))
    kinds = set()
    for epsilon in (0.5, 40.0):
        found = least_variance(some, length=16, epsilon=epsilon)
        kinds.add(type(found))
        given = {"length": 16, "sensitivities": some, "n_parties": 5, "colluding": 2}
        target = {"epsilon": epsilon, "delta": DELTA, "view": "coordinator"}
        both = [kind.calibrate(**given, **target) for kind in (SharedSkellam, SharedLaplace)]
        assert found.standard_deviation("coordinator") == min(m.standard_deviation("coordinator") for m in both)
    assert len(kinds) == 2


def test_a_plan_holds_one_parameter_of_two_and_the_mechanism_comes_back():
    for found in (least_variance(), SharedSkellam(4, CELL_SENSITIVITY, 5, 2, 30)):
        again = shared_noise(4, CELL_SENSITIVITY, 5, 2, **noise_fields(found))
        assert again == found
    assert min(noise_fields(least_variance()).values()) == 0


def test_the_coalition_faces_a_whole_laplace_variable_and_the_coordinator_more():
    coordinator, coalition = (made().events(view)[0] for view in VIEWS)
    assert coordinator.shape == Fraction(5, 3)
    assert coalition.shape == 1
    assert (coordinator.n_shifts, coalition.n_shifts) == (1, 2)
    assert made(n_releases=3).events("coordinator")[0].n_shifts == 3


def test_where_single_numbers_are_not_known_the_1_norm_counts():
    some = dict.fromkeys(VIEWS, VectorSensitivity(64, 32))
    (event,) = made(sensitivities=some, n_releases=2).events("coordinator")
    assert isinstance(event, DiscreteLaplaceDpEvent)
    assert event.l1_sensitivity == 64
    (event,) = made(protected=Protected(PERSON, 3)).events("coalition")
    assert event.l1_sensitivity == 6
    assert isinstance(made().events("coalition")[0], LaplaceSharesDpEvent)


def test_the_shares_of_all_parties_have_the_stated_deviation_and_stay_below_the_tail_bound():
    mechanism, entropy = made(length=20_000), InsecureTestEntropy("all parties")
    total = sum(mechanism.draw(entropy) for _ in range(5))
    assert np.std(total) == pytest.approx(mechanism.standard_deviation("coordinator"), rel=0.06)
    assert 0 < np.abs(total).max() < mechanism.noise_tail_bound(-40)


@pytest.mark.parametrize("mean", [Fraction(1, 1000), Fraction(1), Fraction(50)], ids=float)
@pytest.mark.parametrize("shape", [Fraction(1), Fraction(5, 3), Fraction(20)], ids=str)
def test_the_tail_bound_holds_for_the_exact_tails(shape, mean):
    law = laplace_shares(shape, mean)
    bound = laplace_tail_bound(shape, mean, 1, -15.0)
    beyond = law.masses[np.abs(np.arange(law.start, law.stop)) > bound].sum()
    assert beyond <= 2.0**-15
    assert laplace_tail_bound(shape, mean, 1000, -15.0) > bound
    with pytest.raises(ValueError, match="negative"):
        laplace_tail_bound(shape, mean, 1, 0.0)


def test_rungs_ascend_to_the_largest_mean_and_are_dense():
    rungs = [mean_rung(i) for i in (*range(1, 20_000), LAPLACE_LADDER.top - 1, LAPLACE_LADDER.top)]
    assert all(low < high for low, high in pairwise(rungs))
    assert rungs[-1] == MAX_MEAN_UNITS
    large = [mean_rung(i) for i in range(1 << 12, 1 << 15)]
    assert all(high / low <= 1 + 2**-12 for low, high in pairwise(large))


@pytest.mark.parametrize("units", [0, -1, MAX_MEAN_UNITS + 1])
def test_a_mean_out_of_range_is_refused(units):
    with pytest.raises(ValueError, match="mean_units"):
        made(mean_units=units)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, DELTA), (-1.0, DELTA), (1.0, 0.0), (1.0, 1.0)])
def test_a_target_that_is_none_is_refused(epsilon, delta):
    with pytest.raises(CalibrationError, match="must"):
        least_variance(epsilon=epsilon, delta=delta)


def test_a_target_beyond_all_samplers_is_refused():
    huge = dict.fromkeys(VIEWS, VectorSensitivity(1 << 120, 1 << 60))
    with pytest.raises(CalibrationError, match="more noise than the sampler can draw"):
        least_variance(huge, length=1, epsilon=1e-9)


def test_the_report_names_the_noise_and_its_parameter():
    report = made().report("counts", DELTA)
    assert "shares of discrete Laplace noise" in report["mechanism"]
    assert report["parameters"]["mean_units"] == made().mean_units
    assert report["views"]["coordinator"]["epsilon"] == made().epsilon("coordinator", DELTA).epsilon
