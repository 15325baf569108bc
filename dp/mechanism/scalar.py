"""Additive noise of one party on a vector of its own. There is no way to write a mechanism here without its cost.

`Mechanism` cannot be instantiated without `event`, and `draw` is final and refuses an event of unknown
class, which has no cost. A subclass states how to draw and what it costs, side by side.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from dp.cost.accounting import Adjacency, AdjacencyError
from dp.cost.calibrate import Ladder, least_noise, remembered
from dp.cost.composition import composed_epsilon
from dp.cost.events.discrete_gaussian import DiscreteGaussianDpEvent, DiscreteGaussianShiftsDpEvent
from dp.cost.events.discrete_laplace import DiscreteLaplaceDpEvent
from dp.cost.events.event import PrivacyEvent, renyi_curve
from dp.cost.events.skellam import SkellamDpEvent, SkellamShiftsDpEvent
from dp.cost.views import ADJACENCY, View
from dp.draw.noise import MAX_SCALE, sample_discrete_gaussian, sample_discrete_laplace
from dp.draw.skellam import MAX_MU, sample_skellam
from dp.mechanism.vector import shifts_of, skellam_event
from entropy import Entropy

Integers = NDArray[np.int64]


class Mechanism(ABC):
    """Adds independent integer noise to an integer vector of public length."""

    length: int

    @property
    @abstractmethod
    def event(self) -> PrivacyEvent:
        """What one release costs."""

    @abstractmethod
    def _draw(self, entropy: Entropy) -> Integers:
        """Draw `length` integers of the distribution that `event` is about."""

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        if "draw" in cls.__dict__:
            raise TypeError(f"{cls.__name__} must not replace `draw`: noise would come without its cost")

    def events(self, view: View) -> tuple[PrivacyEvent]:
        """Return what one release costs.

        Raises:
            AdjacencyError: the sensitivities are for other neighbours than those of the view.
        """
        if self.event.adjacency is not ADJACENCY[view]:
            raise AdjacencyError(f"the sensitivities of {type(self).__name__} are not for the view of the {view}")
        return (self.event,)

    @final
    def draw(self, entropy: Entropy) -> Integers:
        """Draw the noise of one release, shape (length,). Secret until it is added.

        Raises:
            TypeError: the cost of the release is unknown.
        """
        renyi_curve(self.event)
        return self._draw(entropy)


@dataclass(frozen=True)
class _AdditiveNoise(Mechanism):
    length: int
    squared_l2: int
    l1: int
    parameter: int
    adjacency: Adjacency

    def __post_init__(self) -> None:
        if self.length < 1 or self.squared_l2 < 0 or self.l1 < 0:
            raise ValueError("a release needs at least one number, and its sensitivities must not be negative")
        if not 1 <= self.parameter <= self._most():
            raise ValueError(f"a noise parameter of {self.parameter} is outside 1..{self._most()}")

    @classmethod
    @abstractmethod
    def _most(cls) -> int:
        """Return the largest parameter that can be drawn."""

    @classmethod
    @remembered
    def calibrate(
        cls, *, length: int, squared_l2: int, l1: int, adjacency: Adjacency, epsilon: float, delta: float
    ) -> Self:
        """Return the mechanism with the least integer parameter whose epsilon at `delta` is at most `epsilon`.

        Args:
            length: numbers released.
            squared_l2: largest squared Euclidean distance of the vectors of neighbouring tables.
            l1: largest sum of the absolute differences.
            adjacency: which tables are neighbours.
            epsilon: positive.
            delta: strictly between 0 and 1.

        Raises:
            CalibrationError: epsilon or delta is out of range, or the noise would exceed the sampler's range.
        """

        def spends(parameter: int) -> float:
            made = cls(length, squared_l2, l1, parameter, adjacency)
            return composed_epsilon((made.event,), delta, near=epsilon).epsilon

        parameter = least_noise(spends, Ladder(cls._most()), epsilon=epsilon, delta=delta)
        return cls(length, squared_l2, l1, parameter, adjacency)


@dataclass(frozen=True)
class SkellamNoise(_AdditiveNoise):
    """Sk(parameter) on each coordinate, variance twice the parameter. Bound: `SkellamDpEvent.curve`."""

    @classmethod
    def _most(cls) -> int:
        return MAX_MU

    @property
    def event(self) -> SkellamDpEvent | SkellamShiftsDpEvent:
        """How far numbers move, where that is known; else squares and sizes, over the parameter and its square."""
        return skellam_event(self.squared_l2, self.l1, self.length, Fraction(self.parameter), self.adjacency)

    def _draw(self, entropy: Entropy) -> Integers:
        return sample_skellam(entropy, self.parameter, self.length)


@dataclass(frozen=True)
class DiscreteGaussianNoise(_AdditiveNoise):
    """Discrete Gaussian noise of variance `parameter` on each coordinate [CKS20]."""

    @classmethod
    def _most(cls) -> int:
        return MAX_SCALE**2

    @property
    def event(self) -> DiscreteGaussianDpEvent | DiscreteGaussianShiftsDpEvent:
        """How far numbers move, where that is known; else the squared sensitivity over the variance."""
        squares, sizes = self.squared_l2, self.l1
        if squares and sizes and (moved := shifts_of(squares, sizes, self.length)) is not None:
            return DiscreteGaussianShiftsDpEvent(*moved, Fraction(self.parameter), self.adjacency)
        return DiscreteGaussianDpEvent(Fraction(self.squared_l2, self.parameter), self.adjacency)

    def _draw(self, entropy: Entropy) -> Integers:
        return sample_discrete_gaussian(entropy, self.parameter, self.length)


@dataclass(frozen=True)
class DiscreteLaplaceNoise(_AdditiveNoise):
    """Discrete Laplace noise of scale `parameter` on each coordinate: also (l1 / parameter)-private with delta 0."""

    @classmethod
    def _most(cls) -> int:
        return MAX_SCALE

    @property
    def event(self) -> DiscreteLaplaceDpEvent:
        """The L1 sensitivity and the scale."""
        return DiscreteLaplaceDpEvent(self.l1, Fraction(self.parameter), self.adjacency)

    @property
    def pure_epsilon(self) -> Fraction:
        """Its epsilon at delta 0."""
        return Fraction(self.l1, self.parameter)

    def _draw(self, entropy: Entropy) -> Integers:
        return sample_discrete_laplace(entropy, self.parameter, self.length)
