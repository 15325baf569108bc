"""What releases about one table cost together: the smaller of what their Renyi curves and their loss distributions say.

A cost knows whom it protects: the neighbouring relation and the unit. Costs about different ones cannot be added.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache, reduce
from typing import Self

import numpy as np

from dp.cost.accounting import (
    ORDERS,
    Adjacency,
    AdjacencyError,
    CalibrationError,
    EpsilonBound,
    Floats,
    check_delta,
    check_epsilon,
    delta_of_rdp,
    epsilon_of_rdp,
)
from dp.cost.composition import MOST_DIFFERENT, delta_of, epsilon_of
from dp.cost.events import PrivacyEvent, renyi_curve


class UnitError(ValueError):
    """Costs about different protected units were composed."""


class Unit(Enum):
    """Whose contribution neighbouring tables differ in."""

    RECORD = "record"
    PERSON = "person"
    PARTY = "party"


@dataclass(frozen=True)
class Neighbours:
    """Which tables must be hard to tell apart."""

    adjacency: Adjacency
    unit: Unit


@dataclass(frozen=True, eq=False)
class Cost:
    """What one release costs, or several of a fixed plan.

    Attributes:
        neighbours: whom it protects.
        n_events: how many releases.
        curve: at each of `dp.cost.accounting.ORDERS`, a floating-point sum of the Renyi curves.
        events: how often each different release is made; None beyond `dp.cost.composition.MOST_DIFFERENT`, where the
        curve
            alone says what they cost.
    """

    neighbours: Neighbours
    n_events: int
    curve: Floats = field(repr=False)
    events: Mapping[PrivacyEvent, int] | None = field(repr=False)

    @classmethod
    def of(cls, event: PrivacyEvent, unit: Unit) -> Self:
        """Return the cost of one release.

        Args:
            event: what was released, with its adjacency.
            unit: what the sensitivities in the event were computed for.

        Raises:
            TypeError: the cost of such an event is unknown.
        """
        return cls(Neighbours(event.adjacency, unit), 1, _curve(event), {event: 1})

    def __add__(self, other: "Cost") -> "Cost":
        """Return the cost of both.

        Raises:
            AdjacencyError, UnitError: they protect different things.
        """
        mine, theirs = self.neighbours, other.neighbours
        if mine.adjacency is not theirs.adjacency:
            raise AdjacencyError(
                f"a composition has one neighbouring relation, not {mine.adjacency.value} and {theirs.adjacency.value}"
            )
        if mine.unit is not theirs.unit:
            raise UnitError(f"a composition has one protected unit, not {mine.unit.value} and {theirs.unit.value}")
        events: Counter[PrivacyEvent] | None = None
        if self.events is not None and other.events is not None:
            events = Counter(self.events)
            events.update(other.events)
            events = events if len(events) <= MOST_DIFFERENT else None
        return Cost(mine, self.n_events + other.n_events, self.curve + other.curve, events)

    def times(self, n_times: int) -> "Cost":
        """Return the cost of `n_times` such releases with fresh noise each, at least one."""
        if n_times < 1:
            raise ValueError(f"a release cannot be made {n_times} times")
        events = None if self.events is None else {event: n * n_times for event, n in self.events.items()}
        return Cost(self.neighbours, self.n_events * n_times, self.curve * n_times, events)

    def epsilon(self, delta: float, *, near: float | None = None) -> EpsilonBound:
        """Return the epsilon at `delta`.

        Args:
            delta: strictly between 0 and 1.
            near: see `dp.cost.composition.composed_epsilon`.

        Raises:
            CalibrationError: delta is out of range.
        """
        check_delta(delta)
        return self.renyi_epsilon(delta) if self.events is None else epsilon_of(self.events, delta, near=near)

    def renyi_epsilon(self, delta: float) -> EpsilonBound:
        """Return the epsilon that the Renyi curve alone gives: quicker, never less, and what ledgers compose.

        Raises:
            CalibrationError: delta is out of range.
        """
        return epsilon_of_rdp(self.curve, self.n_events, delta)

    def delta(self, epsilon: float) -> float:
        """Return the delta at `epsilon`, rounded up.

        Raises:
            CalibrationError: epsilon is out of range.
        """
        if self.events is None:
            return delta_of_rdp(self.curve, self.n_events, epsilon)
        return delta_of(self.events, epsilon)


def compose(costs: Iterable[Cost]) -> Cost:
    """Return the cost of all releases together, at least one.

    Raises:
        AdjacencyError, UnitError: they protect different things.
    """
    return reduce(Cost.__add__, costs)


def least_noise(cost_of: Callable[[int], Cost], *, epsilon: float, delta: float, most: int) -> int:
    """Return the least noise parameter 1 .. most whose cost at `delta` is at most `epsilon`.

    Args:
        cost_of: the cost of a noise parameter; falls as it grows.
        epsilon: positive.
        delta: strictly between 0 and 1.
        most: largest parameter that can be drawn.

    Raises:
        CalibrationError: epsilon or delta is out of range, or no parameter suffices.
    """
    check_epsilon(epsilon)
    check_delta(delta)
    if cost_of(most).epsilon(delta, near=epsilon).epsilon > epsilon:
        raise CalibrationError(
            f"epsilon {epsilon:g} at delta {delta:g} needs noise beyond the sampler's range; "
            "allow a larger epsilon or a coarser scale of the data"
        )
    too_little, enough = 0, most
    while enough - too_little > 1:
        middle = (too_little + enough) // 2
        if cost_of(middle).epsilon(delta, near=epsilon).epsilon <= epsilon:
            enough = middle
        else:
            too_little = middle
    return enough


def most_releases(cost: Cost, *, epsilon: float, delta: float) -> int:
    """Return how many releases of this cost stay within (epsilon, delta); 0 if not even one does.

    Raises:
        CalibrationError: epsilon or delta is out of range, or the release costs nothing.
    """
    check_epsilon(epsilon)
    check_delta(delta)
    if not np.any(cost.curve):
        raise CalibrationError("a release that costs nothing can be made without end")
    allowed, too_many = 0, 1
    while cost.times(too_many).epsilon(delta, near=epsilon).epsilon <= epsilon:
        allowed, too_many = too_many, 2 * too_many
    while too_many - allowed > 1:
        middle = (allowed + too_many) // 2
        if cost.times(middle).epsilon(delta, near=epsilon).epsilon <= epsilon:
            allowed = middle
        else:
            too_many = middle
    return allowed


@lru_cache(maxsize=1024)
def _curve(event: PrivacyEvent) -> Floats:
    curve = renyi_curve(event)
    if curve.shape != ORDERS.shape:
        raise ValueError("a curve has one divergence for each order")
    curve.setflags(write=False)
    return curve
