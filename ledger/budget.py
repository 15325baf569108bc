"""A privacy budget: a bound on the privacy loss of one unit of a table within a period."""

import math
import sys
from dataclasses import dataclass

MAX_CHARACTERS = 200


class BudgetError(ValueError):
    """The privacy budget is not valid; the text names the field."""

    code: str = "budget-invalid"


@dataclass(frozen=True)
class Budget:
    """The privacy budget that an owner sets for one table.

    Attributes:
        unit: what is protected, in the words of the analyses, for instance "record of the joint table". A job that
            protects another unit is refused.
        period: a name that the owner chooses, for instance "2026-Q4". What was spent belongs to a period; a new name
            starts at zero, an old one goes on where it was left. No clock starts or ends a period.
        epsilon: may be reached, not passed, by all jobs of the period together, however they were chosen, in every view
            that the unit is promised something in; against a coalition of as many as each of the jobs withstands.
        delta: delta at which that epsilon is stated. Below 1 / (number of rows), which only the party can check.
    """

    unit: str
    period: str
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        for name in ("unit", "period"):
            text = getattr(self, name)
            if not isinstance(text, str) or not text.isprintable() or not 0 < len(text.strip()) <= MAX_CHARACTERS:
                raise BudgetError(f"{name}: must be 1 to {MAX_CHARACTERS} printable characters")
        object.__setattr__(self, "epsilon", _positive("epsilon", self.epsilon))
        object.__setattr__(self, "delta", _positive("delta", self.delta))
        if self.delta >= 1:
            raise BudgetError(f"delta: must be below 1, got {self.delta:g}")


def _positive(name: str, value: object) -> float:
    """Return a positive normal float; subnormal numbers are refused, because they have lost digits."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BudgetError(f"{name}: must be a number, got {value!r}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise BudgetError(f"{name}: must be finite, got {number}")
    if number < sys.float_info.min:
        raise BudgetError(f"{name}: must be positive and not a subnormal number, got {number!r}")
    return number
