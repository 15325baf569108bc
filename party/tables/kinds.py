"""Kinds of columns, `[tables.columns]` of `party.toml`: what a column's values are, and the numbers they become.

Everything here is public and declared by the owner: kinds, bounds, lists of values, rules for gaps. A column becomes
one encoded column or several, each with bounds, and several are a group: in each row at most one of them is away from
its lower bound (`ColumnSchema.group`). `party.tables.encoding` keeps to that whatever the values are.

| kind | encoded columns | where the value stands |
| --- | --- | --- |
| number, integer | itself | the number |
| yes/no | itself, bounds 0 and 1 | 1 for yes |
| category | `NAME=VALUE` for each value, and `NAME=other` with `others = "other"`, bounds 0 and 1 | 1 in one of them |
| bins | as a category whose values are intervals, `NAME=18..65` | 1 in the one that it lies in |
| ordinal | itself, bounds 0 and the number of values less 1 | the place in the list |
| date | itself | days since `since` |

With `missing = "column"` there is `NAME=missing`, 1 where the value is missing; others are then at their lower bound.
"""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any, Literal, Self

from pydantic import Field, StrictStr, model_validator

from analyses.job.job import Finite
from analyses.job.schema import ColumnSchema
from party.tables.spelling.canonical import canonical, check_list, of_number
from party.tables.spelling.dates import ISO_DATE, DateForm, DateFormat, Pivot, Zone, check_pivot
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
        gaps: values that mean a gap besides an empty one, such as "NA", "?" or "-999", in whatever spelling
            (`party.tables.spelling.canonical`); of a date, as `format` says.
    """

    missing: Literal["refuse", "column"] | Constant = "refuse"
    others: Literal["refuse", "missing"] = "refuse"
    gaps: tuple[Text, ...] = ()

    @model_validator(mode="after")
    def _gaps_are_distinct(self) -> Self:
        self.check_lists()
        return self

    def check_lists(self, *, decimal_comma: bool = False) -> None:
        """Refuse lists that have two spellings of one value, and values that are gaps as well.

        Raises:
            ValueError: names the field and both.
        """
        check_list("gaps", self.gaps, decimal_comma=decimal_comma)
        for field, texts in self.listed.items():
            check_list(field, texts, decimal_comma=decimal_comma)
            check_list(f"{field}, gaps", (*texts, *self.gaps), decimal_comma=decimal_comma)

    @property
    def listed(self) -> Mapping[str, Sequence[str]]:
        """Field to a declared list of values of the column."""
        return {}

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
        bounds: what is outside is clipped.
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
        codes = {code: {canonical(text.lower()) for text in texts} for code, texts in ((1, self.yes), (0, self.no))}
        if codes[1] & codes[0] or not self.yes or not self.no:
            raise ValueError("yes, no: each needs at least one text, and none may mean both")
        return self

    @property
    def bounds_of_code(self) -> tuple[float, float]:
        """See `ColumnKind`."""
        return 0.0, 1.0

    @property
    def listed(self) -> Mapping[str, Sequence[str]]:
        """See `ColumnKind`."""
        return {"yes": [text.lower() for text in self.yes], "no": [text.lower() for text in self.no]}

    @property
    def codes(self) -> dict[str, int]:
        """Canonical text in small letters to its number."""
        return {canonical(text.lower()): code for code, texts in ((1, self.yes), (0, self.no)) for text in texts}

    @property
    def codes_of_types(self) -> dict[str, int]:
        """Codes of values that are not text: truth values, and 1 and 0 where the lists name no number; see `codes`."""
        has_numbers = any(text.lstrip("-").replace(".", "", 1).isdigit() for text in self.codes)
        return {"true": 1, "false": 0, **({} if has_numbers else {"1": 1, "0": 0}), **self.codes}

    def code_of_constant(self, value: float | date | str) -> float | None:
        """See `ColumnKind`."""
        code = self.codes_of_types.get(_as_text(value).lower())
        return None if code is None else float(code)


class ListKind(ColumnKind, ABC):
    """A column whose values stand in a public list.

    Attributes:
        values: the list: texts, as they stand in the table, or another spelling of them.
    """

    values: Annotated[tuple[Text, ...], Field(min_length=2, max_length=MAX_VALUES)]

    @model_validator(mode="after")
    def _values_are_texts(self) -> Self:
        if any(value != value.strip() for value in self.values):
            raise ValueError("values: must not begin or end with a space, which is taken off the table's values")
        return self

    @property
    def bounds_of_code(self) -> tuple[float, float]:
        """See `ColumnKind`."""
        return 0.0, float(len(self.values) - 1)

    @property
    def listed(self) -> Mapping[str, Sequence[str]]:
        """See `ColumnKind`."""
        return {"values": self.values}

    @cached_property
    def places(self) -> dict[str, int]:
        """Canonical text to its place in the list."""
        return {canonical(value): place for place, value in enumerate(self.values)}

    def code_of_constant(self, value: float | date | str) -> float | None:
        """See `ColumnKind`."""
        place = self.places.get(_as_text(value))
        return None if place is None else float(place)


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


class BinsKind(CategoryKind):
    """A number of which analyses see the interval alone that it lies in: a category of the intervals between edges.

    A number belongs to the interval that begins with it; one below the first edge to the first, and one from the last
    edge on to the last.

    Attributes:
        kind: says that it is one.
        edges: ends of the intervals, in order, chosen without a look at the data.
        values: the intervals, `18..65`; they follow from the edges.
    """

    kind: Literal["bins"]  # type: ignore[assignment]
    edges: Annotated[tuple[Finite, ...], Field(min_length=3, max_length=MAX_VALUES + 1)]
    others: Literal["refuse", "missing"] = "refuse"

    @model_validator(mode="before")
    @classmethod
    def _values_follow(cls, given: Any) -> Any:
        edges = given.get("edges") if isinstance(given, Mapping) else None
        if not isinstance(edges, list | tuple) or not all(type(one) in (int, float) for one in edges):
            return given
        if "values" in given or any(not a < b for a, b in pairwise(edges)):
            raise ValueError("edges: must ascend, and stand in the place of `values`")
        texts = [format(Decimal(repr(one)).normalize(), "f") for one in edges]
        return {**given, "values": tuple(f"{a}..{b}" for a, b in pairwise(texts))}

    @property
    def listed(self) -> Mapping[str, Sequence[str]]:
        """See `ColumnKind`: tables hold numbers, and no value of the list."""
        return {}

    def code_of_constant(self, value: float | date | str) -> float | None:
        """See `ColumnKind`."""
        if not isinstance(value, int | float) or not self.edges[0] <= value <= self.edges[-1]:
            return None
        return float(bisect_right(self.edges[1:-1], value))


class DateKind(ColumnKind):
    """A date, as days since another one; of a time, its day.

    Attributes:
        kind: says that it is one.
        bounds: the first and the last date; what is outside is clipped.
        since: the day that is 0; the first date where absent.
        format, pivot, zone: see `party.tables.spelling.dates.DateForm`.
    """

    kind: Literal["date"]
    bounds: tuple[date, date]
    since: date | None = None
    format: DateFormat = ISO_DATE
    pivot: Pivot | None = None
    zone: Zone | None = None

    @model_validator(mode="after")
    def _years_are_whole(self) -> Self:
        check_pivot(self.format, self.pivot)
        return self

    @property
    def form(self) -> DateForm:
        """How its dates are written."""
        return DateForm(format=self.format, pivot=self.pivot, zone=self.zone)

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
    NumberKind | IntegerKind | YesNoKind | OrdinalKind | CategoryKind | BinsKind | DateKind, Field(discriminator="kind")
]


def _as_text(value: float | date | str) -> str:
    """Return the canonical spelling of a declared constant."""
    return of_number(value) if isinstance(value, int | float) else canonical(str(value))
