"""How changes are drawn, and what a sample says of all changes."""

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

QUANTILE = 1.96
"""Normal quantile of an interval that contains the true rate in 95 of 100 samples."""


def drawn(changes: Sequence[T], seed: int, size: int, skip: int = 0) -> list[T]:
    """Return `size` changes without repetition, each as likely as any other, after the `skip` first of the same seed.

    So two runs of one seed, the second with the size of the first as `skip`, are one sample of both sizes together.
    """
    order = list(changes)
    random.Random(seed).shuffle(order)
    return order[skip : skip + size]


def interval(n_noticed: int, n_tried: int) -> tuple[float, float]:
    """Return the 95 % confidence interval of a rate (Wilson's: it stays within 0 and 1)."""
    rate, z2 = n_noticed / n_tried, QUANTILE**2
    middle = (rate + z2 / (2 * n_tried)) / (1 + z2 / n_tried)
    spread = QUANTILE * (rate * (1 - rate) / n_tried + z2 / (4 * n_tried**2)) ** 0.5 / (1 + z2 / n_tried)
    return middle - spread, middle + spread
