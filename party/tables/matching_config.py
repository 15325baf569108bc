"""Section `[tables.matching]` of `party.toml`: what identifies the rows of a table. Public but for names of columns."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from analyses.job.matching import MAX_ID_FIELDS, DuplicateRule, MatchingSchema, Recipe
from party.tables.kinds import CategoryKind, ColumnKind, DateKind, NumberKind
from party.tables.spelling.dates import DateForm
from service.settings import Settings

_OF_ONE_ROW: tuple[DuplicateRule, ...] = ("first", "last")
_OF_AN_ORDER: tuple[DuplicateRule, ...] = (*_OF_ONE_ROW, "max", "min")


def _form(given: object) -> object:
    return {"format": given} if isinstance(given, str) else given


ColumnName = Annotated[str, Field(min_length=1)]


class MatchingConfig(Settings):
    """What identifies a row, for jobs that match rows (`matching` of a job).

    Attributes:
        columns: that identify a row together, of any type, in an order that is the same at all owners; their names need
            not be. They are never sent.
        normalise: the steps that make two spellings of one id equal (`party.tables.normalise`), in their order: one
            list for all columns, or column to its list. Jobs match only tables with the same steps.
        date_formats: column to how its dates are written, where that is not year-month-day: a format, or a section of
            `format`, `pivot` and `zone` (`party.tables.spelling.dates.DateForm`). Only columns with the step `date`.
        duplicates: what several rows of one id become. `refuse`: such a table serves no job. `first`, `last`: that row
            stands for all. `mean`, `sum`, `max`, `min`: one row of these, gaps left out. One rule for all columns, or
            column to its rule. It holds for every job about the table.
        missing: what becomes of a row that lacks an id or a part of it. `refuse`: such a table serves no job. `leave
            out`: the row takes part in no job.
        reveal: whether owners may learn which of their rows all owners have, for jobs with `kind = "revealed"`. No
            epsilon covers that.
    """

    columns: Annotated[tuple[ColumnName, ...], Field(min_length=1, max_length=MAX_ID_FIELDS)]
    normalise: Recipe | dict[str, Recipe] = ("trim",)
    date_formats: dict[str, Annotated[DateForm, BeforeValidator(_form)]] = Field(default_factory=dict)
    duplicates: DuplicateRule | dict[str, DuplicateRule] = "refuse"
    missing: Literal["refuse", "leave out"] = "refuse"
    reveal: bool = False

    @model_validator(mode="after")
    def _columns_have_steps(self) -> Self:
        if len(set(self.columns)) < len(self.columns):
            raise ValueError("columns: the same column appears more than once")
        if isinstance(self.normalise, dict) and set(self.normalise) != set(self.columns):
            raise ValueError("normalise: must be one list for all columns, or name each of `columns` and no other")
        for column, steps in self.steps.items():
            if len(set(steps)) < len(steps):
                raise ValueError(f"normalise: column {column!r} has the same step more than once")
        for column in self.date_formats:
            if "date" not in self.steps.get(column, ()):
                raise ValueError(f"date_formats: column {column!r} has no step 'date'")
        return self

    @model_validator(mode="after")
    def _rules_make_a_row(self) -> Self:
        if isinstance(self.duplicates, dict) and "refuse" in self.duplicates.values():
            raise ValueError('duplicates: "refuse" is a rule for a whole table, not for one column')
        return self

    @property
    def steps(self) -> dict[str, Recipe]:
        """Column to its steps, in the order of the columns."""
        if isinstance(self.normalise, dict):
            return {column: self.normalise.get(column, ()) for column in self.columns}
        return dict.fromkeys(self.columns, self.normalise)

    @property
    def schema_of_matching(self) -> MatchingSchema:
        """What others learn of it."""
        rule: DuplicateRule | Literal["by column"] = "by column"
        if not isinstance(self.duplicates, dict):
            rule = self.duplicates
        recipe = tuple(self.steps.values())
        return MatchingSchema(recipe=recipe, duplicates=rule, missing=self.missing, reveal=self.reveal)

    def rule_of(self, column: str) -> DuplicateRule:
        """Return what the values of a column of the table become where several rows have one id."""
        return self.duplicates[column] if isinstance(self.duplicates, dict) else self.duplicates

    def check_columns(self, bounds: Mapping[str, object], kinds: Mapping[str, ColumnKind]) -> None:
        """Refuse what does not fit to the columns that jobs can use.

        Args:
            bounds: names of columns of numbers.
            kinds: name of any other column to its kind.

        Raises:
            ValueError: a column that identifies rows is among them, a rule is missing, for another column, or makes no
                sense of a column's values; names it.
        """
        for name in self.columns:
            if name in bounds or name in kinds:
                raise ValueError(f"matching.columns: {name!r} identifies rows, so it must not have bounds or a kind")
        if isinstance(self.duplicates, dict) and set(self.duplicates) != {*bounds, *kinds}:
            odd = sorted(set(self.duplicates) ^ {*bounds, *kinds})[0]
            raise ValueError(f"matching.duplicates: must name each column that jobs can use and no other; see {odd!r}")
        if self.duplicates == "refuse":
            return
        for name, kind in kinds.items():
            allowed = _rules_for(kind)
            if allowed and self.rule_of(name) not in allowed:
                raise ValueError(
                    f"matching.duplicates: {self.rule_of(name)!r} makes no value of the kind of column {name!r}; "
                    f"{', '.join(allowed)} do: duplicates = {{ {name} = {allowed[0]!r}, ... }}"
                )


def _rules_for(kind: ColumnKind) -> tuple[DuplicateRule, ...]:
    """Return the rules that turn values of a kind into one of it; empty where all do."""
    if isinstance(kind, NumberKind):
        return ()
    if isinstance(kind, CategoryKind):
        return _OF_ONE_ROW
    return (*_OF_AN_ORDER, "mean") if isinstance(kind, DateKind) else _OF_AN_ORDER
