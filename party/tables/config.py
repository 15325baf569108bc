"""The configuration of one table, `[[tables]]` of `party.toml`: what is public about it, and where its rows lie."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Protocol, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StrictFloat,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from analyses.job.job import Finite, Name
from analyses.job.schema import ColumnSchema, RowRange, RowsPerPerson
from dp.cost.views import UNIT, check_budget_unit
from party.ledger.budget import Budget, BudgetError
from party.tables.registry import source_of_file, source_of_section
from party.tables.source import TableSource
from service.settings import FilePath, Settings, explain_fields


class FirstBudget(Settings):
    """Section `[tables.first_budget]`: the budget of a table whose ledger has none yet. See `Budget`.

    Later changes are entries of the ledger, with a reason: `moiety budget set`. This section is then without effect.

    Attributes:
        unit: what is protected.
        period: a name; another one than before starts with nothing spent.
        epsilon, delta: all jobs of the period together may come to this.
    """

    unit: Annotated[str, AfterValidator(check_budget_unit)] = UNIT
    period: str
    epsilon: StrictFloat
    delta: StrictFloat

    @model_validator(mode="after")
    def _is_a_budget(self) -> Self:
        try:
            self.as_budget()
        except BudgetError as error:
            raise ValueError(str(error)) from error
        return self

    def as_budget(self) -> Budget:
        """Return it as the ledger keeps it."""
        return Budget(self.unit, self.period, self.epsilon, self.delta)


def _source(given: object, info: ValidationInfo) -> object:
    return source_of_section(given, info.context) if isinstance(given, Mapping) else given


class TableConfig(Settings):
    """One table of this party.

    Attributes:
        name: how jobs call it.
        path: the file in which its rows lie: `.csv`, `.csv.gz` or `.parquet`.
        source: where else they lie, instead of `path`: a section with `kind` (`party.tables.registry`) and its fields.
        id_column: the column that identifies the rows, by which parties check that theirs are the same and in the same
            order; it is read as text and never shared.
        rows: the least and the most rows that it may have, public like the bounds. A table outside of that serves no
            job; one that says nothing serves only jobs that need no row to be the same at every party.
        person_column: the column that names the person whose row it is, for jobs that protect persons; read as text and
            never shared. In jobs about a joint table it must say the same at all owners.
        most_rows_per_person: so many rows of one person count in such jobs; public, and never a count: the noise grows
            with it. Which ones of more rows count, a keyed hash says (`analyses.rows.surplus`).
        bounds: column to its public lower and upper bound. Bounds are published before any noise protects them: they
            come from what the column means, never from a look at the data. A column without bounds cannot be used.
        on_request: columns with bounds that a job gets only if it names them, such as labels and codes of categories.
        first_budget: what jobs may learn from it. Without, and without `moiety budget set`, no job may use it.
    """

    name: Name
    path: FilePath | None = None
    source: Annotated[TableSource | None, BeforeValidator(_source)] = None
    id_column: Annotated[str, Field(min_length=1)] | None = None
    rows: RowRange | None = None
    person_column: Annotated[str, Field(min_length=1)] | None = None
    most_rows_per_person: RowsPerPerson | None = None
    bounds: Annotated[dict[str, tuple[Finite, Finite]], Field(min_length=1)]
    on_request: tuple[str, ...] = ()
    first_budget: FirstBudget | None = None

    @model_validator(mode="after")
    def _lies_in_one_place(self) -> Self:
        if (self.path is None) == (self.source is None):
            raise ValueError("path, source: a table lies in one place, so one of the two must be given")
        return self

    @model_validator(mode="after")
    def _rows_are_ordered(self) -> Self:
        if self.rows is not None and self.rows[0] > self.rows[1]:
            raise ValueError(f"rows: the smallest number, {self.rows[0]}, is larger than the largest, {self.rows[1]}")
        return self

    @model_validator(mode="after")
    def _persons_are_bounded(self) -> Self:
        if (self.person_column is None) != (self.most_rows_per_person is None):
            raise ValueError("person_column, most_rows_per_person: both or neither must be given")
        return self

    @model_validator(mode="after")
    def _first_budget_suits_the_rows(self) -> Self:
        if self.rows is not None and self.first_budget is not None and self.first_budget.delta >= 1 / self.rows[1]:
            raise ValueError(
                f"first_budget.delta: must be below 1 / {self.rows[1]}, because the table may have {self.rows[1]} rows"
            )
        return self

    @model_validator(mode="after")
    def _bounds_describe_columns(self) -> Self:
        for name in self.bounds:
            try:
                self.column(name)
            except ValidationError as error:
                raise ValueError("; ".join(explain_fields(error))) from error
        if self.id_column in self.bounds:
            raise ValueError(f"column {self.id_column!r} is the id column, so it must not have bounds")
        if self.person_column in self.bounds:
            raise ValueError(f"column {self.person_column!r} is the person column, so it must not have bounds")
        unknown = [name for name in self.on_request if name not in self.bounds]
        if unknown:
            raise ValueError(f"on_request: column {unknown[0]!r} has no bounds")
        if not self.usual_columns:
            raise ValueError("on_request: at least one column must be left for jobs that name no columns")
        return self

    def make_source(self) -> TableSource:
        """Return where the rows lie; nothing is opened yet.

        Raises:
            SourceError: no source reads files with such a name.
        """
        if self.source is not None:
            return self.source
        assert self.path is not None, "a table without a source has a path"
        return source_of_file(self.path)

    @property
    def key_columns(self) -> tuple[str, ...]:
        """Columns that are read as text: they name rows and persons, which may be one column."""
        return tuple(dict.fromkeys(name for name in (self.id_column, self.person_column) if name is not None))

    @property
    def usual_columns(self) -> tuple[str, ...]:
        """The columns of a job that names no columns, in the order of the bounds."""
        return tuple(name for name in self.bounds if name not in self.on_request)

    def column(self, name: str) -> ColumnSchema:
        """Return the public part of a column that has bounds.

        Raises:
            KeyError: it has none.
        """
        lower, upper = self.bounds[name]
        return ColumnSchema(name=name, lower=lower, upper=upper)


class TableOwner(Protocol):
    """What this room needs of a party's configuration."""

    @property
    def name(self) -> str:
        """The party."""

    @property
    def tables(self) -> Sequence[TableConfig]:
        """Its tables; their names differ."""
