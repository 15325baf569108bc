import math

import mpmath
import pytest

from bench.baselines.gaussian import analytic_gaussian_sigma
from dp.cost.accounting import CalibrationError


def true_delta(sensitivity: float, sigma: float, epsilon: float) -> float:
    with mpmath.workdps(50):
        s = mpmath.mpf(sensitivity) / sigma
        return float(mpmath.ncdf(s / 2 - epsilon / s) - mpmath.exp(epsilon) * mpmath.ncdf(-s / 2 - epsilon / s))


@pytest.mark.parametrize("sensitivity", [0.5, 1.0, math.sqrt(2)])
@pytest.mark.parametrize("epsilon", [1e-3, 0.5, 1.0, 8.0, 30.0])
@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-10])
def test_the_noise_spends_exactly_the_delta_asked_for(sensitivity, epsilon, delta):
    sigma = analytic_gaussian_sigma(sensitivity=sensitivity, epsilon=epsilon, delta=delta)
    assert true_delta(sensitivity, sigma, epsilon) == pytest.approx(delta, rel=1e-6)


def test_the_classical_formula_is_not_private_for_large_epsilon():
    # sqrt(2 ln(1.25 / delta)) / epsilon at epsilon = 10, delta = 1e-5
    classical = math.sqrt(2 * math.log(1.25e5)) / 10
    assert classical < analytic_gaussian_sigma(sensitivity=1.0, epsilon=10.0, delta=1e-5)


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": math.inf}, "epsilon"),
        ({"delta": 0.0}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"sensitivity": -1.0}, "sensitivity"),
        ({"sensitivity": math.nan}, "sensitivity"),
    ],
)
def test_an_argument_out_of_range_is_named(changed, what):
    with pytest.raises(CalibrationError, match=what):
        analytic_gaussian_sigma(**({"sensitivity": 1.0, "epsilon": 1.0, "delta": 1e-5} | changed))
