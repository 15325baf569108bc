"""Distributions as `dp.draw.rejection.sample_offsets` takes them: relative to a mode, with bounds of the log mass."""

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cached_property

from dp.draw.rejection import precise_context, precise_ln
from dp.draw.skellam import Poisson


@dataclass(frozen=True)
class DiscreteLaplace:
    """mass(k) proportional to exp(-|k| / scale).

    Attributes:
        scale: positive.
    """

    scale: Fraction

    lowest = None

    @property
    def spread(self) -> int:
        """The standard deviation, about sqrt(2) times the scale, rounded up."""
        return math.isqrt(math.floor(2 * self.scale**2)) + 1

    def log_mass(self, offset: int, digits: int) -> tuple[Decimal, Decimal]:
        """Return bounds of -|offset| / scale."""
        return _bounds_of_fraction(-abs(offset) / self.scale, digits)


@dataclass(frozen=True)
class DiscreteGaussian:
    """mass(k) proportional to exp(-k^2 / (2 variance)) [CKS20].

    Attributes:
        variance: positive. The variance of the variable itself is at most this.
    """

    variance: Fraction

    lowest = None

    @property
    def spread(self) -> int:
        """The standard deviation, rounded up."""
        return math.isqrt(math.floor(self.variance)) + 1

    def log_mass(self, offset: int, digits: int) -> tuple[Decimal, Decimal]:
        """Return bounds of -offset^2 / (2 variance)."""
        return _bounds_of_fraction(-(offset**2) / (2 * self.variance), digits)


@dataclass(frozen=True)
class Geometric:
    """mass(k) proportional to ratio^k, k = 0, 1, ...

    Attributes:
        ratio: strictly between 0 and 1.
    """

    ratio: Fraction

    lowest = 0

    @property
    def spread(self) -> int:
        """The standard deviation, sqrt(ratio) / (1 - ratio), rounded up."""
        return math.isqrt(math.floor(self.ratio / (1 - self.ratio) ** 2)) + 1

    def log_mass(self, offset: int, digits: int) -> tuple[Decimal, Decimal]:
        """Return bounds of offset * ln(ratio)."""
        return _bounds_of_logarithm(offset, self.ratio, digits)


@dataclass(frozen=True)
class Binomial:
    """The binomial distribution, prolonged beyond its end by a geometric tail.

    `dp.draw.rejection` needs a support without upper end. Beyond n the log mass goes on with the slope that it has from
    n - 1 to n, which keeps it log-concave; whoever samples draws values above n again.

    Attributes:
        n_trials: n, at least 2.
        probability: p of a success, positive, at most 1/2: the slope at the end is then negative.
    """

    n_trials: int
    probability: Fraction

    @cached_property
    def mode(self) -> int:
        """floor((n + 1) p): a most probable value, below n."""
        return math.floor((self.n_trials + 1) * self.probability)

    @property
    def lowest(self) -> int:
        """The offset of the value 0."""
        return -self.mode

    @property
    def spread(self) -> int:
        """The standard deviation, rounded up."""
        return math.isqrt(math.floor(self.n_trials * self.probability * (1 - self.probability))) + 1

    @cached_property
    def _successes(self) -> Poisson:
        return Poisson(Fraction(2 * self.mode + 1, 2))

    @cached_property
    def _failures(self) -> Poisson:
        return Poisson(Fraction(2 * (self.n_trials - self.mode) + 1, 2))

    def log_mass(self, offset: int, digits: int) -> tuple[Decimal, Decimal]:
        """Return bounds of ln(mass(mode + offset) / mass(mode)).

        With m = mode, k = m + offset <= n and odds = p / (1 - p) it is

            ln m! - ln k!  +  ln (n - m)! - ln (n - k)!  +  offset ln odds.

        `Poisson(m + 1/2)` has mode m and the log mass ln m! - ln k! + offset ln(m + 1/2); `Poisson(n - m + 1/2)` at
        -offset gives the other two factorials. So the result is the sum of both and of
        offset ln(odds (n - m + 1/2) / (m + 1/2)). Beyond n, each step adds ln(mass(n) / mass(n - 1)) = ln(odds / n).
        """
        n, beyond = self.n_trials, max(0, self.mode + offset - self.n_trials)
        inside = offset - beyond
        odds = self.probability / (1 - self.probability)
        terms = [
            self._successes.log_mass(inside, digits + 1),
            self._failures.log_mass(-inside, digits + 1),
            _bounds_of_logarithm(inside, odds * self._failures.rate / self._successes.rate, digits + 1),
            _bounds_of_logarithm(beyond, odds / n, digits + 1),
        ]
        size = max(len(str(int(abs(bound)))) for term in terms for bound in term)
        with localcontext(precise_context(digits + size + 10)):
            # Exact but for 8 roundings of 10**-(digits + 8): widened by more than that.
            margin = Decimal(1).scaleb(-digits - 3)
            low, high = sum((low for low, _ in terms), Decimal(0)), sum((high for _, high in terms), Decimal(0))
            return low - margin, high + margin


def _bounds_of_fraction(value: Fraction, digits: int) -> tuple[Decimal, Decimal]:
    """Return bounds of a number of any sign, 10**-digits / 5 apart."""
    size = len(str(abs(math.floor(value))))
    with localcontext(precise_context(digits + size + 5)):
        # A correctly rounded quotient of operands that `Decimal` takes over exactly: error below 10**-(digits + 4).
        quotient = Decimal(value.numerator) / Decimal(value.denominator)
        radius = Decimal(1).scaleb(-digits - 1)
        return quotient - radius, quotient + radius


def _bounds_of_logarithm(factor: int, x: Fraction, digits: int) -> tuple[Decimal, Decimal]:
    """Return bounds of factor * ln x, 10**-digits / 5 apart, for x > 0.

    |ln x| is at most 0.7 times the bits of x, fewer than 10**size / |factor| together; the quotient, its logarithm and
    the product each err by a relative 10**(1 - precision) (the quotient by as much in absolute terms of the logarithm).
    """
    bits = x.numerator.bit_length() + x.denominator.bit_length()
    size = len(str((abs(factor) + 1) * bits))
    precision = digits + size + 5
    with localcontext(precise_context(precision)):
        value = factor * precise_ln(x, precision)
        radius = Decimal(1).scaleb(-digits - 1)
        return value - radius, value + radius
