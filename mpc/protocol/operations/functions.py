"""Quotients, roots, exponentials and logarithms of fractions (`mpc.protocol.operations.fixed_point`).

A smooth function on a public interval is a Chebyshev polynomial, whose T_k are made by T_{h+k} = 2 T_h T_k - T_{h-k},
as many at once as there are (`mpc.arithmetic.chebyshev`). Powers and logarithms, whose argument may have any size, take
it apart first: x = m 2^i with m in [1/2, 1), where i comes as a shared vector of zeros and a one, from the bits of x.
Source of that: [CdS10], section 3.4; here a polynomial stands where Goldschmidt's iteration stands there.

Errors are bounded for all values, in units of the last place of the result; they are stated with each operation.
Whoever promises an interval, or a least value, that does not hold gets a wrong result; and where an interval does not
hold, masks are shorter than what they hide. What `divide`, `power` and `log` are given cannot leave theirs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from fractions import Fraction
from math import ceil, floor, isqrt

from mpc.arithmetic.chebyshev import DIGITS, Polynomial, RealFunction, polynomial_of, steps_of
from mpc.errors import LocalFaultError
from mpc.protocol.operations.bits import as_bits, bounded, put, take
from mpc.protocol.operations.comparisons import Comparisons
from mpc.protocol.operations.fixed_point import FixedPoint
from mpc.protocol.shared import SharedArray, combination, concatenate, stack


def inverse_of(m: Decimal) -> Decimal:
    """Return 1 / m."""
    return 1 / m


def root_of(m: Decimal) -> Decimal:
    """Return sqrt(m)."""
    return m.sqrt()


def inverse_root_of(m: Decimal) -> Decimal:
    """Return 1 / sqrt(m)."""
    return 1 / m.sqrt()


def sigmoid_of(x: Decimal) -> Decimal:
    """Return 1 / (1 + e^-x)."""
    return 1 / (1 + (-x).exp())


POWERS: dict[Fraction, RealFunction] = {
    Fraction(-1): inverse_of,
    Fraction(1, 2): root_of,
    Fraction(-1, 2): inverse_root_of,
}
"""Exponent to the function of the mantissa."""


@dataclass(frozen=True)
class Scales:
    """How a power of the size of an argument is made of its leading place i: 2^(e_i), at a scale of its own.

    Attributes:
        constants: round(2^(r + e_i)) for each place i.
        shift_bits: r.
        mantissa_bits: scale of the power of the mantissa.
    """

    constants: tuple[int, ...]
    shift_bits: int
    mantissa_bits: int


def scales_of(exponents: Sequence[Fraction], largest_factor: int = 1) -> Scales:
    """Return constants that are off by less than the mantissa is, which is less than 1/8 unit of the largest result.

    Args:
        exponents: e_i for each place, multiples of 1/2.
        largest_factor: what the result is multiplied by, at most.
    """
    largest = ceil(max(exponents)) + (largest_factor - 1).bit_length()
    mantissa_bits = max(largest, 0) + 3
    smallest = floor(min(exponents))
    exact = all(e.denominator == 1 for e in exponents)
    shift_bits = max(0, -smallest if exact else mantissa_bits + 1 - smallest)
    constants = tuple(isqrt(1 << int(2 * (shift_bits + e))) for e in exponents)
    return Scales(constants, shift_bits, mantissa_bits)


class Functions(FixedPoint, Comparisons):
    """The part of `Computation` that evaluates real functions."""

    async def smooth(
        self,
        x: SharedArray,
        function: RealFunction,
        scale_bits: int,
        *,
        interval: tuple[float, float] | None = None,
    ) -> SharedArray:
        """Return a function of fractions, off by less than 2 + t / 2 units of the last place.

        Args:
            x: fractions of the scale, within the interval.
            function: takes and returns a `decimal.Decimal`; analytic on the interval, which is widened to 2^k to either
                side of its middle. Functions are recognised by identity: define one once.
            scale_bits: scale of x and of the result.
            interval: ends of the interval, real numbers; default: what the bound of x allows.

        Raises:
            LocalFaultError: no polynomial of degree 191 comes near enough, or the function is not defined everywhere.
            FieldTooSmallError: the field has no room: take a coarser scale, a shorter interval or more primes.
            PeerError: see `truncate`.

        Privacy: an advantage of at most 2^-40 per truncation, of which there are as many as the degree d, per value.
        Cost: 2 ceil(log2(d)) + 2 rounds; d truncations per value.
        """
        if interval is None:
            low, high = -bounded(x), bounded(x)
        else:
            low_end, high_end = (Fraction(end) * (1 << scale_bits) for end in interval)
            low, high = floor(low_end), ceil(high_end)
        polynomial = polynomial_of(function, low, high, scale_bits, scale_bits, slip_of(self.t))
        return await self._evaluated(x, polynomial, scale_bits)

    async def exp(self, x: SharedArray, scale_bits: int, *, interval: tuple[float, float] | None = None) -> SharedArray:
        """Return e^x. Interval, errors, rounds and precision are those of `smooth`.

        From -8 to 0 at 16 bits the degree is 11, from -8 to 8 it is 20. The larger e^x may be the more bits are needed
        inside: from -8 to 8 a field of six primes has room for 20 bits, from -16 to 16 not for 12.
        """
        return await self.smooth(x, Decimal.exp, scale_bits, interval=interval)

    async def sigmoid(self, x: SharedArray, scale_bits: int) -> SharedArray:
        """Return 1 / (1 + e^-x) of any x; off by less than 2.5 + t / 2 units of the last place.

        Where x may be beyond (scale_bits + 2) ln 2 it is moved there first: a comparison of each sign, and a round.

        Cost: at 12 bits the degree d is 51: with comparisons 2 ceil(log2(d)) + 2 rounds, those of `less` and 1; per
            value d + 1 truncations and 2 comparisons. Errors and privacy are those of `smooth` and `less`.
        """
        end = sigmoid_end(scale_bits)
        x = await self.reduce(x)
        if bounded(x) > end:
            outside = await self.less(stack([x, -x]), -end)
            below, above = outside[0], outside[1]
            change = (above - below) * end - await self.multiply(below + above, x)
            x = replace(x + change, bound=end)
        return await self._evaluated(x, sigmoid_polynomial(scale_bits, self.t), scale_bits)

    async def divide(self, x: SharedArray, y: SharedArray, scale_bits: int, *, least: int = 1) -> SharedArray:
        """Return x / y at a scale, off by less than 2 + t units of its last place; of y = 0 it is 0.

        Args:
            x: integers, or fractions of any scale.
            y: integers, or fractions of the same scale, from 0 up.
            scale_bits: scale of the result.
            least: public lower bound on y where it is not 0; a larger one needs a smaller field.

        Raises:
            LocalFaultError: an array has no bound, or that of y more than 62 bits.
            FieldTooSmallError: the field has no room: take a coarser scale or tighter bounds.
            PeerError: see `truncate`.

        Privacy: an advantage of at most 2^-40 for the bits, and as `smooth`.
        Cost: with w bits of y and a polynomial of degree d, the rounds of `bits`, ceil(log2(w)) + 1, those of `smooth`,
            and 3; per value the products of `bits`, less than w (log2(w) + 2) / 2 + 2 more, d + 1 truncations.
        """
        x, y = x.aligned(y)
        exponents = [Fraction(scale_bits - 1 - i) for i in leading_places(bounded(y), least)]
        x = await self.reduce(x)
        factor, cut_bits = await self._power(y, Fraction(-1), scales_of(exponents, max(1, bounded(x))))
        return await self.truncate(await self._to_be_cut(await self.reduce(factor), x), cut_bits)

    async def power(self, x: SharedArray, exponent: Fraction, scale_bits: int, *, least: int = 1) -> SharedArray:
        """Return x^exponent, for -1, -1/2 and 1/2; off by less than 2 + t units of the last place; of 0 it is 0.

        Args:
            x: fractions of the scale, from 0 up.
            exponent: a key of `POWERS`.
            scale_bits: scale of x and of the result.
            least: public lower bound on the integer that stands for x, where it is not 0.

        Errors, privacy and cost are those of `divide`, with a round less.
        """
        if exponent not in POWERS:
            raise LocalFaultError(f"powers have the exponents {', '.join(map(str, POWERS))}, not {exponent}")
        exponents = [scale_bits + exponent * (i + 1 - scale_bits) for i in leading_places(bounded(x), least)]
        result, cut_bits = await self._power(x, exponent, scales_of(exponents))
        return await self.truncate(result, cut_bits)

    async def reciprocal(self, x: SharedArray, scale_bits: int, *, least: int = 1) -> SharedArray:
        """Return 1 / x. See `power`."""
        return await self.power(x, Fraction(-1), scale_bits, least=least)

    async def sqrt(self, x: SharedArray, scale_bits: int) -> SharedArray:
        """Return the square root of x. See `power`."""
        return await self.power(x, Fraction(1, 2), scale_bits)

    async def reciprocal_sqrt(self, x: SharedArray, scale_bits: int, *, least: int = 1) -> SharedArray:
        """Return 1 / sqrt(x). See `power`."""
        return await self.power(x, Fraction(-1, 2), scale_bits, least=least)

    async def log(self, x: SharedArray, scale_bits: int) -> SharedArray:
        """Return the natural logarithm of fractions above 0, off by less than 2.5 + t / 2 units of the last place.

        What comes of 0 says nothing. Errors and privacy are those of `smooth` and `bits`.

        Cost: with w bits of x and degree d, the rounds of `bits`, ceil(log2(w)) + 1, and those of `smooth`.
        """
        mantissa, places = await self._taken_apart(x)
        n_bits = places.shape[0]
        polynomial = mantissa_polynomial(Decimal.ln, n_bits, scale_bits, self.t)
        of_mantissa = await self._evaluated(mantissa, polynomial, scale_bits)
        return of_mantissa + weighted(places, logarithms(n_bits, scale_bits))

    async def mean(self, x: SharedArray) -> SharedArray:
        """Return the mean along the first axis at the scale of x, off by less than 1.5 + t / 2 units of its last place.

        Errors, privacy and cost are those of one `truncate` per result.
        """
        total = x.sum(0)
        n_bits = bounded(total).bit_length() + 1
        return await self.truncate(total * round(Fraction(1 << n_bits, x.shape[0])), n_bits)

    async def variance(self, x: SharedArray, scale_bits: int) -> SharedArray:
        """Return the mean squared distance from the mean, along the first axis, of fractions of a scale.

        Off by less than 1.5 + t / 2 units of the last place. Errors and privacy are those of `truncate`.

        Cost: 2 rounds, 3 where x is a product; 1 truncation per result, whatever the length.
        """
        x = await self.reduce(x)
        n, total = x.shape[0], x.sum(0)
        factors = concatenate([x, total[None]])
        products = await self._to_be_cut(factors, factors)
        squares = n * products[:-1].sum(0) - products[-1]
        squares = replace(squares, bound=(n * bounded(x)) ** 2)  # both terms are, and neither is negative
        cut_bits = bounded(squares).bit_length() + 1
        return await self.truncate(squares * round(Fraction(1 << cut_bits, n * n << scale_bits)), cut_bits)

    # -- parts ---------------------------------------------------------------------------------------------------------

    async def _evaluated(self, x: SharedArray, polynomial: Polynomial, scale_bits: int) -> SharedArray:
        """Return a polynomial of integers of its input's scale, at another scale."""
        inner_bits, one = polynomial.inner_bits, 1 << polynomial.inner_bits
        x = await self.reduce(x)
        first = (x - polynomial.centre) * (1 << inner_bits - polynomial.half_bits)
        made = [x * 0 + one, replace(first, bound=one)]
        for h, several in steps_of(polynomial.degree):
            products = await self.multiply_fixed(2 * made[h], stack([made[k] for k in several]), inner_bits)
            made += [
                replace(product - made[h - k], bound=one + polynomial.errors[h + k])
                for k, product in zip(several, products, strict=True)
            ]
        total = sum((t * c for t, c in zip(made[1:], polynomial.coefficients[1:], strict=True)), start=x * 0)
        return await self.truncate(total + (polynomial.coefficients[0] << inner_bits), polynomial.cut_bits(scale_bits))

    async def _taken_apart(self, x: SharedArray) -> tuple[SharedArray, SharedArray]:
        """Return for integers from 0 below 2^w a mantissa and where the leading bit is.

        Returns:
            x shifted to the left until its leading bit is at place w - 1, so from 2^(w-1) to 2^w - 1, whatever x is;
            and 1 at the place of that bit and 0 elsewhere, shape (w, *x.shape). Of 0 they are 2^(w-1) and zeros.
        """
        n_bits = max(2, bounded(x).bit_length())
        bits = await self.bits(x, n_bits)
        below = bits[::-1]  # the highest first: a place shall say whether there is a 1 up to it
        for step in range((n_bits - 1).bit_length()):
            later = [j for j in range(n_bits) if j >> step & 1]
            block = take(below, [(j >> step << step) - 1 for j in later])
            mine = take(below, later)
            below = put(below, later, as_bits(mine + block - await self.multiply(mine, block)))
        leading = as_bits(concatenate([below[:1], below[1:] - below[:-1]]))[::-1]
        shift = weighted(leading, [1 << n_bits - 1 - i for i in range(n_bits)])
        mantissa = await self.multiply(self.from_bits(bits), shift)
        mantissa = mantissa + (1 - below[-1]) * (1 << n_bits - 1)
        return replace(mantissa, bound=1 << n_bits), leading

    async def _power(self, x: SharedArray, exponent: Fraction, scales: Scales) -> tuple[SharedArray, int]:
        """Return a power as `_to_be_cut` does, and how many bits too many it has."""
        mantissa, places = await self._taken_apart(x)
        n_bits = places.shape[0]
        polynomial = mantissa_polynomial(POWERS[exponent], n_bits, scales.mantissa_bits, self.t)
        of_mantissa = await self._evaluated(mantissa, polynomial, scales.mantissa_bits)
        product = await self._to_be_cut(of_mantissa, weighted(places, scales.constants))
        return product, scales.mantissa_bits + scales.shift_bits


def slip_of(t: int) -> int:
    """Return one more than the error of a truncation, in units of the last place, rounded up."""
    return 2 + (t + 1) // 2


def mantissa_polynomial(function: RealFunction, n_bits: int, scale_bits: int, t: int) -> Polynomial:
    """Return the polynomial of a function on [1/2, 1), whose argument is an integer of so many bits."""
    return polynomial_of(function, 1 << n_bits - 1, 1 << n_bits, n_bits, scale_bits, slip_of(t))


def leading_places(bound: int, least: int) -> list[int]:
    """Return for each place of an integer the leading place that it counts as: none is below that of the least one."""
    if least < 1:
        raise LocalFaultError(f"the least value is an integer from 1, not {least}")
    return [max(i, least.bit_length() - 1) for i in range(max(2, bound.bit_length()))]


def weighted(places: SharedArray, weights: Sequence[int]) -> SharedArray:
    """Return which of several public integers belongs to the one place that is 1; without one, 0. Local."""
    return replace(combination(list(places), weights), bound=max(map(abs, weights)))


def sigmoid_end(scale_bits: int) -> int:
    """Return the integer from which on the sigmoid is 1 but for a quarter of a unit of the last place."""
    return ceil(Fraction(scale_bits + 2) * Fraction(694, 1000) * (1 << scale_bits))


def sigmoid_polynomial(scale_bits: int, t: int) -> Polynomial:
    """Return the polynomial of the sigmoid between the points where it is 0 and 1."""
    end = sigmoid_end(scale_bits)
    return polynomial_of(sigmoid_of, -end, end, scale_bits, scale_bits, slip_of(t))


def logarithms(n_bits: int, scale_bits: int) -> list[int]:
    """Return ln(2^(i + 1 - scale_bits)) at the scale, for each place i."""
    with localcontext() as context:
        context.prec = DIGITS
        unit = Decimal(2).ln() * (1 << scale_bits)
        return [int((unit * (i + 1 - scale_bits)).to_integral_value(ROUND_HALF_EVEN)) for i in range(n_bits)]
