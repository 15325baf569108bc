"""The Skellam parameters that mechanisms choose from, and how far such noise reaches."""

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import TypeVar

from dp.cost.calibrate import Ladder, least_noise
from dp.cost.composition import composed_epsilon
from dp.cost.views import View
from dp.draw.skellam import MAX_MU
from dp.mechanism.release import Release

R = TypeVar("R", bound=Release)

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


LOG2_WRAP_PROBABILITY = -40
"""Fields and rings hold all noise but with probability below 2^-40. Privacy does not depend on it."""

SKELLAM_LADDER = Ladder(TOP_RUNG, rung, " (2^100 per party)")
"""At most 2^-20 more than necessary is chosen. The coarse ladder makes planning quick, and makes it unlikely that two
machines whose logarithms differ in the last bit plan differently."""


def least_noisy(
    make: Callable[[int], R], views: Iterable[View], *, epsilon: float, delta: float, ladder: Ladder = SKELLAM_LADDER
) -> R:
    """Return the release with the least noise of a ladder whose epsilon at `delta` is at most `epsilon`.

    Args:
        make: the release with a noise parameter.
        views: views in each of which that holds.
        epsilon: positive.
        delta: strictly between 0 and 1.
        ladder: noise parameters to choose from.

    Raises:
        CalibrationError: epsilon or delta is out of range, or the noise would exceed the sampler's range.
    """
    targets = tuple(views)

    def spends(parameter: int) -> float:
        made = make(parameter)
        return max(composed_epsilon(made.events(view), delta, near=epsilon).epsilon for view in targets)

    return make(least_noise(spends, ladder, epsilon=epsilon, delta=delta))


def tail_bound(mu: int | Fraction, n_entries: int, log2_probability: float) -> int:
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
