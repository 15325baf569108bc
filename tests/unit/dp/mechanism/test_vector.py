import json

import numpy as np
import pytest
from scipy.stats import skellam

from dp.cost.accounting import ORDERS, CalibrationError
from dp.cost.composition import composed_epsilon
from dp.cost.events.event import renyi_curve
from dp.cost.report import describe
from dp.cost.views import VIEWS
from dp.mechanism.vector import SharedSkellam, VectorSensitivity
from entropy import InsecureTestEntropy

COUNTS = {"coordinator": VectorSensitivity(1, 1), "coalition": VectorSensitivity(2, 2)}


def mechanism(**changed):
    given = {"length": 3, "sensitivities": COUNTS, "n_parties": 5, "colluding": 2, "party_mu": 40}
    return SharedSkellam(**{**given, **changed})


@pytest.mark.parametrize(
    "changed",
    [
        {"length": 0},
        {"n_releases": 0},
        {"colluding": 5},
        {"colluding": -1},
        {"party_mu": 0},
        {"party_mu": 2**100 + 1},
        {"sensitivities": {"coordinator": VectorSensitivity(1, 1)}},
    ],
)
def test_parameters_that_describe_no_mechanism_are_refused(changed):
    with pytest.raises(ValueError, match=r"."):
        mechanism(**changed)


@pytest.mark.parametrize(("squared_l2", "l1"), [(0, 1), (1, 0), (-1, 1)])
def test_a_sensitivity_is_positive(squared_l2, l1):
    with pytest.raises(ValueError, match="must be positive"):
        VectorSensitivity(squared_l2, l1)


def test_integers_that_differ_differ_at_least_by_one_so_the_squares_bound_the_sizes():
    loose = {view: VectorSensitivity(of.squared_l2, 100) for view, of in COUNTS.items()}
    assert mechanism(sensitivities=loose).events("coalition")[0] == mechanism().events("coalition")[0]


@pytest.mark.parametrize("view", VIEWS)
def test_the_cost_covers_the_exact_divergence_of_the_noise_that_is_unknown_in_the_view(view):
    # One record in one cell, or moved to another one: one or two entries shifted by 1 under independent noise.
    unknown = {"coordinator": 200, "coalition": 120}[view]
    support = np.arange(-400, 401)
    p = skellam.logpmf(support, unknown, unknown)
    q = skellam.logpmf(support - 1, unknown, unknown)
    bound = renyi_curve(mechanism().events(view)[0], ORDERS)
    for at, order in enumerate(ORDERS[:6]):
        exact = np.log(np.exp(order * p + (1 - order) * q).sum()) / (order - 1)
        moved = {"coordinator": 1, "coalition": 2}[view]
        assert moved * exact * (1 - 1e-9) <= bound[at] <= moved * exact * 1.05


def test_several_releases_cost_what_their_events_cost_together():
    once, thrice = mechanism(), mechanism(n_releases=3)
    for view in VIEWS:
        together = composed_epsilon([once.events(view)[0]] * 3, 1e-6).epsilon
        assert thrice.epsilon(view, 1e-6).epsilon == pytest.approx(together, rel=1e-9)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("n_releases", [1, 20])
def test_calibration_finds_the_least_noise_that_meets_the_target(view, n_releases):
    given = {"length": 3, "sensitivities": COUNTS, "n_parties": 5, "colluding": 2, "n_releases": n_releases}
    found = SharedSkellam.calibrate(**given, epsilon=0.5, delta=1e-6, view=view)
    assert found.epsilon(view, 1e-6).epsilon <= 0.5
    assert mechanism(party_mu=found.party_mu - 2, n_releases=n_releases).epsilon(view, 1e-6).epsilon > 0.5
    with pytest.raises(CalibrationError, match="epsilon must"):
        SharedSkellam.calibrate(**given, epsilon=-1.0, delta=1e-6, view=view)


def test_a_partys_noise_has_its_distribution():
    noise = mechanism(length=40_000).draw(InsecureTestEntropy("noise"))
    assert abs(noise.mean()) < 4 * (80 / 40_000) ** 0.5
    assert noise.var() == pytest.approx(80, rel=0.04)


def test_the_tail_bound_covers_all_releases_and_all_parties():
    assert mechanism(n_releases=1000).noise_tail_bound(-40) > mechanism().noise_tail_bound(-40)
    worst = skellam.sf(mechanism().noise_tail_bound(-20), 200, 200) * 2 * 3
    assert worst <= 2.0**-20


def test_the_report_is_json_and_readable():
    report = mechanism().report("counts of three cells", 1e-6)
    assert json.loads(json.dumps(report, allow_nan=False)) == report
    assert "counts of three cells plus Skellam noise" in "\n".join(describe(report))
