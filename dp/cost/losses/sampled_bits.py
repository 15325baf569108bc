"""The cost of randomized bits in the view of an observer who does not know which slots were sampled.

Each of N slots holds one unit or nobody; who is where is a secret random placement. k slots, a public number, are a
secret uniform sample; their bits are reported by randomized response, in random order. A unit sets n bits of its slot,
nobody sets none (`analyses.rows.slots`).
"""

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MAX_BITS = 8
"""Largest number of bits that a unit sets in its slot: one per party."""


def sampled_bits_rdp(truthful: Fraction, n_bits: int, share: Fraction, orders: NDArray[np.int64]) -> Floats:
    """Return the divergence between the reports about two tables that differ in the presence of one unit.

    Let x be the unit, and T the sampled slots but one, whose place is open. With probability s = k / N the open place
    is that of x; else that of another slot y outside T. T and y do not depend on whether x is there. Whoever sees the
    reports of T too, and knows T, x, y and which report is open, has to tell apart

        M  = (1 - s) R + s P       x is not there: P, the reports of an empty slot; R, those of y
        M' = (1 - s) R + s Q       x is there: Q, those of x.

    Renyi divergences are jointly quasi-convex, so the worst y bounds the cost. All bits are independent and only those
    that x or y set matter. y is nobody, or sets j of x's n bits and n - j others: n + 2 cases, each an exact sum over
    how many bits of each kind are reported as set. R is no empty slot in general, so this is more than the cost of a
    Poisson sample, whose R is P, and it is the larger of both directions. No tail of a sample's size is left over.

    Args:
        truthful: probability that a bit is reported as it is, 1/2 .. 1, both excluded.
        n_bits: n, 1 .. MAX_BITS.
        share: s, 0 < s <= 1.
        orders: integers, at least 2.

    Returns:
        same shape as `orders`, rounded up.

    Raises:
        ValueError: an argument is out of range.
    """
    if not Fraction(1, 2) < truthful < 1 or not 1 <= n_bits <= MAX_BITS or not 0 < share <= 1:
        raise ValueError(
            f"invalid event: {n_bits} bits, each truthful with probability {float(truthful):g}, in a sample of a "
            f"share {float(share):g}"
        )
    return _curve(truthful, n_bits, share, tuple(orders.tolist()))


@lru_cache(maxsize=64)
def _curve(truthful: Fraction, n_bits: int, share: Fraction, orders: tuple[int, ...]) -> Floats:
    from scipy.special import logsumexp  # slow to import, and few jobs need it

    order = np.array(orders, dtype=np.float64)
    found = np.zeros(len(order))
    largest = 0.0
    for log_mass, log_absent, log_present in outcomes(truthful, n_bits, share):
        for numerator, denominator in ((log_present, log_absent), (log_absent, log_present)):
            terms = log_mass + order[:, None] * numerator + (1 - order[:, None]) * denominator
            # Each logarithm below is wrong by 2^-48 of itself, or of what it was added up from, and order times so.
            parts = 2 + np.abs(numerator).max() + np.abs(denominator).max() - math.log(share)
            if share < 1:
                parts -= math.log(1 - share)
            size = np.abs(log_mass).max() + order * parts + 10
            found = np.maximum(found, (np.maximum(logsumexp(terms, axis=1), 0.0) + size * 2.0**-46) / (order - 1))
        largest = max(largest, float(np.abs(log_present - log_absent).max()) * (1 + 2.0**-40) + 2.0**-40)
    bounded: Floats = np.minimum(found, largest)
    bounded.setflags(write=False)
    return bounded


def outcomes(truthful: Fraction, n_bits: int, share: Fraction) -> Iterator[tuple[Floats, Floats, Floats]]:
    """Yield, for each kind of y, over all outcomes: ln P, and ln M - ln P and ln M' - ln P.

    Arguments are those of `sampled_bits_rdp`, in range.
    """
    from scipy.special import gammaln  # slow to import, and few jobs need it

    epsilon = math.log1p(float((2 * truthful - 1) / (1 - truthful)))  # accurate for a bias near 0 too
    log_share = math.log(share)
    log_rest = math.log(1 - share) if share < 1 else -math.inf
    for n_common in (None, *range(n_bits + 1)):
        n_other = 0 if n_common is None else n_bits - n_common
        n_first = n_bits if n_common is None else n_common  # bits of x that y sets too; any of them if y is nobody
        kinds = (n_first, n_bits - n_first, n_other)
        counts = np.meshgrid(*(np.arange(n + 1.0) for n in kinds), indexing="ij")
        first, only_x, only_y = (c.reshape(-1) for c in counts)
        log_mass = np.zeros(len(first))
        for n, count in zip(kinds, (first, only_x, only_y), strict=True):
            log_mass += gammaln(n + 1) - gammaln(count + 1) - gammaln(n - count + 1)
            log_mass += count * math.log(1 - truthful) + (n - count) * math.log(truthful)
        log_q = epsilon * (2 * (first + only_x) - n_bits)
        log_r = np.zeros(len(first)) if n_common is None else epsilon * (2 * (first + only_y) - n_bits)
        absent = np.logaddexp(log_rest + log_r, log_share)
        present = np.logaddexp(log_rest + log_r, log_share + log_q)
        yield log_mass, absent, present
