import json
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import ive

from dp.cost.accounting import Adjacency, CalibrationError
from dp.cost.composition import composed_epsilon
from dp.cost.views import VIEWS
from dp.draw.skellam import MAX_MU, sample_skellam
from dp.mechanism.gram import NoisyGram
from entropy import InsecureTestEntropy

GIVEN = {"n_columns": 5, "squared_norm_bound": 100, "n_parties": 5, "colluding": 2}


def mechanism(**changed) -> NoisyGram:
    return NoisyGram(**(GIVEN | {"party_mu": 20_000} | changed))


def calibrated(**changed) -> NoisyGram:
    return NoisyGram.calibrate(**(GIVEN | {"epsilon": 1.0, "delta": 1e-5, "view": "coalition"} | changed))


@pytest.mark.parametrize(
    "changed",
    [
        {"n_columns": 0},
        {"squared_norm_bound": 0},
        {"n_parties": 2},
        {"colluding": -1},
        {"party_mu": 3},
        {"party_mu": 0},
        {"party_mu": MAX_MU + 2},
    ],
)
def test_parameters_that_describe_no_mechanism_are_refused(changed):
    with pytest.raises(ValueError, match=r"column|collude|party_mu"):
        mechanism(**changed)


def test_the_coordinator_faces_the_noise_of_all_parties_and_a_coalition_that_of_the_others():
    assert mechanism().unknown_mu("coordinator") == 100_000
    assert mechanism().unknown_mu("coalition") == 60_000


def test_the_cost_in_each_view_is_that_of_its_neighbours_and_its_noise():
    coordinator, coalition = mechanism().events("coordinator")[0], mechanism().events("coalition")[0]
    assert coordinator.adjacency is Adjacency.ADD_OR_REMOVE_ONE
    assert coalition.adjacency is Adjacency.REPLACE_ONE
    assert coordinator.squares == Fraction(100**2, 100_000)
    assert coalition.squares == Fraction(2 * 100**2, 60_000)
    assert coordinator.squares_second == Fraction(9, 5) * Fraction(100, 100_000) ** 2
    assert coordinator.sizes == Fraction(5 * 100, 100_000)
    assert coalition.sizes == Fraction(math.isqrt(2 * 500**2), 60_000)
    for view in VIEWS:
        assert mechanism().epsilon(view, 1e-5) == composed_epsilon(mechanism().events(view)[0], 1e-5)


def test_fewer_parties_or_more_colluders_cost_more():
    base = mechanism().epsilon("coalition", 1e-5).epsilon
    assert mechanism(colluding=3).epsilon("coalition", 1e-5).epsilon > base
    assert mechanism(n_parties=4).epsilon("coalition", 1e-5).epsilon > base
    assert mechanism(colluding=3).epsilon("coordinator", 1e-5) == mechanism().epsilon("coordinator", 1e-5)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("target", [0.01, 0.5, 1.0, 8.0, 100.0])
def test_calibration_finds_the_least_noise_that_meets_the_target(view, target):
    found = calibrated(epsilon=target, view=view)
    assert found.epsilon(view, 1e-5).epsilon <= target
    if found.party_mu > 2:
        step = max(2, 2 * round(found.party_mu * 2.0**-20))
        less = mechanism(party_mu=found.party_mu - step)
        assert less.epsilon(view, 1e-5).epsilon > target


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"epsilon": 0.0}, "epsilon must"),
        ({"epsilon": -1.0}, "epsilon must"),
        ({"epsilon": math.nan}, "epsilon must"),
        ({"epsilon": math.inf}, "epsilon must"),
        ({"delta": 0.0}, "delta must"),
        ({"delta": 1.0}, "delta must"),
        ({"squared_norm_bound": 2**60, "epsilon": 1e-9}, "needs more noise than the sampler can draw"),
    ],
)
def test_a_target_that_cannot_be_met_is_refused_with_its_reason(changed, what):
    with pytest.raises(CalibrationError, match=what):
        calibrated(**changed)


def test_the_noise_has_full_variance_on_the_diagonal_and_half_of_it_elsewhere():
    n = 60
    values = mechanism(n_columns=n).draw(InsecureTestEntropy("triangle"))
    assert values.shape == (n * (n + 1) // 2,)
    triangle = np.zeros((n, n))
    triangle[np.triu_indices(n)] = values
    on = np.diag(triangle) / math.sqrt(2 * 20_000)
    off = triangle[np.triu_indices(n, 1)] / math.sqrt(20_000)
    # Estimated variance of k normal variables: standard deviation sqrt(2 / k); five of them.
    assert abs((on**2).mean() - 1) < 5 * math.sqrt(2 / len(on))
    assert abs((off**2).mean() - 1) < 5 * math.sqrt(2 / len(off))
    assert (on**2).mean() > 0.5 + 0.05


def test_diagonal_entries_stand_at_the_start_of_each_row_of_the_triangle():
    made = mechanism(n_columns=4)
    values = made.draw(InsecureTestEntropy("order"))
    entropy = InsecureTestEntropy("order")
    diagonal = sample_skellam(entropy, made.party_mu, 4)
    others = sample_skellam(entropy, made.party_mu // 2, 6)
    matrix = np.zeros((4, 4), dtype=np.int64)
    matrix[np.triu_indices(4)] = values
    assert np.array_equal(np.diag(matrix), diagonal)
    assert np.array_equal(matrix[np.triu_indices(4, 1)], others)


def test_one_column_has_one_entry_with_the_noise_of_a_diagonal():
    values = mechanism(n_columns=1).draw(InsecureTestEntropy("one"))
    assert np.array_equal(values, sample_skellam(InsecureTestEntropy("one"), 20_000, 1))


@pytest.mark.parametrize("party_mu", [2, 40, 1000])
@pytest.mark.parametrize("log2_probability", [-3, -20, -40])
def test_the_tail_bound_holds_for_the_exact_tails_and_is_not_loose(party_mu, log2_probability):
    made = mechanism(n_columns=3, party_mu=party_mu)
    bound = made.noise_tail_bound(log2_probability)

    def beyond(x: int) -> float:
        k = np.arange(x + 1, x + 2000)
        mu = 5 * party_mu
        return 2 * (3 * ive(k, 2.0 * mu).sum() + 3 * ive(k, float(mu)).sum())

    assert beyond(bound) <= 2.0**log2_probability
    assert beyond(bound // 2) > 2.0**log2_probability


@pytest.mark.parametrize("log2_probability", [0, 1, -math.inf, math.nan])
def test_a_tail_bound_needs_a_probability_below_one_and_above_zero(log2_probability):
    with pytest.raises(ValueError, match="logarithm of a probability"):
        mechanism().noise_tail_bound(log2_probability)


def test_the_report_states_both_views_as_plain_json():
    report = mechanism().report(1e-5)
    assert json.loads(json.dumps(report, allow_nan=False)) == report
    assert report["unit"] == "record of the joint table"
    assert set(report["views"]) == {"coordinator", "coalition"}
    for view, cost in report["views"].items():
        bound = mechanism().epsilon(view, 1e-5)
        assert cost["epsilon"] == bound.epsilon
        assert cost["order"] == bound.order
        assert cost["adjacency"] == mechanism().events(view)[0].adjacency.value
    assert report["parameters"]["l2_sensitivity"]["coordinator"] == 100
    assert report["parameters"]["l2_sensitivity"]["coalition"] == pytest.approx(100 * math.sqrt(2))
