"""Which of several numbers are larger than noise alone would make any of them."""

from collections.abc import Sequence
from statistics import NormalDist

ALL_OF = 0.05
"""Probability that noise alone makes at least one of the numbers look like a finding."""


def deviations_beyond_noise(n: int) -> float:
    """Return the standard errors above which the largest of n numbers is a finding (Bonferroni, two-sided)."""
    return NormalDist().inv_cdf(1 - ALL_OF / (2 * max(n, 1)))


def beyond_noise(values: Sequence[float], standard_errors: Sequence[float | None]) -> list[bool]:
    """Return which numbers are larger in size than noise alone makes any of them, in 19 of 20 cases.

    Args:
        values: the numbers, which are compared with 0.
        standard_errors: standard errors of the numbers; a number without one is no finding.
    """
    limit = deviations_beyond_noise(len(values))
    return [
        error is not None and abs(value) > limit * error for value, error in zip(values, standard_errors, strict=True)
    ]
