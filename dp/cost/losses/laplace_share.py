"""Shares of discrete Laplace noise in numbers with proven errors: masses, losses and divergences of one shift.

The sum of shares (`dp.draw.laplace_share`) of total shape k >= 1, mean s, ratio r = s / (1 + s) has the generating
function phi(z) = c ((1 - r z) (1 - r / z))^-k. From (1 - r z) (1 - r / z) z phi' = k r (z - 1 / z) phi its masses obey

    (1 + r^2) x P(x)  =  r (x - 1 + k) P(x - 1)  +  r (x + 1 - k) P(x + 1),        x >= 1.         (recurrence)

*It is symmetric and log-concave*: Polya masses of a shape of at least 1 are, P(j + 1) / P(j) = r (1 + (k - 1) / (j +
1)), and so is a convolution of log-concave sequences. So the loss ln P(y) / P(y + d) grows with y, and hockey-stick
divergences with |d| (`dp.cost.losses.additive`).

*It is at least as private as discrete Laplace noise of the same ratio*, which is the sum for k = 1: what is added to
that is independent of the data. So every loss is at most d ln(1 / r), and what holds for vectors of a known 1-norm
under discrete Laplace noise holds here. Shares of ratio r are those of a ratio r' < r with others added to them (each
jump n has a rate that grows with r), so a smaller scale than 1 / ln(1 / r) may be stated, too.
"""

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dp.cost.losses.additive import discrete_laplace_losses
from dp.cost.losses.distribution import Losses

Floats = NDArray[np.float64]

MAX_EXACT_MEAN = 256
"""Beyond, losses of discrete Laplace noise are stated."""

MAX_EXACT_SHAPE = 64

MAX_EXACT_ORDER = 256

_REACH = 60.0
"""Masses below e^-60 times the greatest are taken together; their loss is d ln(1 / r)."""

_MAX_POINTS = 1 << 15

_ROUNDING = 2.0**-50


def scale_of(mean: Fraction) -> Fraction:
    """Return a scale, just below 1 / ln(1 + 1 / mean), of discrete Laplace noise that is no more private than shape 1.

    log1p of the rounded quotient is wrong by a relative 2^-50; the scale is rounded down by much more.
    """
    return Fraction(1 / math.log1p(float(1 / mean)) * (1 - 2.0**-40))


def most_loss(shift: int, mean: Fraction) -> float:
    """Return an upper bound of every loss of a number that moves by `shift`: shift * ln(1 + 1 / mean)."""
    return shift * math.log1p(float(1 / mean)) * (1 + 2.0**-40)


def is_exact(shape: Fraction, mean: Fraction, shift: int) -> bool:
    """Return whether masses are computed one by one."""
    return mean <= MAX_EXACT_MEAN and 1 < shape <= MAX_EXACT_SHAPE and shift <= _MAX_POINTS // 2


@lru_cache(maxsize=64)
def log_masses(shape: Fraction, mean: Fraction, highest: int) -> Floats:
    """Return ln P(x) for x = 0 .. highest, with errors below `log_error`.

    Ratios q_x = P(x) / P(x - 1) = r (x - 1 + k) / ((1 + r^2) x - r (x + 1 - k) q_(x + 1)) are computed downwards from
    the limit r. An error of q_(x + 1) enters ln q_x multiplied by |x + 1 - k| / (x - 1 + k) q_x q_(x + 1) <= 1, and
    from the start on, far above `highest`, by a product of such factors. Masses are products of ratios, each divided
    by the sum of all: sums of positive numbers.

    Args:
        shape: k, at least 1.
        mean: positive.
        highest: at least `reach`.
    """
    k, s = float(shape), float(mean)
    r = s / (1 + s)
    square = 1 + r * r
    ratio = r
    logs = np.empty(highest + 1)
    for x in range(highest + 60 + int(60 * s), 0, -1):
        ratio = r * (x - 1 + k) / (square * x - r * (x + 1 - k) * ratio)
        if x <= highest:
            logs[x] = ratio
    logs[0] = 1.0
    logs = np.cumsum(np.log(logs))
    logs -= math.log(1.0 + 2.0 * float(np.exp(logs[1:]).sum()))
    logs.setflags(write=False)
    return logs


def log_error(n_steps: int, size: float) -> float:
    """Return a bound of the error of `log_masses` that add up `n_steps` logarithms to at most `size`.

    Each ratio rounds by a relative 2^-47, that of r included: as q_(x + 1) <= 1, its denominator is at least
    x (1 - r)^2 + r (x - 1 + k) >= 3 x / 4, and what is subtracted from each other there at most 2 x. As errors of the
    steps before are not enlarged, a logarithm of a ratio errs by n_steps 2^-47, and a sum of n_steps such by n_steps
    times that. The start, the sums and the normalisation, which leaves out less than e^-59, add the rest.
    """
    return n_steps * n_steps * 2.0**-47 + (n_steps + 16) * (16 + size) * 2.0**-52 + 2.0**-60


def reach(shape: Fraction, mean: Fraction, exponent: float = _REACH) -> int:
    """Return an x beyond which, on one side, lies a mass of at most e^-exponent.

    The sum is at most its positive part, of shape k: P(X >= x) <= E q^X / q^x. With q = 1 + 3 / (4 s) that is
    4^k q^-x, as 1 - r q = (1 - r) / 4.
    """
    k, s = float(shape), float(mean)
    return math.ceil((k * math.log(4) + exponent) / math.log1p(0.75 / s) * (1 + 2.0**-30)) + 1


def share_losses(shape: Fraction, mean: Fraction, shift: int) -> Losses:
    """Return the losses of one number that moves by `shift` or less, under shares of total shape at least 1."""
    if not is_exact(shape, mean, shift):
        return discrete_laplace_losses(shift, scale_of(mean))
    n = reach(shape, mean)
    if n + shift > _MAX_POINTS:
        return discrete_laplace_losses(shift, scale_of(mean))
    logs, error, y = _around(shape, mean, shift, n)
    most = most_loss(shift, mean)
    masses = np.exp(logs[np.abs(y)] + error) * (1 + _ROUNDING)
    losses = np.minimum(logs[np.abs(y)] - logs[np.abs(y + shift)] + 2 * error, most)
    beyond = math.exp(-_REACH)
    # Upwards of n the loss is at most the largest. Downwards it is below that at -n, as it grows with y.
    masses = np.append(masses, beyond)
    masses[0] += beyond
    return Losses(masses, np.append(losses, most), 2.0**-1000)


def shift_divergence(shape: Fraction, mean: Fraction, shift: int, orders: NDArray[np.int64]) -> Floats:
    """Return the Renyi divergence of a number that moves by `shift`, rounded up; inf where it is not computed.

    (a - 1) D_a = ln sum_y P(y) e^((a - 1) L(y)). What lies beyond the sum is added with the largest loss.
    """
    found = np.full(len(orders), np.inf)
    known = orders <= MAX_EXACT_ORDER
    n = reach(shape, mean)
    if not is_exact(shape, mean, shift) or n + shift > _MAX_POINTS // 8 or not known.any():
        return found
    order = orders[known].astype(np.float64)
    logs, error, y = _around(shape, mean, shift, n)
    most = most_loss(shift, mean)
    loss = np.minimum(logs[np.abs(y)] - logs[np.abs(y + shift)] + 2 * error, most)
    terms = np.append(logs[np.abs(y)] + error, [-_REACH, -_REACH]) + (order[:, None] - 1) * np.append(
        loss, [most, loss[0]]
    )
    highest = terms.max(axis=1)
    total = np.exp(terms - highest[:, None]).sum(axis=1)
    slack = (np.abs(highest) + order * most + len(y) + 2) * _ROUNDING + error
    found[known] = (np.maximum(highest + np.log(total), 0.0) + slack) / (order - 1) * (1 + _ROUNDING)
    return found


def _around(shape: Fraction, mean: Fraction, shift: int, n: int) -> tuple[Floats, float, NDArray[np.int64]]:
    logs = log_masses(shape, mean, n + shift)
    error = log_error(n + shift + 60 + int(60 * float(mean)), float(np.abs(logs).max()))
    return logs, error, np.arange(-n, n + 1)
