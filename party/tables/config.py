"""The configuration of one table, `[[tables]]` of `party.toml`: what is public about it, and where its rows are."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
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

from analyses.job.column_names import expanded_fields, expanded_names
from analyses.job.job import Finite, Name
from analyses.job.schema import ColumnSchema, RowRange, RowsPerPerson
from dp.cost.views import UNIT, check_budget_unit
from ledger.accounts import account_of_space, units_of_id
from ledger.budget import Budget
from party.tables.filters import Filter, problem_with_filter
from party.tables.kinds import AnyColumnKind
from party.tables.matching_config import MatchingConfig
from party.tables.sources.registry import source_of_file, source_of_section
from party.tables.sources.source import SourceError, TableSource
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
        self.as_budget()
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
        path: the file of its rows: `.csv`, `.tsv` (also with `.gz`), `.parquet` or `.arrow`.
        source: another place of its rows, instead of `path`: a section with `kind` (`party.tables.sources.registry`)
            and the kind's fields.
        id_column: the column that identifies the rows, by which parties check that theirs are the same and in the same
            order; it is read as text and never shared.
        rows: the least and the most rows that it may have, public like the bounds. A table outside of that serves no
            job; one that says nothing serves only jobs that need no row to be the same at every party.
        person_column: the column that names the person whose row it is, for jobs that protect persons; read as text and
            never shared. In jobs about a joint table it must say the same at all owners.
        matching: what identifies its rows, for jobs that match rows of tables which need not hold the same ones in the
            same order.
        most_rows_per_person: maximum number of rows of one person that count in such jobs; public, and never a count:
            the noise grows with it. Which ones of more rows count, a keyed hash says (`analyses.rows.surplus`).
        bounds: column of numbers without gaps to its public lower and upper bound. Bounds are published before any
            noise protects them: they come from what the column means, never from a look at the data. A column without
            bounds or a kind cannot be used. `pixel_{0..63}` stands for `pixel_0` to `pixel_63`, here, in `columns` and
            in `on_request`.
        columns: column to its kind (`party.tables.kinds`): a number, an integer, yes or no, a category, an ordinal or a
            date, with a rule for gaps. Public like the bounds. Jobs name such a column, which brings all that it is
            encoded as, or one encoded column, such as `region=north`.
        filters: name of a filter that jobs may name (`where` of an input) to its conditions (`party.tables.filters`).
            Public like the bounds.
        on_request: columns that a job gets only if it names them, such as labels and codes of categories; they may be
            all of the table.
        id_space: whose ids its rows have, for instance `patients`: one budget holds for all tables of one id space, for
            each person in all of them together (`ledger.accounts`). Absent: the table has a budget of its own.
        show_budget: whether analysts who may use it see what remains of its budget (`moiety tables`). It tells them how
            much others have asked.
        first_budget: what jobs may learn from it. Without, and without `moiety budget set`, no job may use it.
    """

    name: Name
    path: FilePath | None = None
    source: Annotated[TableSource | None, BeforeValidator(_source)] = None
    id_column: Annotated[str, Field(min_length=1)] | None = None
    rows: RowRange | None = None
    person_column: Annotated[str, Field(min_length=1)] | None = None
    most_rows_per_person: RowsPerPerson | None = None
    matching: MatchingConfig | None = None
    bounds: Annotated[dict[str, tuple[Finite, Finite]], AfterValidator(expanded_fields)] = Field(default_factory=dict)
    columns: Annotated[dict[str, AnyColumnKind], AfterValidator(expanded_fields)] = Field(default_factory=dict)
    filters: dict[Name, Filter] = Field(default_factory=dict)
    on_request: Annotated[tuple[str, ...], AfterValidator(expanded_names)] = ()
    id_space: Name | None = None
    show_budget: bool = False
    first_budget: FirstBudget | None = None

    @model_validator(mode="after")
    def _lies_in_one_place(self) -> Self:
        if (self.path is None) == (self.source is None):
            raise ValueError("path, source: give exactly one of the two")
        return self

    @model_validator(mode="after")
    def _rows_are_ordered(self) -> Self:
        if self.rows is not None and self.rows[0] > self.rows[1]:
            raise ValueError(f"rows: the smallest number, {self.rows[0]}, is larger than the largest, {self.rows[1]}")
        return self

    @model_validator(mode="after")
    def _persons_are_bounded(self) -> Self:
        if (self.person_column is None) != (self.most_rows_per_person is None):
            raise ValueError("person_column, most_rows_per_person: give both or neither")
        return self

    @model_validator(mode="after")
    def _ids_are_of_an_id_space(self) -> Self:
        if self.id_space is None:
            return self
        if self.id_column is None and self.matching is None and self.person_column is None:
            raise ValueError(
                "id_space: needs id_column, matching or person_column, which say whose each row is; a table of ratings "
                "can be in none"
            )
        if self.first_budget is not None and (problem := self.problem_with_unit(self.first_budget.unit)):
            raise ValueError(f"first_budget.unit: {problem}")
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
        if not self.bounds and not self.columns:
            raise ValueError("bounds, columns: at least one column is needed that jobs can use")
        both = [name for name in self.columns if name in self.bounds]
        if both:
            raise ValueError(f"columns: {both[0]!r} has bounds already; a column of [tables.columns] declares its own")
        try:
            names = self.column_names
        except ValidationError as error:
            raise ValueError("; ".join(explain_fields(error))) from error
        repeated = sorted(name for name, times in Counter(names).items() if times > 1)
        sources = set(self.source_columns)
        repeated += [one.name for one in self.encoded if one.name != one.source and one.name in sources]
        if repeated:
            raise ValueError(f"columns: two columns would be called {repeated[0]!r}; rename one in the table")
        for name, role in ((self.id_column, "id"), (self.person_column, "person")):
            if name in self.bounds or name in self.columns:
                raise ValueError(f"column {name!r} is the {role} column, so it must not have bounds")
        if self.matching is not None:
            self.matching.check_columns(self.bounds, self.columns)
        for name, conditions in self.filters.items():
            if problem := problem_with_filter(conditions, self.bounds, self.columns):
                raise ValueError(f"filters.{name}: {problem}")
        if self.source is not None and self.source.has_decimal_comma:
            for name, kind in self.columns.items():
                try:
                    kind.check_lists(decimal_comma=True)
                except ValueError as error:
                    raise ValueError(f"columns.{name}: {error}") from error
        known = {name for column in self.encoded for name in (column.name, column.source)}
        unknown = [name for name in self.on_request if name not in known]
        if unknown:
            raise ValueError(f"on_request: column {unknown[0]!r} has no bounds")
        return self

    @property
    def account(self) -> str:
        """What the ledger calls the budget that its jobs are charged to: of its id space, or of the table alone."""
        return self.name if self.id_space is None else account_of_space(self.id_space)

    @property
    def usual_unit(self) -> str:
        """The unit of a budget that names none: one record, or a person in an id space of persons."""
        return UNIT if self.id_space is None else units_of_id(has_persons=self.person_column is not None)[0]

    def problem_with_unit(self, unit: str) -> str:
        """Return why a budget of this unit does not cover all that the table says of one id; or nothing."""
        units = units_of_id(has_persons=self.person_column is not None)
        if self.id_space is None or unit in units:
            return ""
        return f"must be {' or '.join(map(repr, units))}, of which one holds all of an id of its id space, not {unit!r}"

    def serves_jobs_as(self, other: "TableConfig | None") -> bool:
        """Return whether jobs find in it what another declaration says; the beginning of its budget is none of it."""
        own = {"first_budget": None, "show_budget": False}
        return other is not None and self.model_copy(update=own) == other.model_copy(update=own)

    def make_source(self) -> TableSource:
        """Return where the rows are stored; nothing is opened yet.

        Raises:
            SourceError: no source reads files with such a name.
        """
        if self.source is not None:
            return self.source
        assert self.path is not None, "a table without a source has a path"
        return source_of_file(self.path)

    @property
    def key_columns(self) -> tuple[str, ...]:
        """Columns that are no features: they name rows and persons, which may be one column."""
        matched = () if self.matching is None else self.matching.columns
        named = (self.id_column, self.person_column, *matched)
        return tuple(dict.fromkeys(name for name in named if name is not None))

    @property
    def text_columns(self) -> tuple[str, ...]:
        """Return the columns that are read as unchanged text: ids and persons."""
        return tuple(name for name in self.key_columns if name in (self.id_column, self.person_column))

    @cached_property
    def usual_columns(self) -> tuple[str, ...]:
        """The encoded columns of a job that names no columns, in the order of the configuration."""
        on_request = set(self.on_request)
        return tuple(c.name for c in self.encoded if c.name not in on_request and c.source not in on_request)

    @cached_property
    def encoded(self) -> tuple[ColumnSchema, ...]:
        """The public part of all columns that jobs can use: those with bounds, then what each kind becomes."""
        numbers = [ColumnSchema(name=name, lower=low, upper=high) for name, (low, high) in self.bounds.items()]
        return (*numbers, *(column for name, kind in self.columns.items() for column in kind.encoded(name)))

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of all columns that jobs can use."""
        return tuple(column.name for column in self.encoded)

    @property
    def source_columns(self) -> tuple[str, ...]:
        """Names, in the owner's table, of the columns that jobs can use."""
        return (*self.bounds, *self.columns)


class TableOwner(Protocol):
    """What this room needs of a party's configuration."""

    @property
    def name(self) -> str:
        """The party."""

    @property
    def tables(self) -> Sequence[TableConfig]:
        """Its tables; their names differ."""

    @property
    def data_dir(self) -> Path:
        """The folder for what it keeps to itself."""

    @property
    def table_memory_mib(self) -> int:
        """Return the bytes of a table's values that may be in memory."""


def tables_of_same_data(tables: Sequence[TableConfig]) -> list[tuple[str, ...]]:
    """Return groups of tables of which each reads something that another one of its group reads, too."""
    groups: list[tuple[set[str], set[str]]] = []
    for table in tables:
        try:
            data = set(table.make_source().data())
        except SourceError:  # of a form that nobody reads, or one that is not there
            continue
        names = {table.name}
        for other in [group for group in groups if group[1] & data]:
            groups.remove(other)
            names, data = other[0] | names, other[1] | data
        groups.append((names, data))
    return [tuple(t.name for t in tables if t.name in names) for names, _ in groups if len(names) > 1]
