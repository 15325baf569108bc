"""Smooth functions as Chebyshev polynomials with integer coefficients, the same at every member.

All members must multiply shares by the same constants, so none comes from floating point, whose last bits differ
between machines: functions take and return `decimal.Decimal`, whose `exp`, `ln` and `sqrt` are software with defined
results.

Source: [Tre13], chapters 3 and 4: p(u) = sum_k c_k T_k(u) interpolates a function on [-1, 1] in n Chebyshev points; its
error is at most twice the sum of the |c_k| beyond the last one that is kept.
"""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

from mpc.errors import LocalFaultError

RealFunction = Callable[[Decimal], Decimal]
"""A function of one real number. It uses the methods of `Decimal` and no floating point."""

DIGITS = 60
MOST_POINTS = 256


@dataclass(frozen=True)
class Polynomial:
    """A polynomial for integers of one scale, and at which scales it is evaluated.

    Attributes:
        coefficients: c_k at the scale `coefficient_bits`, integers.
        centre: middle of the interval, an integer of the input's scale.
        half_bits: the interval reaches 2^half_bits to either side of the centre.
        inner_bits: scale of the values of T_k.
        coefficient_bits: scale of the coefficients.
        errors: bound on the error of the computed T_k, in units of the last place of `inner_bits`.
    """

    coefficients: tuple[int, ...]
    centre: int
    half_bits: int
    inner_bits: int
    coefficient_bits: int
    errors: tuple[int, ...]

    @property
    def degree(self) -> int:
        """Highest k."""
        return len(self.coefficients) - 1

    def cut_bits(self, scale_bits: int) -> int:
        """Return how many bits are cut off at the end, for a result of this scale."""
        return self.inner_bits + self.coefficient_bits - scale_bits


def steps_of(degree: int) -> list[tuple[int, range]]:
    """Return in which steps T_2 .. T_degree are made: h and several k, for T_{h+k} = 2 T_h T_k - T_{h-k}."""
    steps, h = [], 1
    while h < degree:
        steps.append((h, range(1, min(h, degree - h) + 1)))
        h *= 2
    return steps


def errors_of(degree: int, slip: int) -> tuple[int, ...]:
    """Return bounds on the errors of T_0 .. T_degree where each product is off by less than `slip` - 1 units.

    With errors e of the factors 2 T_h T_k - T_{h-k} is off by at most 2 e_h + 2 e_k + e_{h-k}, the product of both
    errors, which is below one unit where they have less than half of the bits, and the slip.
    """
    errors = [0, 0]
    for h, several in steps_of(degree):
        errors += [2 * errors[h] + 2 * errors[k] + errors[h - k] + slip for k in several]
    return tuple(errors[: degree + 1])


@lru_cache(maxsize=64)
def polynomial_of(
    function: RealFunction, low: int, high: int, input_bits: int, scale_bits: int, slip: int
) -> Polynomial:
    """Return a polynomial whose evaluation is off by less than `slip` units of the last place of the result.

    The tail is at most 1/4 unit, the errors of all T_k together 1/4, those of the coefficients 1/8, and the final cut
    less than `slip` - 1.

    Args:
        function: the function.
        low: lower end of the interval, an integer of the input's scale.
        high: upper end. The interval is widened to 2^k to either side of its middle.
        input_bits: scale of the input.
        scale_bits: scale of the result.
        slip: one more than the error of a cut, in units of the last place, rounded up.

    Raises:
        LocalFaultError: the function is not defined, or not smooth enough, on the widened interval.
    """
    if high <= low:
        raise LocalFaultError(f"an interval from {low} to {high} holds nothing")
    centre = (low + high) // 2
    half_bits = _log2_up(max(high - centre, centre - low))
    tail = Fraction(1, 4 << scale_bits)
    exact = _interpolated(function, centre, half_bits, input_bits, tail)
    degree = max(1, next(d for d in range(len(exact)) if 2 * sum(map(abs, exact[d + 1 :])) <= tail))
    errors = errors_of(degree, slip)
    weight = 4 * sum(abs(c) * e for c, e in zip(exact[: degree + 1], errors, strict=True))
    inner_bits = max(scale_bits + _log2_up(weight), half_bits, 2 * max(errors).bit_length() + 1)
    coefficient_bits = scale_bits + _log2_up(4 * (degree + 1))
    return Polynomial(
        tuple(round(c * (1 << coefficient_bits)) for c in exact[: degree + 1]),
        centre,
        half_bits,
        inner_bits,
        coefficient_bits,
        errors,
    )


def _log2_up(value: Fraction | int) -> int:
    """Return the least k, not negative, with 2^k >= value."""
    return max(0, (-(-value.numerator // value.denominator) - 1).bit_length()) if value > 0 else 0


def _interpolated(
    function: RealFunction, centre: int, half_bits: int, input_bits: int, tail: Fraction
) -> list[Fraction]:
    """Return coefficients of the interpolating polynomial, so many that the last quarter of them vanishes."""
    with localcontext() as context:
        context.prec = DIGITS
        unit = Decimal(2) ** -input_bits
        middle, half = Decimal(centre) * unit, Decimal(1 << half_bits) * unit
        n = 16
        while n <= MOST_POINTS:
            points = _chebyshev_points(n)
            try:
                values = [function(middle + half * u) for u in points]
            except ArithmeticError as error:
                raise LocalFaultError(
                    "the function is not defined on the interval, widened to 2^k either way"
                ) from error
            coefficients = _coefficients(points, values)
            if sum(map(abs, coefficients[3 * n // 4 :])) * 8 <= tail:
                return [Fraction(c) for c in coefficients]
            n *= 2
    raise LocalFaultError(
        f"{MOST_POINTS} points do not suffice for the function: take a shorter interval or a coarser scale"
    )


def _chebyshev_points(n: int) -> list[Decimal]:
    """Return cos((2 j + 1) pi / (2 n)) for n = 2^k points, by cos(a / 2) = sqrt((1 + cos(a)) / 2)."""
    points = [Decimal(0)]
    while len(points) < n:
        upper = [((1 + point) / 2).sqrt() for point in points]
        points = upper + [-point for point in upper]
    return points


def _coefficients(points: list[Decimal], values: list[Decimal]) -> list[Decimal]:
    n = len(points)
    before, now = [Decimal(1)] * n, list(points)
    found = [sum(values, Decimal(0)) / n]
    for _ in range(1, n):
        found.append(2 * sum((v * t for v, t in zip(values, now, strict=True)), Decimal(0)) / n)
        before, now = now, [2 * u * t - b for u, t, b in zip(points, now, before, strict=True)]
    return found
