"""The Skellam distribution in numbers with proven errors: its masses, their decrease, and the divergence of one shift.

P(Sk(mu) = k) = e^-z I_k(z), z = 2 mu, I the modified Bessel function. No library function of Bessel type is called:
nobody guarantees their errors. What is used of I_k(z) for k >= 0:

    I_(k-1) = (2 k / z) I_k + I_(k+1)                                         (the recurrence; DLMF 10.29.1)
    I_0 + 2 sum_(k >= 1) I_k = e^z                                            (masses add up to 1; DLMF 10.35.5)
    z / (k + 1/2 + sqrt(z^2 + (k + 3/2)^2))  <=  I_(k+1) / I_k  <=  e^-asinh((k + 1/2) / z)                    [Amos74]

The last two bound the logarithm of a ratio of masses on both sides. With
G(x) = x asinh(x / z) - sqrt(x^2 + z^2) + z, the integral of asinh(t / z), a sum of asinh at midpoints is at least its
integral, as asinh is concave from 0 on, and at most d / (62 z^2) more for d terms. Hence

    ln P(k) - ln P(0)  <=  -G(k)                                                                       (upper bound)
    ln P(x - d) - ln P(x)  <=  G(x) - G(x - d) + d (|x| + 2) / z^2                                       (loss)

(the lower bound of a ratio differs from the upper one by less than (k + 1) / z^2 in its logarithm), and by the same
bounds and asinh(t) <= t, P(k) >= P(0) exp(-k^2 (1 / z + 2 / z^2) / 2). Sums of such terms over all integers are at
least sqrt(2 pi / (1 / z + 2 / z^2)) by Poisson's summation formula, so

    P(0)  <=  sqrt((1 + 2 / z) / (2 pi z)).
"""

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

REACH = 110.0
"""Masses below e^-REACH times the greatest are left out, and bounded."""

MAX_POINTS = 1 << 16

MAX_EXACT_MU = 1024
"""Beyond, the divergence of a shift is within 1 / 500 of `SkellamDpEvent.curve`, which is quick: not
computed."""

MAX_EXACT_ORDER = 256

_ROUNDING = 2.0**-50


def decay(x: Floats | float, z: float) -> Floats:
    """Return G(x) at x >= 0, of relative error below 2^-48 of x^2 / z."""
    x = np.asarray(x, dtype=np.float64)
    found: Floats = x * np.arcsinh(x / z) - x * (x / (np.hypot(x, z) + z))
    return found


def reach(z: float, exponent: float = REACH) -> int:
    """Return a k with G(k) >= exponent."""
    k = 1.0
    while float(decay(k, z)) < exponent * 1.01 + 1:
        k *= 1.25
    return math.ceil(k)


@lru_cache(maxsize=64)
def log_masses(mu: Fraction, highest: int) -> Floats:
    """Return ln P(Sk(mu) = k) for k = 0 .. highest, with errors below `log_error`.

    Ratios r_k = I_k / I_(k-1) = 1 / (2 k / z + r_(k+1)) are computed downwards from a bound of the last one. Each step
    rounds by a relative 2^-51 and passes on less than the relative error of the step before; from the start, 40 steps
    above `highest` and more, an error is multiplied by r_k r_(k+1) < 1 at each. Masses are products of ratios, each
    divided by the sum of all: sums of positive numbers.

    Args:
        mu: positive.
        highest: at least `reach`, so that what lies beyond adds less than e^-REACH to the sum.
    """
    z = float(2 * mu)
    start = highest + 40 + int(8 * math.sqrt(z))
    ratio = math.exp(-math.asinh((start + 0.5) / z))
    logs = np.empty(highest + 1)
    twice = 2.0 / z
    for k in range(start, 0, -1):
        ratio = 1.0 / (k * twice + ratio)
        if k <= highest:
            logs[k] = ratio
    logs[0] = 1.0
    logs = np.cumsum(np.log(logs))
    total = 1.0 + 2.0 * float(np.exp(logs[1:]).sum())
    logs -= math.log(total)
    logs.setflags(write=False)
    return logs


def log_error(n_steps: int, size: float) -> float:
    """Return a bound of the error of `log_masses` where they add up `n_steps` logarithms to at most `size`.

    A ratio has a relative error below 8 2^-52 (2^-51 of its own step, of those before it at most a few times that, as
    they are damped), its logarithm that and 2^-50 of itself; each of the sums, and the normalisation, adds 2^-52 of
    what it has summed up.
    """
    return (n_steps + 16) * (16 + size) * 2.0**-52


def shift_divergence(shift: int, mu: Fraction, orders: NDArray[np.int64]) -> Floats:
    """Return the Renyi divergence of Sk(mu) + shift from Sk(mu), rounded up; inf at orders where it is not computed.

    (a - 1) D_a = ln sum_y P(y) (P(y) / P(y + d))^(a - 1). It grows with |d|: ln P is concave, so hockey-stick
    divergences do [`dp.cost.losses.additive`], of which it is a mixture. The sum runs over |y| <= n. Beyond, upwards,
    with

        t(y + 1) / t(y)  <=  exp(-asinh((y + 1/2) / z) + (a - 1) (d + 1) / sqrt(z^2 + (y + 1/2)^2))  =  R(y),

    from the bounds of ratios above, and R falls: the rest is at most t(n) R / (1 - R). Downwards P(y) < P(y + d): the
    rest is at most the mass there.

    Args:
        shift: d, at least 1.
        mu: positive.
        orders: integers, at least 2.
    """
    found = np.full(len(orders), np.inf)
    z = float(2 * mu)
    known = orders <= MAX_EXACT_ORDER
    if mu > MAX_EXACT_MU or not known.any():
        return found
    order = orders[known].astype(np.float64)
    n = reach(z) + 2 * (int(order.max()) - 1) * (shift + 1)
    if n > MAX_POINTS // 8:
        return found
    logs = log_masses(mu, n + shift)
    y = np.arange(-reach(z) - shift, n + 1)
    log_p, loss = logs[np.abs(y)], logs[np.abs(y)] - logs[np.abs(y + shift)]
    terms = log_p + (order[:, None] - 1) * loss
    most = terms.max(axis=1)
    ratio = np.exp(-np.arcsinh((n + 0.5) / z) + (order - 1) * (shift + 1) / np.hypot(z, n + 0.5))
    with np.errstate(divide="ignore", invalid="ignore"):
        rest = np.where(ratio < 0.99, np.exp(terms[:, -1] - most) * ratio / (1 - ratio), np.inf)
    total = np.exp(terms - most[:, None]).sum(axis=1) + rest + 2 * math.exp(-REACH) * np.exp(-most)
    error = order * 2 * log_error(n + shift, float(np.abs(logs).max()))
    error += (np.abs(most) + order * np.abs(loss).max() + len(y) + 2) * _ROUNDING
    found[known] = (np.maximum(most + np.log(total), 0.0) + error) / (order - 1) * (1 + _ROUNDING)
    return found
