"""The noise of single integers, mass by mass, and what one or two integers that move give away: exact but for rounding.

Both kinds of noise are symmetric and log-concave, so of all who move an integer by d or less, who moves it by d shows
most, and the likelihood ratio of the noise y to y + d grows with y. The set that shows most of two integers is, for
each y of the first, all values of the second from some c on, and c falls as y grows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction

_DIGITS = 50
_ROUNDING = Decimal(10) ** -35
"""Relative error allowed for all sums together: each of at most 10^6 steps rounds by 10^-50, and no step enlarges what
was rounded before."""

MOST_POINTS = 60_000
_LEAST = Decimal(10) ** -42
"""Masses below that part of the mass of 0 count as shown entirely."""


@dataclass(frozen=True)
class Masses:
    """The masses of a symmetric noise.

    Attributes:
        at: masses of 0, 1, 2 ...
        beyond: bound of the mass above the last one, on one side.
    """

    at: tuple[Decimal, ...]
    beyond: Decimal


def _masses(ratio: Callable[[int, Decimal], Decimal], first: Decimal, n_points: int, more: int) -> Masses | None:
    """Return masses from their ratios q_x = P(x) / P(x - 1), which follow from each other downwards.

    They are computed twice, from both ends of what the first ratio may be; where the two differ, steps are missing.

    Args:
        ratio: gives q_x of x and q_(x + 1).
        first: least value of the furthest ratio; the largest is 1.
        n_points: integers to compute.
        more: further integers before these.
    """
    low, high = first, Decimal(1)
    ratios: list[Decimal] = []
    for x in range(n_points + more, 0, -1):
        low, high = sorted((ratio(x, low), ratio(x, high)))
        if x <= n_points:
            if high - low > _ROUNDING * low:
                return None
            ratios.append(high)
    masses, total = [Decimal(1)], Decimal(1)
    for q in reversed(ratios):
        masses.append(masses[-1] * q)
        total += 2 * masses[-1]
    if masses[-1] > _LEAST:
        return None
    last = ratios[0]
    return Masses(tuple(mass / total for mass in masses), masses[-1] * last / (1 - last) / total)


def skellam_masses(mu: Fraction, n_points: int) -> Masses | None:
    """Return the masses of Sk(mu), P(x) = e^(-2 mu) I_x(2 mu); None where so many integers are too few.

    I_(x - 1) = I_(x + 1) + (x / mu) I_x gives q_x = 1 / (x / mu + q_(x + 1)) [DLMF 10.29.1].
    """
    with localcontext(prec=_DIGITS):
        parameter = Decimal(mu.numerator) / mu.denominator
        return _masses(lambda x, q: 1 / (x / parameter + q), Decimal(0), n_points, 64 + n_points // 2)


def laplace_masses(shape: Fraction, mean: Fraction, n_points: int) -> Masses | None:
    """Return the masses of a sum of shares of discrete Laplace noise; None where so many integers are too few.

    The generating function phi = c ((1 - r z) (1 - r / z))^-k has (1 - r z) (1 - r / z) z phi' = k r (z - 1 / z) phi.

    Args:
        shape: k, at least 1.
        mean: r / (1 - r).
        n_points: see `skellam_masses`.
    """
    with localcontext(prec=_DIGITS):
        r = Decimal(mean.numerator) / (mean.numerator + mean.denominator)
        k = Decimal(shape.numerator) / shape.denominator
        square = 1 + r * r

        def ratio(x: int, q: Decimal) -> Decimal:
            return r * (x - 1 + k) / (square * x - r * (x + 1 - k) * q)

        return _masses(ratio, r, n_points, 64 + min(int(120 * (1 + mean)), MOST_POINTS))


def shifts_delta(masses: Masses, shift: int, n_shifts: int, epsilon: Fraction) -> Decimal | None:
    """Return the delta at epsilon of one or two integers that move by `shift`, rounded up; None for more.

    delta = sum over y of max(0, P(y) - e^epsilon P(y + d)) for one integer; for two, of the products.
    """
    if n_shifts > 2:
        return None
    with localcontext(prec=_DIGITS):
        n = len(masses.at) - 1 - shift
        if n < 1 or masses.at[n] > _LEAST.sqrt() * masses.at[0]:
            return None
        y = range(-n, n + 1)
        stay, moved = [masses.at[abs(i)] for i in y], [masses.at[abs(i + shift)] for i in y]
        more = (Decimal(epsilon.numerator) / epsilon.denominator).exp()
        cut = masses.beyond + sum(masses.at[n + 1 :])
        if n_shifts == 1:
            found = sum((max(Decimal(0), p - more * q) for p, q in zip(stay, moved, strict=True)), Decimal(0))
        else:
            found = _of_two(stay, moved, more)
        return found * (1 + _ROUNDING) + 2 * n_shifts * cut + _ROUNDING


def _of_two(stay: list[Decimal], moved: list[Decimal], more: Decimal) -> Decimal:
    p_above, q_above, c = Decimal(0), Decimal(0), len(stay)
    found = Decimal(0)
    for p, q in zip(stay, moved, strict=True):
        while c > 0 and p * stay[c - 1] > more * q * moved[c - 1]:
            c -= 1
            p_above, q_above = p_above + stay[c], q_above + moved[c]
        found += p * p_above - more * q * q_above
    return found
