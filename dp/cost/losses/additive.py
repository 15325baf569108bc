"""What noise on one integer gives away when the integer moves: discrete Laplace, discrete Gaussian and Skellam noise.

One number, moved by d or less. All three distributions are symmetric and log-concave: p(x - d) / p(x) grows with x, so
the event that shows most is {x >= c} [Neyman and Pearson], and as P(noise + d >= c) grows with d, the hockey-stick
divergence grows with |d| at every epsilon: who moves the number by less is covered. Symmetry makes both directions one.

The mass is that of the noise about its centre, y, and the loss ln p(y) / p(y + d), which grows with y. Where there are
too many outcomes, neighbouring ones are taken together, with at least their mass and the largest of their losses.

A scalar says nothing about a vector in general: which direction is worst is not known for Skellam or discrete Gaussian
noise. Only where at most n coordinates move, each by at most d, the n-fold composition of the scalar covers the vector:
that is its product distribution, coordinate by coordinate. For discrete Laplace noise the 1-norm is enough:

    Let D = d_1 + d_2. Losses of a shift d are (d - 2 j) / b, j = 0 .. d, with masses w_d(j) r^j / (1 + r),
    r = e^(-1/b), w_d(0) = w_d(d) = 1 and w_d(j) = 1 - r else. Compare the sum of independent losses of d_1 and d_2
    with the loss of D, both on the same points: at j = 0 and j = D the sum has the smaller mass, by a factor
    1 / (1 + r). In between its mass is r^j / (1 + r)^2 times a sum of w_d1(i) w_d2(j - i) that has at least two terms
    of size 1 - r, or one of size 1: at least 2 (1 - r) or 1, and both are at least (1 - r) (1 + r), which is that of D.
    So the two distributions of Q / P, which have the same mean, differ by +, -, + from one end to the other: the one
    with the heavier ends is larger in the convex order [ShakedShanthikumar07, theorem 3.A.44]. Hockey-stick
    divergences are means of convex functions of Q / P, so it has the larger ones. By induction, the shift by the
    1-norm covers the vector.
"""

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dp.cost.accounting import round_up
from dp.cost.losses.distribution import Losses
from dp.cost.losses.skellam import MAX_POINTS, REACH, decay, log_error, log_masses, reach

Floats = NDArray[np.float64]

_SLACK = 2.0**-40
"""Relative error allowed for a mass, and absolute one per unit of an exponent: far more than there is."""

_MAX_ENUMERATED_MU = 1 << 17
_MAX_BLOCKS = 1 << 14


def discrete_laplace_losses(shift: int, scale: Fraction) -> Losses:
    """Return the losses of discrete Laplace noise of `scale` for a vector that moves by `shift` in the 1-norm."""
    inverse = float(1 / scale)
    if inverse > 700:
        return Losses(np.zeros(1), np.zeros(1), 1.0)
    width = -(-(shift + 1) // _MAX_BLOCKS)
    # From the largest loss down: j = 0, then 1 .. shift - 1 in blocks, then `shift`.
    starts = np.arange(1, shift, width, dtype=np.float64)
    widths = np.minimum(width, shift - starts)
    between = np.exp(-starts * inverse) * -np.expm1(-widths * inverse)
    masses = np.concatenate([[1.0], between, [math.exp(-shift * inverse)]]) / (1 + math.exp(-inverse))
    most = round_up(shift / scale)
    losses = np.concatenate([[most], most - 2 * starts * inverse, [-most]])
    # An exponent has a relative error of 2^-52, and it is below 745 or the mass is 0.
    return Losses(masses * (1 + _SLACK), losses + most * 2.0**-48, 2.0**-1000)


def discrete_gaussian_losses(shift: int, variance: Fraction) -> Losses:
    """Return the losses of discrete Gaussian noise of `variance` on one number that moves by `shift` or less.

    p(y) = exp(-y^2 / (2 s)) / Z, Z >= max(1, sqrt(2 pi s)) by Poisson's summation formula; the loss at y is
    (2 y d + d^2) / (2 s). Beyond Y the mass is at most a geometric series: p(Y) / (1 - exp(-(2 Y + 1) / (2 s))).
    """
    s = float(variance)
    most = math.ceil(math.sqrt(2 * s * REACH)) + 1
    nearest, farthest, widths = _blocks(most)
    norm = max(1.0, math.sqrt(2 * math.pi * s))
    masses = widths * np.exp(-(nearest**2) / (2 * s)) / norm
    beyond = math.exp(-(most**2) / (2 * s)) / norm / -math.expm1(-(2 * most + 1) / (2 * s))
    masses[0] += beyond
    d = float(shift)
    losses = (2 * farthest * d + d * d) / (2 * s)
    error = (2 * np.abs(farthest) * d + d * d) / (2 * s) * 2.0**-48
    return Losses(masses * (1 + _SLACK), losses + error, beyond * (1 + _SLACK))


def skellam_losses(shift: int, mu: Fraction) -> Losses | None:
    """Return the losses of Skellam noise on one number that moves by `shift` or less: see `dp.cost.losses.skellam`.

    Masses are computed one by one up to a parameter of 2^17, and bounded in blocks beyond.

    Returns:
        None where they would be too many: a shift far beyond the noise.
    """
    z = float(2 * mu)
    if mu <= _MAX_ENUMERATED_MU:
        most = reach(z)
        if most + shift > MAX_POINTS:
            return None
        logs = log_masses(mu, most + shift)
        y = np.arange(-most, most + 1)
        error = log_error(most + shift, float(np.abs(logs).max()))
        losses = logs[np.abs(y)] - logs[np.abs(y + shift)] + 2 * error
        masses = np.exp(logs[np.abs(y)] + error) * (1 + _SLACK)
        beyond = _beyond(float(logs[most]) + error, most, z)
        masses[0] += beyond
        return Losses(masses, losses, beyond)
    if shift > 64 * math.isqrt(int(2 * mu)):
        return None
    most = reach(z)
    nearest, farthest, widths = _blocks(most)
    highest = math.log((1 + 2 / z) / (2 * math.pi * z)) / 2  # of ln P(0)
    exponents = highest - decay(np.abs(nearest), z)
    masses = widths * np.exp(exponents) * (1 + _SLACK)
    beyond = _beyond(highest - float(decay(float(most), z)), most, z)
    masses[0] += beyond
    d = float(shift)
    x = farthest + d
    losses = decay(np.abs(x), z) - decay(np.abs(farthest), z) + d * (np.abs(x) + 2) / z**2
    # The two values of G are wrong by a relative 2^-48 of x^2 / z each, and by what x is rounded.
    return Losses(masses, losses + (x**2 + farthest**2) / z * 2.0**-46, beyond)


def _beyond(log_mass: float, most: int, z: float) -> float:
    """Return a bound of the mass above `most`: a geometric series from its mass on."""
    return math.exp(log_mass) / -math.expm1(-math.asinh((most + 0.5) / z)) * (1 + _SLACK)


def _blocks(most: int) -> tuple[Floats, Floats, Floats]:
    """Return blocks of the integers -most .. most: the one nearest to 0, the largest, and at least how many.

    0 begins a block. Integers beyond 2^53 are rounded, as the widths are upwards; errors of places count as errors of
    the exponents.
    """
    width = -(-most // (_MAX_BLOCKS // 2))
    starts = np.arange(0, most + 1, width, dtype=np.float64)
    up_nearest, up_farthest = starts, starts + (width - 1)
    down_nearest, down_farthest = -(starts[::-1] + 1), -(starts[::-1] + 1)
    nearest = np.concatenate([down_nearest, up_nearest])
    farthest = np.concatenate([down_farthest, up_farthest])
    return nearest, farthest, np.full(len(nearest), float(width))
