"""Functions of fractions in programs: what they take, between what the result lies, how far off it is, what is sent.

The last operand is a scale of k bits: an integer x stands for x / 2^k, in the result and, but for `divide` and
`truncate`, in the operand. What is computed is off by less than a bound that holds for every value and every mask
(`mpc.protocol.operations.functions`), so ranges are those of the exact function, as much wider. What follows from them
is proven of what is computed, not of what it stands for.

A function whose operand may leave its domain is refused: no divisor may be 0, whatever the rows hold.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product
from math import ceil, floor

from mpc.arithmetic.chebyshev import polynomial_of
from mpc.protocol.operations.functions import (
    Functions,
    inverse_of,
    inverse_root_of,
    leading_places,
    root_of,
    scales_of,
    sigmoid_of,
    slip_of,
)
from mpc.protocol.shared import SharedArray
from mpc.traffic import circuits
from mpc.traffic.shares import ShareTraffic
from mpc.traffic.walk import Traffic

Range = tuple[int, int]
"""Smallest and largest value of a step."""

DIGITS = 80
MOST_SCALE_BITS = 40

Exact = Callable[..., Fraction]
"""Integers, or fractions of units, and the scale, to the exact result in units of the last place."""


@dataclass(frozen=True)
class Function:
    """An operation whose result is rounded.

    Attributes:
        n_operands: how many it takes, the scale included.
        exact: the function. It is monotonous in each operand.
        domain: scale to the smallest and largest value of its last operand but the scale; None where any will do.
        slip: t to a bound of which it is off by less, in units of the last place.
        steepest: an error of an operand grows to no more than this many times as much; None where the function is
            convex or concave: it grows most at an end of the range.
        run: does it on shares of degree t; takes the computation, the operands, the scale, the ranges of the operands.
        walk: walks through `run`; takes the traffic, the number of rows, the ranges of operands and scale.
        scales: smallest and largest scale.
    """

    n_operands: int
    exact: Exact
    domain: Callable[[int], tuple[int | None, int | None]]
    slip: Callable[[int], Fraction]
    steepest: Fraction | None
    run: Callable[..., Awaitable[SharedArray]]
    walk: Callable[..., None]
    scales: tuple[int, int] = (0, MOST_SCALE_BITS)

    def range_of(self, t: int, *ranges: Range) -> Range:
        """Return the range of the result.

        Args:
            t: number of colluding parties.
            ranges: range of each operand, the scale last.

        Raises:
            ValueError: an operand may leave the domain, or the scale is none.
        """
        *operands, scale = ranges
        k = self._scale_of(scale)
        (low, high), (least, most) = operands[-1], self.domain(k)
        what = f"what must not be {{}} may be anything from {low} to {high}: take {{}} first"
        if least is not None and low < least:
            raise ValueError(what.format(f"below {least}", f"maximum(x, {least})"))
        if most is not None and high > most:
            raise ValueError(what.format(f"above {most}", f"minimum(x, {most})"))
        if any(of == (0, 0) for of in operands):
            raise ValueError("an operand is always 0")
        ends = [self.exact(*corner, k) for corner in product(*operands)]
        slip = ceil(self.slip(t))
        return floor(min(ends)) - slip, ceil(max(ends)) + slip

    def error_of(self, t: int, errors: list[Fraction], *ranges: Range) -> Fraction:
        """Return how far the result may be off where operands are off by so much; the scale is exact."""
        *operands, (k, _) = ranges
        if len(operands) > 1:  # |x / y - x' / y'| <= (|x - x'| + |x' / y'| |y - y'|) / y
            least = operands[1][0]
            largest = Fraction(size_of(operands[0]), least)
            grown = (errors[0] + largest * errors[1]) * (1 << k) / least
        elif self.steepest is not None:
            grown = errors[0] * self.steepest
        else:
            low, high = operands[0]
            off = min(errors[0], Fraction(high - low))
            grown = max(
                abs(self.exact(low + off, k) - self.exact(low, k)), abs(self.exact(high, k) - self.exact(high - off, k))
            )
        return grown + self.slip(t)

    def _scale_of(self, scale: Range) -> int:
        least, most = self.scales
        if scale[0] != scale[1] or not least <= scale[0] <= most:
            raise ValueError(f"the scale is a plain integer from {least} to {most}")
        return scale[0]


def size_of(of: Range) -> int:
    """Return the largest absolute value in a range."""
    return max(abs(of[0]), abs(of[1]))


def outline(n_primes: int, t: int, kind: type[ShareTraffic] = ShareTraffic) -> ShareTraffic:
    """Return traffic of nobody's: to see whether a field has room for what is masked, and to count it."""
    n_parties = 2 * t + 1
    return kind(Traffic(range(n_parties + 1)), n_primes, n_parties, t)


def _of_reals(function: Callable[[Decimal], Decimal]) -> Exact:
    def exact(x: Fraction | int, k: int) -> Fraction:
        with localcontext() as context:
            context.prec = DIGITS
            x = Fraction(x)
            return Fraction(function(Decimal(x.numerator) / (Decimal(x.denominator) * (1 << k))) * (1 << k))

    return exact


def _size(of: Range) -> int:
    return max(1, size_of(of))


def _places(of: Range) -> int:
    return max(2, _size(of).bit_length())


async def _divide(c: Functions, x: SharedArray, y: SharedArray, k: int, ranges: list[Range]) -> SharedArray:
    return await c.divide(x, y, k, least=ranges[1][0])


def _walk_divide(share: ShareTraffic, n_rows: int, x: Range, y: Range, scale: Range) -> None:
    exponents = [Fraction(scale[0] - 1 - i) for i in leading_places(_size(y), y[0])]
    circuits.power(share, n_rows, _places(y), Fraction(-1), scales_of(exponents, _size(x)), _size(x))


def _power(exponent: Fraction, function: Callable[[Decimal], Decimal], least: int) -> Function:
    def least_of(x: Range) -> int:
        return max(1, x[0])

    async def run(c: Functions, x: SharedArray, k: int, ranges: list[Range]) -> SharedArray:
        return await c.power(x, exponent, k, least=least_of(ranges[0]))

    def walk(share: ShareTraffic, n_rows: int, x: Range, scale: Range) -> None:
        k = scale[0]
        exponents = [k + exponent * (i + 1 - k) for i in leading_places(_size(x), least_of(x))]
        circuits.power(share, n_rows, _places(x), exponent, scales_of(exponents))

    return Function(2, _of_reals(function), lambda k: (least, None), lambda t: Fraction(2 + t), None, run, walk)


def _interval(x: Range) -> tuple[int, int]:
    return x[0], max(x[1], x[0] + 1)


async def _exp(c: Functions, x: SharedArray, k: int, ranges: list[Range]) -> SharedArray:
    low, high = _interval(ranges[0])
    return await c.exp(x, k, interval=(low / (1 << k), high / (1 << k)))


def _walk_exp(share: ShareTraffic, n_rows: int, x: Range, scale: Range) -> None:
    k = scale[0]
    circuits.smooth(share, n_rows, polynomial_of(Decimal.exp, *_interval(x), k, k, slip_of(share.t)), k)


async def _log(c: Functions, x: SharedArray, k: int, ranges: list[Range]) -> SharedArray:
    return await c.log(x, k)


def _walk_log(share: ShareTraffic, n_rows: int, x: Range, scale: Range) -> None:
    circuits.log(share, n_rows, _places(x), scale[0])


async def _sigmoid(c: Functions, x: SharedArray, k: int, ranges: list[Range]) -> SharedArray:
    return await c.sigmoid(x, k)


def _walk_sigmoid(share: ShareTraffic, n_rows: int, x: Range, scale: Range) -> None:
    circuits.sigmoid(share, n_rows, _size(x), scale[0])


async def _truncate(c: Functions, x: SharedArray, k: int, ranges: list[Range]) -> SharedArray:
    return await c.truncate(x, k)


def _walk_truncate(share: ShareTraffic, n_rows: int, x: Range, scale: Range, degree: int | None = None) -> None:
    circuits.truncate(share, n_rows, _size(x), scale[0], degree)


def _anything(k: int) -> tuple[None, None]:
    return None, None


def _clipped_sigmoid(x: Decimal) -> Decimal:
    return sigmoid_of(max(Decimal(-200), min(x, Decimal(200))))  # beyond, it is 0 or 1 but for e^-200


FUNCTIONS: dict[str, Function] = {
    "truncate": Function(
        2,
        lambda x, k: Fraction(x) / (1 << k),
        _anything,
        lambda t: 1 + Fraction(t, 2),
        None,
        _truncate,
        _walk_truncate,
        (1, 60),
    ),
    "divide": Function(
        3,
        lambda x, y, k: Fraction(x) * (1 << k) / y,
        lambda k: (1, None),
        lambda t: Fraction(2 + t),
        None,
        _divide,
        _walk_divide,
    ),
    "reciprocal": _power(Fraction(-1), inverse_of, 1),
    "sqrt": _power(Fraction(1, 2), root_of, 0),
    "reciprocal_sqrt": _power(Fraction(-1, 2), inverse_root_of, 1),
    "log": Function(2, _of_reals(Decimal.ln), lambda k: (1, None), lambda t: Fraction(5 + t, 2), None, _log, _walk_log),
    "exp": Function(
        2,
        _of_reals(Decimal.exp),
        lambda k: (-1000 << k, 45 << k),
        lambda t: 2 + Fraction(t, 2),
        None,
        _exp,
        _walk_exp,
    ),
    "sigmoid": Function(
        2,
        _of_reals(_clipped_sigmoid),
        _anything,
        lambda t: Fraction(5 + t, 2),
        Fraction(1, 4),
        _sigmoid,
        _walk_sigmoid,
    ),
}
"""Operation to what is known of it."""
