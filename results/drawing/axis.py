"""Axes: from numbers to places, and the numbers that stand beside them."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from results.drawing.chart import shown

_FEW_DECADES = 2


@dataclass(frozen=True)
class Axis:
    """A range of numbers.

    Attributes:
        lower: its lower end.
        upper: its upper end, larger.
        is_log: whether equal distances are equal factors; both ends are then positive.
    """

    lower: float
    upper: float
    is_log: bool = False

    @classmethod
    def over(cls, values: Iterable[float], *, margin: float = 0.06, has_zero: bool = False) -> "Axis":
        """Return a linear axis over all finite values, and zero if it is wanted, with a margin beside other ends."""
        found = [value for value in values if math.isfinite(value)] + ([0.0] if has_zero else [])
        lower, upper = min(found, default=0.0), max(found, default=1.0)
        if lower == upper:
            lower, upper = min(lower, 0.0), max(upper, 0.0)
        if lower == upper:
            upper = 1.0
        room = margin * (upper - lower)
        return cls(
            lower if has_zero and lower == 0 else lower - room, upper if has_zero and upper == 0 else upper + room
        )

    @classmethod
    def over_factors(cls, values: Iterable[float]) -> "Axis":
        """Return a logarithmic axis over all positive values, with a margin."""
        found = [value for value in values if math.isfinite(value) and value > 0] or [1.0]
        return cls(min(found) / 2, 2 * max(found), is_log=True)

    def place(self, value: float) -> float:
        """Return where a value lies, 0 at the lower end and 1 at the upper; values beyond an end lie there."""
        if self.is_log:
            part = math.log(max(value, self.lower) / self.lower) / math.log(self.upper / self.lower)
        else:
            part = (value - self.lower) / (self.upper - self.lower)
        return min(max(part, 0.0), 1.0)

    def ticks(self, most: int) -> list[tuple[float, str]]:
        """Return round numbers in the range and their texts, at most so many and at least one where there is one."""
        return [(value, shown(value)) for value in (self._factors(most) if self.is_log else self._steps(most))]

    def _steps(self, most: int) -> list[float]:
        rough = (self.upper - self.lower) / most
        unit = 10.0 ** math.floor(math.log10(rough))
        step = next(factor * unit for factor in (1, 2, 5, 10, 20) if factor * unit >= rough)
        first, last = math.ceil(self.lower / step), math.floor(self.upper / step)
        return [float(f"{number * step:.12g}") for number in range(first, last + 1)]

    def _factors(self, most: int) -> list[float]:
        first, last = math.ceil(math.log10(self.lower)), math.floor(math.log10(self.upper))
        if last - first < _FEW_DECADES:
            found = [factor * 10.0**at for at in range(first - 1, last + 1) for factor in (1, 2, 5)]
        else:
            found = [10.0**at for at in range(first, last + 1, -(-(last - first + 1) // most))]
        return [float(f"{value:.12g}") for value in found if self.lower <= value <= self.upper]
