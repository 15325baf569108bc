"""The choice of the noise of a masked sum: of both kinds that meet a target, the one with the smaller variance."""

from collections.abc import Mapping
from fractions import Fraction

from analyses.sums.noise import SumNoise, SumSensitivity
from dp.cost.accounting import CalibrationError, check_delta, check_epsilon
from dp.cost.calibrate import least_noise
from dp.cost.views import View
from dp.mechanism.shared_laplace import LAPLACE_LADDER, may_be_quieter
from mpc.errors import LocalFaultError


def least_variance(
    sensitivities: Mapping[View, SumSensitivity],
    view: View,
    *,
    epsilon: float,
    delta: float,
    length: int,
    levels: tuple[int, ...],
    n_corrupt: int,
    openings: int = 1,
) -> SumNoise:
    """Return the noise whose epsilon at `delta` in `view` is at most `epsilon`, however many survive.

    Skellam noise as of `SumNoise.calibrate`, or shares of discrete Laplace noise of at most 2^-11 more than the least
    variance.

    Args:
        sensitivities: see `SumNoise`, as `length`, `levels` and `n_corrupt`.
        view: view that the noise is for.
        epsilon: positive.
        delta: strictly between 0 and 1.
        length: coordinates.
        levels: numbers of survivors.
        n_corrupt: members that may tell their noise.
        openings: how often they can have one vector opened.

    Raises:
        CalibrationError: the target is no privacy bound, or needs noise beyond the samplers' ranges.
        LocalFaultError: the numbers do not fit each other.
    """
    check_epsilon(epsilon)
    check_delta(delta)
    if not 0 <= n_corrupt < levels[0]:
        raise LocalFaultError(f"{n_corrupt} corrupt members must be fewer than the {levels[0]} survivors")

    def with_mean(units: int) -> SumNoise:
        return SumNoise(0, length, levels, n_corrupt, sensitivities, units, openings)

    def spends(units: int) -> float:
        return with_mean(units).epsilon(view, delta, near=epsilon).epsilon

    of, shape = sensitivities[view], Fraction(levels[0], levels[0] - n_corrupt)
    found, refused = [], None
    try:
        if may_be_quieter(of.squared_l2, of.l1, shape, epsilon=epsilon, delta=delta):
            found.append(with_mean(least_noise(spends, LAPLACE_LADDER, epsilon=epsilon, delta=delta)))
    except CalibrationError as error:
        refused = error
    try:
        found.append(
            SumNoise.calibrate(
                sensitivities,
                view,
                epsilon=epsilon,
                delta=delta,
                length=length,
                levels=levels,
                n_corrupt=n_corrupt,
                openings=openings,
            )
        )
    except CalibrationError as error:
        refused = error
    if refused is not None and not found:
        raise refused
    return min(found, key=lambda noise: noise.variance(levels[0]))
