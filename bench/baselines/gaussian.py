"""The Gaussian mechanism, calibrated exactly. FOR COMPARISON ONLY.

The baselines that the project is compared with add Gaussian noise in floating point. Its low bits reveal the data
[Mironov12], so no release of a party uses it.
"""

import math

from dp_accounting import get_sigma_gaussian

from dp.cost.accounting import CalibrationError, check_delta


def analytic_gaussian_sigma(*, sensitivity: float, epsilon: float, delta: float) -> float:
    """Return the least standard deviation of (epsilon, delta)-private Gaussian noise on a real vector.

    The analytic Gaussian mechanism [BalleWang18, theorem 8]: with s = sensitivity / sigma, sigma solves
    Phi(s/2 - epsilon/s) - e^epsilon Phi(-s/2 - epsilon/s) = delta. Unlike sqrt(2 ln(1.25/delta)) * sensitivity /
    epsilon it holds for every epsilon. In real arithmetic: the noise of a computer is no such noise.

    Args:
        sensitivity: largest L2 distance between the vectors of neighbouring tables, positive.
        epsilon: positive.
        delta: strictly between 0 and 1.

    Raises:
        CalibrationError: an argument is out of range.
    """
    check_delta(delta)
    _check_positive("epsilon", epsilon)
    _check_positive("sensitivity", sensitivity)
    return float(sensitivity * get_sigma_gaussian(epsilon, delta))


def _check_positive(name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise CalibrationError(f"{name} must be a positive finite number, not {value}")
