"""Kinds of columns, `[tables.columns]` of `party.toml`: what a column's values are, and the numbers they become.

Everything here is public and declared by the owner: kinds, bounds, lists of values, rules for gaps. A column becomes
one encoded column or several, each with bounds, and several are a group: in each row at most one of them is away from
its lower bound (`ColumnSchema.group`). `party.tables.encoding` keeps to that whatever the values are.

| kind | encoded columns | where the value stands |
| --- | --- | --- |
| number, integer | itself | the number |
| yes/no | itself, bounds 0 and 1 | 1 for yes |
| category | `NAME=VALUE` for each value, and `NAME=other` with `others = "other"`, bounds 0 and 1 | 1 in one of them |
| ordinal | itself, bounds 0 and the number of values less 1 | the place in the list |
| date | itself | days since `since` |

With `missing = "column"` there is `NAME=missing`, 1 where the value is missing; others are then at their lower bound.
"""

from abc import ABC, abstractmethod
from datetime import date
from typing import Annotated, Literal, Self

from pydantic import Field, StrictStr, model_validator

from analyses.job.job import Finite
from analyses.job.schema import ColumnSchema
from service.settings import Settings

MAX_VALUES = 1000
"""Most values of a category or of an ordinal column."""

MISSING, OTHER = "missing", "other"

Text = Annotated[StrictStr, Field(min_length=1)]


class Constant(Settings):
    """A public value that stands for gaps: `missing = { value = ... }`.

    Attributes:
        value: in the units of the column, or one of its list.
    """

    value: float | date | str


class ColumnKind(Settings, ABC):
    """What the values of a column are.

    Attributes:
        missing: what a gap becomes. `refuse`: a table with one serves no job on this column. `column`: 1 in a column of
            its own. Or a public constant, chosen without a look at the data.
        others: what a value becomes that is not of the kind: `refuse`, or like a gap, `missing`.
        gaps: texts that mean a gap besides an empty value, such as "NA" or "?".
    """

    missing: Literal["refuse", "column"] | Constant = "refuse"
    others: Literal["refuse", "missing"] = "refuse"
    gaps: tuple[Text, ...] = ()

    @model_validator(mode="after")
    def _others_have_a_rule(self) -> Self:
        if self.others == MISSING and self.missing == "refuse":
            raise ValueError('others: "missing" needs a rule for gaps, but missing = "refuse"')
        if isinstance(self.missing, Constant) and self.code_of_constant(self.missing.value) is None:
            raise ValueError("missing.value: must be a value of the column, within its bounds or in its list")
        return self

    @property
    @abstractmethod
    def bounds_of_code(self) -> tuple[float, float]:
        """Bounds of the number that a value becomes; of a category, of its place in the list of indicators."""

    @abstractmethod
    def code_of_constant(self, value: float | date | str) -> float | None:
        """Return the number that a declared constant becomes; None if it is no value of the column."""

    def indicators(self, name: str) -> tuple[str, ...] | None:
        """Return the names of the columns of a category, in the order of their codes; None where one holds the code."""
        return None

    def encoded(self, name: str) -> tuple[ColumnSchema, ...]:
        """Return the public columns that a column of the table becomes.

        Raises:
            ValidationError: a name or the bounds are not as they must be.
        """
        lower, upper = self.bounds_of_code
        indicators = self.indicators(name)
        columns = [(name, lower, upper)] if indicators is None else [(one, 0.0, 1.0) for one in indicators]
        if self.missing == "column":
            columns.append((f"{name}={MISSING}", 0.0, 1.0))
        group = name if indicators is not None or len(columns) > 1 else None
        return tuple(ColumnSchema(name=one, lower=low, upper=high, group=group) for one, low, high in columns)


class NumberKind(ColumnKind):
    """A number.

    Attributes:
        kind: says that it is one.
        bounds: what lies outside is clipped.
    """

    kind: Literal["number"]
    bounds: tuple[Finite, Finite]

    @property
    def bounds_of_code(self) -> tuple[float, float]:
        """See `ColumnKind`."""
        return self.bounds

    def code_of_constant(self, value: float | date | str) -> float | None:
        """See `ColumnKind`."""
        is_within = isinstance(value, int | float) and self.bounds[0] <= value <= self.bounds[1]
        return float(value) if is_within and isinstance(value, int | float) else None


class IntegerKind(NumberKind):
    """A whole number; one with a fraction is not of the kind.

    Attributes:
        kind: says that it is one.
    """

    kind: Literal["integer"]  # type: ignore[assignment]

    def code_of_constant(self, value: float | date | str) -> float | None:
        """See `ColumnKind`."""
        code = super().code_of_constant(value)
        return code if code is not None and code.is_integer() else None


class YesNoKind(ColumnKind):
    """A truth value: 1 for yes, 0 for no.

    Attributes:
        kind: says that it is one.
        yes, no: texts that mean so, in capitals or not. Truth values of the source, 1 and 0 are understood, too.
    """

    kind: Literal["yes/no"]
    yes: tuple[Text, ...] = ("yes", "true", "1")
    no: tuple[Text, ...] = ("no", "false", "0")

    @model_validator(mode="after")
    def _yes_is_not_no(self) -> Self:
        both = {text.lower() for text in self.yes} & {text.lower() for text in self.no}
        if both or not self.yes or not self.no:
            raise ValueError("yes, no: each needs at least one text, and none may mean both")
        return self

    @property
    def bounds_of_code(self) -> tuple[float, float]:
        """See `ColumnKind`."""
        return 0.0, 1.0

    @property
    def codes(self) -> dict[str, int]:
        """Text in small letters to its number."""
        return {text.lower(): 1 for text in self.yes} | {text.lower(): 0 for text in self.no}

    def code_of_constant(self, value: float | date | str) -> float | None:
        """See `ColumnKind`."""
        text = f"{value:g}" if isinstance(value, int | float) else str(value)
        code = {"1": 1, "0": 0, **self.codes}.get(text.lower())
        return None if code is None else float(code)


class ListKind(ColumnKind, ABC):
    """A column whose values stand in a public list.

    Attributes:
        values: the list: texts, as they stand in the table.
    """

    values: Annotated[tuple[Text, ...], Field(min_length=2, max_length=MAX_VALUES)]

    @model_validator(mode="after")
    def _values_are_distinct(self) -> Self:
        if len(set(self.values)) < len(self.values):
            raise ValueError("values: the same value appears more than once")
        if any(value != value.strip() for value in self.values):
            raise ValueError("values: must not begin or end with a space, which is taken off the table's values")
        return self

    @property
    def bounds_of_code(self) -> tuple[float, float]:
        """See `ColumnKind`."""
        return 0.0, float(len(self.values) - 1)

    def code_of_constant(self, value: float | date | str) -> float | None:
        """See `ColumnKind`."""
        return float(self.values.index(value)) if isinstance(value, str) and value in self.values else None


class OrdinalKind(ListKind):
    """One of some values that have an order: its place in the list, 0 for the first.

    Attributes:
        kind: says that it is one.
    """

    kind: Literal["ordinal"]


class CategoryKind(ListKind):
    """One of some values without an order: an indicator for each.

    Attributes:
        kind: says that it is one.
        others: what a value becomes that is not in the list; with `other` 1 in a column of its own.
    """

    kind: Literal["category"]
    others: Literal["refuse", "missing", "other"] = "refuse"  # type: ignore[assignment]

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        if self.others == OTHER and OTHER in self.values:
            raise ValueError('values: "other" stands for all values that are not in the list')
        if self.missing == "column" and MISSING in self.values:
            raise ValueError('values: "missing" stands for gaps, which have a column of that name')
        return self

    def indicators(self, name: str) -> tuple[str, ...]:
        """See `ColumnKind`."""
        values = self.values + ((OTHER,) if self.others == OTHER else ())
        return tuple(f"{name}={value}" for value in values)


class DateKind(ColumnKind):
    """A date, as days since another one; of a time, its day.

    Attributes:
        kind: says that it is one.
        bounds: the first and the last date; what lies outside is clipped.
        since: the day that is 0; the first date where absent.
        format: of dates in text, as `strftime` writes it.
    """

    kind: Literal["date"]
    bounds: tuple[date, date]
    since: date | None = None
    format: Text = "%Y-%m-%d"

    @property
    def origin(self) -> date:
        """The day that is 0."""
        return self.bounds[0] if self.since is None else self.since

    @property
    def bounds_of_code(self) -> tuple[float, float]:
        """See `ColumnKind`."""
        return float((self.bounds[0] - self.origin).days), float((self.bounds[1] - self.origin).days)

    def code_of_constant(self, value: float | date | str) -> float | None:
        """See `ColumnKind`."""
        if not isinstance(value, date) or not self.bounds[0] <= value <= self.bounds[1]:
            return None
        return float((value - self.origin).days)


AnyColumnKind = Annotated[
    NumberKind | IntegerKind | YesNoKind | OrdinalKind | CategoryKind | DateKind, Field(discriminator="kind")
]
