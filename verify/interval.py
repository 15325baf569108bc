"""Interval arithmetic in decimal digits: every result contains the true value.

`decimal` rounds +, -, *, / as it is told, and its exp, ln and sqrt to the nearest; so the ends of these are moved
outward by one unit of the last place.
"""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from typing import Self

DIGITS = 60

_DOWN = Context(prec=DIGITS, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])
_UP = Context(prec=DIGITS, rounding=ROUND_CEILING, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])
_NEAR = Context(prec=DIGITS, rounding=ROUND_HALF_EVEN, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])

Number = int | float | Fraction | Decimal


@dataclass(frozen=True)
class Interval:
    """A real number between two ends.

    Attributes:
        low, high: the ends, low <= high.
    """

    low: Decimal
    high: Decimal

    @classmethod
    def of(cls, value: "Number | Interval") -> "Interval":
        """Return the narrowest interval of a number; a float counts as the number that it is exactly."""
        if isinstance(value, Interval):
            return value
        if isinstance(value, int):
            whole = Decimal(value)
            return cls(_DOWN.plus(whole), _UP.plus(whole))
        exact = Fraction(value)
        top, bottom = Decimal(exact.numerator), Decimal(exact.denominator)
        return cls(_DOWN.divide(top, bottom), _UP.divide(top, bottom))

    def __add__(self, other: "Number | Interval") -> "Interval":
        o = Interval.of(other)
        return Interval(_DOWN.add(self.low, o.low), _UP.add(self.high, o.high))

    def __neg__(self) -> "Interval":
        return Interval(self.high.copy_negate(), self.low.copy_negate())  # `-` would round to 28 digits

    def __sub__(self, other: "Number | Interval") -> "Interval":
        return self + -Interval.of(other)

    def __mul__(self, other: "Number | Interval") -> "Interval":
        o = Interval.of(other)
        if self.low >= 0 and o.low >= 0:  # most of them, a quarter of the work
            return Interval(_DOWN.multiply(self.low, o.low), _UP.multiply(self.high, o.high))
        pairs = [(a, b) for a in (self.low, self.high) for b in (o.low, o.high)]
        return Interval(min(_DOWN.multiply(*p) for p in pairs), max(_UP.multiply(*p) for p in pairs))

    def __truediv__(self, other: "Number | Interval") -> "Interval":
        o = Interval.of(other)
        if o.low <= 0 <= o.high:
            raise ZeroDivisionError("the divisor may be 0")
        if self.low >= 0 and o.low > 0:
            return Interval(_DOWN.divide(self.low, o.high), _UP.divide(self.high, o.low))
        pairs = [(a, b) for a in (self.low, self.high) for b in (o.low, o.high)]
        return Interval(min(_DOWN.divide(*p) for p in pairs), max(_UP.divide(*p) for p in pairs))

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, other: Number) -> "Interval":
        return Interval.of(other) - self

    def __rtruediv__(self, other: Number) -> "Interval":
        return Interval.of(other) / self

    def exp(self) -> "Interval":
        """Return e to this power."""
        return self._growing(_NEAR.exp)

    def ln(self) -> "Interval":
        """Return the natural logarithm of a positive number."""
        if self.low <= 0:
            raise ValueError("the logarithm of a number that may not be positive")
        return self._growing(_NEAR.ln)

    def sqrt(self) -> "Interval":
        """Return the square root of a number that is not negative."""
        return self._growing(_NEAR.sqrt)

    def power(self, n: int) -> "Interval":
        """Return the n-th power of a number that is not negative, n >= 0."""
        found = Interval.of(1)
        for _ in range(n):
            found *= self
        return found

    def least(self, other: "Interval") -> Self:
        """Return the smaller one of two numbers."""
        return type(self)(min(self.low, other.low), min(self.high, other.high))

    def _growing(self, rounded: Callable[[Decimal], Decimal]) -> "Interval":
        return Interval(_NEAR.next_minus(rounded(self.low)), _NEAR.next_plus(rounded(self.high)))


def normal_above(x: Interval) -> Interval:
    """Return the probability that a standard normal variable exceeds x, for |x| <= 20; beyond, [0, e^-200] or about 1.

    Phi(x) = 1/2 + phi(x) (x + x^3/3 + x^5/(3 5) + ...): all terms have the sign of x, and once a term is at most half
    of the one before, what is left out is at most the last. The function falls, so the ends of x give the ends.
    """
    return Interval(_above(x.high).low, _above(x.low).high)


_FURTHEST = 20


def _above(x: Decimal) -> Interval:
    if x > _FURTHEST:
        return Interval(Decimal(0), Interval.of(-200).exp().high)
    if x < -_FURTHEST:
        return Interval((1 - Interval.of(-200).exp()).low, Decimal(1))
    at = Interval(x.copy_abs(), x.copy_abs())
    square, term, total, n = at * at, at, at, 1
    while not (square.high < n and term.high <= total.low * Decimal(10) ** -DIGITS):
        n += 2
        term = term * square / n
        total += term
    total = Interval(total.low, _UP.add(total.high, term.high))
    middle = total * (square / -2).exp() / (2 * PI).sqrt()
    found = Interval.of(Fraction(1, 2)) - middle if x >= 0 else middle + Fraction(1, 2)
    return Interval(max(found.low, Decimal(0)), found.high)


PI = Interval(
    Decimal("3.14159265358979323846264338327950288419716939937510582097494459"),
    Decimal("3.14159265358979323846264338327950288419716939937510582097494460"),
)
