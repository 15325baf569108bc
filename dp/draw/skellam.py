"""Exact Skellam noise: the difference of two independent Poisson variables, for every parameter up to 2**100."""

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from dp.draw.rejection import precise_context, precise_ln, sample_offsets
from entropy import Entropy, KeyStream
from entropy.stream import KEY_BYTES

MAX_MU = 1 << 100
"""Largest parameter: samples and their sums over parties fit 64-bit integers with room to spare."""


def sample_skellam(entropy: Entropy, mu: int | Fraction, size: int) -> NDArray[np.int64]:
    """Draw independent Skellam variables Sk(mu): Poisson(mu) - Poisson(mu).

    Mean 0, variance 2 mu, fourth cumulant 2 mu. The distribution is exact: see `dp.draw.rejection`. (numpy's Poisson
    has the wrong variance from 1e15 on, and takes its bits from a generator that is not cryptographic.)

    Args:
        entropy: gives the key of the stream that all bits come from: 32 bytes per call.
        mu: 0 .. MAX_MU. 0 gives zeros.
        size: how many.

    Returns:
        shape (size,).

    Raises:
        ValueError: mu or size is out of range.
    """
    if not 0 <= mu <= MAX_MU:
        raise ValueError(f"a Skellam parameter of {mu} is outside 0..2^100")
    if size < 0:
        raise ValueError(f"{size} samples cannot be drawn")
    if mu == 0:
        return np.zeros(size, dtype=np.int64)
    # Both variables are offsets from the same mode, which cancels.
    offsets = sample_offsets(Poisson(Fraction(mu)), 2 * size, KeyStream(entropy.read(KEY_BYTES)))
    return offsets[:size] - offsets[size:]


@dataclass(frozen=True)
class Poisson:
    """The Poisson distribution, as `dp.draw.rejection.sample_offsets` takes it: relative to its mode floor(rate).

    Attributes:
        rate: mean and variance, positive.
    """

    rate: Fraction

    @cached_property
    def mode(self) -> int:
        """floor(rate): a most probable value."""
        return math.floor(self.rate)

    @property
    def lowest(self) -> int:
        """The offset of the value 0."""
        return -self.mode

    @property
    def spread(self) -> int:
        """The standard deviation, rounded up."""
        return math.isqrt(self.mode) + 1

    def log_mass(self, offset: int, digits: int) -> tuple[Decimal, Decimal]:
        """Return bounds of ln(mass(mode + offset) / mass(mode)), 10**-digits / 5 apart.

        With m = mode, k = m + offset and any s >= 0, K = k + s, M = m + s:

            ln(mass(k) / mass(m)) = offset ln(rate) + ln m! - ln k!
            ln k! = ln K! - ln((k + 1) ... (k + s)),      ln m! likewise
            ln K! - ln M! = (K + 1/2) ln K - (M + 1/2) ln M - offset + S(K) - S(M)

        where Stirling's series S(n) = sum_i B_2i / (2i (2i - 1) n^(2i - 1)), cut anywhere, errs by less than the first
        term left out (the series envelops; DLMF 5.11(ii)). s lifts small k and m to where it converges fast enough.

        Rounding: every quantity computed is below `size` in magnitude, each operation of `decimal` is correctly
        rounded, and errors enter the result in fewer than 200 operations (the terms of the series shrink a hundredfold
        each), each multiplied by at most `size`: at most 100 * size * 10**(1 - precision) <= 10**-(digits + 2) in
        total. The two series err by at most 10**-(digits + 2) each.
        """
        m, k = self.mode, self.mode + offset
        shift = max(0, 2 * digits + 20 - min(m, k))
        lifted_m, lifted_k = m + shift, k + shift
        bits = max(lifted_m, lifted_k, self.rate.numerator, self.rate.denominator).bit_length()
        size = 2 * (lifted_m + lifted_k + abs(offset) + 2) * bits
        precision = digits + len(str(size)) + 5
        with localcontext(precise_context(precision)):
            half = Decimal("0.5")
            value = offset * precise_ln(self.rate, precision) + offset
            ln_m = precise_ln(Fraction(lifted_m), precision)
            value -= (lifted_k + half) * Decimal(lifted_k).ln() - (lifted_m + half) * ln_m
            value -= _stirling_series(lifted_k, digits + 2) - _stirling_series(lifted_m, digits + 2)
            if shift:
                value += (Decimal(math.perm(lifted_k, shift)) / Decimal(math.perm(lifted_m, shift))).ln()
            radius = Decimal(1).scaleb(-digits - 1)
            return value - radius, value + radius


def _stirling_series(n: int, digits: int) -> Decimal:
    """Return S(n) of `Poisson.log_mass`, cut where the first term left out is below 10**-digits. n > 2 * digits."""
    total, i, bound = Decimal(0), 1, Decimal(1).scaleb(-digits)
    while True:
        coefficient = _stirling_coefficient(i)
        term = Decimal(coefficient.numerator) / coefficient.denominator / Decimal(n) ** (2 * i - 1)
        if abs(term) < bound / 2:
            return total
        total, i = total + term, i + 1


@cache
def _stirling_coefficient(i: int) -> Fraction:
    return _bernoulli(2 * i) / (2 * i * (2 * i - 1))


@cache
def _bernoulli(n: int) -> Fraction:
    if n == 0:
        return Fraction(1)
    return -sum((math.comb(n + 1, k) * _bernoulli(k) for k in range(n)), Fraction(0)) / (n + 1)
