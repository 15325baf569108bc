"""The Skellam parameters that mechanisms choose from, and how far such noise reaches."""

import math
from collections.abc import Callable
from fractions import Fraction

from dp.cost.accounting import CalibrationError, check_delta, check_epsilon
from dp.draw.skellam import MAX_MU

_RUNG_BITS = 20
TOP_RUNG = (MAX_MU.bit_length() - 1 - _RUNG_BITS) << _RUNG_BITS


def rung(index: int) -> int:
    """Return noise parameter number `index`, 1 .. TOP_RUNG: even, strictly ascending from 2 to MAX_MU.

    All even numbers below 2^21, then those of 21 significant bits.
    """
    if index < 1 << _RUNG_BITS:
        return 2 * index
    octave, step = divmod(index, 1 << _RUNG_BITS)
    return ((1 << _RUNG_BITS) + step) << octave


def least_parameter(spends: Callable[[int], float], *, epsilon: float, delta: float) -> int:
    """Return the least parameter of `rung` whose epsilon at `delta` is at most `epsilon`.

    At most 2^-20 more than necessary. The coarse ladder makes planning quick, and makes it unlikely that two machines
    whose logarithms differ in the last bit plan differently.

    Args:
        spends: the epsilon at `delta` of a parameter; falls as it grows.
        epsilon: positive.
        delta: strictly between 0 and 1.

    Raises:
        CalibrationError: epsilon is not a positive finite number, delta not strictly between 0 and 1, or the noise
            would exceed the sampler's range.
    """
    check_delta(delta)
    check_epsilon(epsilon)
    too_little, enough = 0, TOP_RUNG
    if spends(rung(enough)) > epsilon:
        raise CalibrationError(
            f"epsilon {epsilon:g} at delta {delta:g} needs noise beyond the sampler's range (2^100 per party); "
            "allow a larger epsilon or a coarser scale of the data"
        )
    while enough - too_little > 1:
        middle = (too_little + enough) // 2
        if spends(rung(middle)) <= epsilon:
            enough = middle
        else:
            too_little = middle
    return rung(enough)


def tail_bound(mu: int, n_entries: int, log2_probability: float) -> int:
    """Return an integer that no entry of Skellam noise exceeds in magnitude, but with a stated probability.

    For Z ~ Sk(mu), v = 2 mu its variance, E exp(s Z) = exp(v (cosh s - 1)), and cosh s - 1 <= e^s - 1 - s for s >= 0: Z
    is dominated by a centred Poisson variable of the same variance, so Bernstein's inequality holds,
    P(Z >= x) <= exp(-x^2 / (2 (v + x / 3))). With two sides and all entries the probability is at most exp(-L) if
    x^2 >= 2 L' (v + x / 3), L' = L + ln(2 entries), which x = L' / 3 + sqrt(L'^2 / 9 + 2 v L') solves. Computed in
    integers, each step rounded up.

    Args:
        mu: largest parameter of any entry, all parties' noise together.
        n_entries: how many entries, over all releases.
        log2_probability: negative; -40 for a probability of at most 2^-40 over all entries together.
    """
    if not (math.isfinite(log2_probability) and log2_probability < 0):
        raise ValueError(f"the logarithm of a probability must be negative, not {log2_probability}")
    exponent = Fraction(-log2_probability * math.log(2) + math.log(2 * n_entries)) * (1 + Fraction(1, 2**48))
    third = exponent / 3
    return math.ceil(third) + math.isqrt(math.ceil(third**2 + 4 * mu * exponent)) + 1
