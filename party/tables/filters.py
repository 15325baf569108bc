"""Filters that an owner publishes: which rows of a table a job may ask for, `where = "adults"` of its input.

A filter is a list of conditions on declared columns, all of which must hold. Each looks at one value of one row, so a
row decides about itself alone, and neighbouring tables have neighbouring answers
(docs/decisions/047-filters-that-jobs-name.md). That is why it is a closed list and no expression, in which a rank or a
mean could hide.
"""

from collections.abc import Mapping
from datetime import date
from typing import TYPE_CHECKING, Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from analyses.job.job import Finite
from party.tables.kinds import CategoryKind, ColumnKind, DateKind, ListKind, NumberKind, YesNoKind
from party.tables.spelling.canonical import canonical
from service.settings import Settings

if TYPE_CHECKING:
    from party.tables.encoding import Encoding  # which loads polars; the configuration of a table is read without

Mask = NDArray[np.bool_]


class Condition(Settings):
    """What a value must be. A gap, and a value that is not of the column's kind, is never so.

    Attributes:
        at_least, below: bounds of a number, an integer or a date; one of them or both.
        one_of: values of a category or an ordinal, as texts of its list; for yes and no, `["yes"]` or `["no"]`.
    """

    at_least: Finite | date | None = None
    below: Finite | date | None = None
    one_of: Annotated[tuple[str, ...], Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _says_one_thing(self) -> Self:
        has_range = self.at_least is not None or self.below is not None
        if has_range == (self.one_of is not None):
            raise ValueError("a condition has at_least, below or both, or else one_of")
        return self

    def problem_with(self, kind: ColumnKind | None) -> str:
        """Return why it cannot be asked of a column of a kind, None standing for a number with bounds; or nothing."""
        if isinstance(kind, YesNoKind):
            return "" if self.one_of in (("yes",), ("no",)) else 'of yes and no, one_of must be ["yes"] or ["no"]'
        if isinstance(kind, ListKind):
            if self.one_of is None:
                return "of a category or an ordinal, one_of must be given"
            unknown = [text for text in self.one_of if canonical(text) not in kind.places]
            return f"one_of: {unknown[0]!r} is not among its values" if unknown else ""
        wanted = date if isinstance(kind, DateKind) else float
        if self.one_of is not None or any(not isinstance(end, wanted) for end in self._ends()):
            return f"at_least and below must be {'dates' if wanted is date else 'numbers'}"
        return ""

    def _places(self, kind: ListKind) -> list[int]:
        return [kind.places[canonical(text)] for text in self.one_of or ()]

    def _ends(self) -> list[float | date]:
        return [end for end in (self.at_least, self.below) if end is not None]

    def in_words(self, column: str) -> str:
        """Return it as text, which is public."""
        if self.one_of is not None:
            return f"{column} is {' or '.join(self.one_of)}"
        ends = [
            f"{word} {end}" for word, end in (("at least", self.at_least), ("below", self.below)) if end is not None
        ]
        return f"{column} is {' and '.join(ends)}"

    def holds_for(self, numbers: NDArray[np.float64], kind: ColumnKind | None = None) -> Mask:
        """Return for which numbers, or codes of dates, it holds, shape (rows,)."""
        holds = np.ones(len(numbers), dtype=np.bool_)
        if self.at_least is not None:
            holds &= numbers >= _code_of(self.at_least, kind)
        if self.below is not None:
            holds &= numbers < _code_of(self.below, kind)
        return holds

    def holds_of(self, name: str, kind: ColumnKind, encoding: "Encoding") -> Mask:
        """Return for which values of an encoded column it holds, shape (rows,)."""
        if isinstance(kind, CategoryKind):
            codes = [encoding.columns[f"{name}={kind.values[place]}"] for place in self._places(kind)]
            holds: Mask = np.logical_or.reduce([code > 0 for code in codes])
        elif isinstance(kind, YesNoKind):
            holds = encoding.columns[name] == float(self.one_of == ("yes",))
        elif isinstance(kind, ListKind):
            holds = np.isin(encoding.columns[name], self._places(kind))
        else:
            holds = self.holds_for(encoding.columns[name], kind)
        return holds & ~(encoding.gaps | encoding.others)


Filter = Annotated[dict[str, Condition], Field(min_length=1)]
"""Column of the owner's table to what its value must be; all of them must hold."""


def problem_with_filter(
    conditions: Mapping[str, Condition], bounds: Mapping[str, Any], kinds: Mapping[str, Any]
) -> str:
    """Return why a filter cannot be asked of a table with these columns; or nothing."""
    for column, condition in conditions.items():
        if column not in bounds and column not in kinds:
            return f"column {column!r} has neither bounds nor a kind"
        if problem := condition.problem_with(kinds.get(column)):
            return f"column {column!r}: {problem}"
    return ""


def filter_in_words(conditions: Mapping[str, Condition]) -> str:
    """Return a filter as text, which is public."""
    return ", and ".join(condition.in_words(column) for column, condition in conditions.items())


def _code_of(end: float | date, kind: ColumnKind | None) -> float:
    if isinstance(end, date):
        assert isinstance(kind, DateKind), "the configuration was checked"
        return float((end - kind.origin).days)
    assert kind is None or isinstance(kind, NumberKind), "the configuration was checked"
    return float(end)
