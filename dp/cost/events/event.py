"""A privacy event: what one release does to privacy. Each kind has a file of its own beside this one.

An event holds everything that its cost depends on, exactly, and its neighbouring relation. A new kind needs its file
and one line in `dp.cost.events.record`.
"""

from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dp.cost.accounting import ORDERS, Adjacency, Floats
from dp.cost.losses.pairs import PairLosses

GaussianTerms = tuple[Fraction, Fraction, int]
"""Bounds of a release with noise of variances 2 mu_i: bound of sum d_i^2 / mu_i, least mu_i, how many numbers move."""


class PrivacyEvent:
    """What a release does to privacy. Immutable and hashable.

    Not the class `DpEvent` of `dp_accounting`, whose accountants know none of ours, and which takes longer to import
    than all else that a service imports.

    Attributes:
        word: name of the kind in a ledger's records; never changed.
        bounds: names of the fields that the curve depends on, where the relation of neighbours is not among them.
    """

    __slots__ = ()

    word: ClassVar[str] = ""
    bounds: ClassVar[tuple[str, ...]] = ()

    @property
    def adjacency(self) -> Adjacency:
        """The neighbouring relation."""
        raise TypeError(f"the relation of an event of class {type(self).__name__} is unknown")

    def curve(self, orders: NDArray[np.int64]) -> Floats:
        """Return the Renyi divergence bound at each order, rounded up; callers use `renyi_curve`.

        Args:
            orders: integers, at least 2.

        Raises:
            TypeError: the cost of this kind is unknown.
        """
        raise TypeError(f"the cost of an event of class {type(self).__name__} is unknown")

    def losses(self) -> tuple[PairLosses, ...] | None:
        """Return pairs of which at least one is as bad as any neighbours, or None where no such pair is known.

        One pair for nearly all events; where there are several, the largest of their hockey-stick divergences bounds
        the event's.
        """
        return None

    def of_rows(self, most_rows: int) -> "PrivacyEvent":
        """Return what the release costs a unit of which at most so many rows count; callers use `dp.cost.group`.

        Raises:
            TypeError: this is not proven for the noise of this kind.
        """
        raise TypeError(f"the cost of several rows is not known for an event of class {type(self).__name__}")

    @property
    def gaussian_terms(self) -> GaussianTerms | None:
        """What `dp.cost.losses.rounded_gaussian` needs of a release; None where it proves nothing of the noise."""
        return None

    @property
    def unsampled(self) -> "tuple[PrivacyEvent, int]":
        """A release and how often it is made: what costs no less, as it is about everybody instead of samples."""
        return self, 1


def renyi_curve(event: PrivacyEvent, orders: NDArray[np.int64] = ORDERS) -> Floats:
    """Return the Renyi divergence bound of an event at each order.

    A plan, its report and a ledger ask for the curve of one event many times: those at `ORDERS` are kept.

    Args:
        event: event of a known class.
        orders: integers, at least 2.

    Returns:
        same shape as `orders`, rounded up; not to be written to.

    Raises:
        TypeError: an event of another class: its cost is unknown.
    """
    return _curve_at_orders(event) if orders is ORDERS else event.curve(orders)


@lru_cache(maxsize=512)
def _curve_at_orders(event: PrivacyEvent) -> Floats:
    curve = event.curve(ORDERS)
    curve.setflags(write=False)
    return curve


def differs_in_neighbours_only(one: PrivacyEvent, other: PrivacyEvent) -> bool:
    """Whether two events have the same curve because they differ in their neighbouring relation at most.

    False where that is not known: the curve of a sketch, for instance, depends on the relation.
    """
    return (
        type(one) is type(other)
        and bool(one.bounds)
        and all(getattr(one, name) == getattr(other, name) for name in one.bounds)
    )


def check_shifts(shift: int, n_shifts: int, parameter: Fraction) -> None:
    """Refuse an event of few numbers that move.

    Raises:
        ValueError: nothing moves, or there is no noise.
    """
    if shift < 1 or n_shifts < 1 or parameter <= 0:
        raise ValueError(f"invalid event: {n_shifts} numbers that move by {shift}, with noise of parameter {parameter}")
