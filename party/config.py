"""The party's configuration, `party.toml`: who it is, whom it obeys, with whom it computes, and its tables.

Everything here is the owner's decision. A job that asks for another party, another table or a column without public
bounds is refused, whatever the coordinator says.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, SecretStr, StrictFloat, ValidationError, model_validator

from analyses.job.job import Finite, Name
from analyses.job.schema import ColumnSchema, RowRange, RowsPerPerson
from party.ledger.budget import Budget, BudgetError
from party.policy import Policy
from service.logs import LogFormat
from service.settings import Address, FilePath, Settings, TlsFiles, explain_fields, load_settings

ENVIRONMENT_PREFIX = "MOIETY_PARTY"


class CoordinatorPin(Settings):
    """The one coordinator that this party obeys.

    Attributes:
        name: as in the coordinator's certificate.
        address: where this party sends its shares of what is opened.
    """

    name: Name
    address: Address


class FirstBudget(Settings):
    """Section `[tables.first_budget]`: the budget of a table whose ledger has none yet. See `Budget`.

    Later changes are entries of the ledger, with a reason: `moiety budget set`. This section is then without effect.
    """

    unit: str = "record of the joint table"
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


class LedgerConfig(Settings):
    """Section `[ledger]`: where the privacy ledger lies.

    Attributes:
        path: of a SQLite file; default `ledger.sqlite` in `data_dir`.
        url: of a PostgreSQL database instead, `postgresql://...`; it may hold a password, so give it by the environment
            (`MOIETY_PARTY__LEDGER__URL`).
        counter: how far the ledger had come; default `ledger.counter` in `data_dir`. On another disk, and out of the
            backup of the ledger, it finds a ledger that was put back from an old copy.
    """

    path: FilePath | None = None
    url: SecretStr | None = None
    counter: FilePath | None = None

    @model_validator(mode="after")
    def _lies_in_one_place(self) -> Self:
        if self.path is not None and self.url is not None:
            raise ValueError("path, url: the ledger lies in one place, not in two")
        return self


class TableConfig(Settings):
    """One table of this party.

    Attributes:
        name: how jobs call it.
        path: a `.csv`, `.csv.gz` or `.parquet` file.
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
    path: FilePath
    id_column: Annotated[str, Field(min_length=1)] | None = None
    rows: RowRange | None = None
    person_column: Annotated[str, Field(min_length=1)] | None = None
    most_rows_per_person: RowsPerPerson | None = None
    bounds: Annotated[dict[str, tuple[Finite, Finite]], Field(min_length=1)]
    on_request: tuple[str, ...] = ()
    first_budget: FirstBudget | None = None

    @model_validator(mode="after")
    def _rows_are_ordered(self) -> Self:
        if self.rows is not None and self.rows[0] > self.rows[1]:
            raise ValueError(f"rows: the least, {self.rows[0]}, is above the most, {self.rows[1]}")
        return self

    @model_validator(mode="after")
    def _persons_are_bounded(self) -> Self:
        if (self.person_column is None) != (self.most_rows_per_person is None):
            raise ValueError("person_column, most_rows_per_person: one needs the other")
        return self

    @model_validator(mode="after")
    def _first_budget_suits_the_rows(self) -> Self:
        if self.rows is not None and self.first_budget is not None and self.first_budget.delta >= 1 / self.rows[1]:
            raise ValueError(f"first_budget.delta: not below 1 / {self.rows[1]}, the most rows")
        return self

    @model_validator(mode="after")
    def _bounds_describe_columns(self) -> Self:
        for name in self.bounds:
            try:
                self.column(name)
            except ValidationError as error:
                raise ValueError("; ".join(explain_fields(error))) from error
        if self.id_column in self.bounds:
            raise ValueError(f"column {self.id_column!r} is the id column: it cannot have bounds")
        if self.person_column in self.bounds:
            raise ValueError(f"column {self.person_column!r} is the person column: it cannot have bounds")
        unknown = [name for name in self.on_request if name not in self.bounds]
        if unknown:
            raise ValueError(f"on_request: column {unknown[0]!r} has no bounds")
        if not self.usual_columns:
            raise ValueError("on_request: at least one column must be for jobs that name none")
        return self

    @property
    def key_columns(self) -> tuple[str, ...]:
        """Columns that are read as text: they name rows and persons, which may be one column."""
        return tuple(dict.fromkeys(name for name in (self.id_column, self.person_column) if name is not None))

    @property
    def usual_columns(self) -> tuple[str, ...]:
        """What a job gets that names no columns, in the order of the bounds."""
        return tuple(name for name in self.bounds if name not in self.on_request)

    def column(self, name: str) -> ColumnSchema:
        """Return the public part of a column that has bounds.

        Raises:
            KeyError: it has none.
        """
        lower, upper = self.bounds[name]
        return ColumnSchema(name=name, lower=lower, upper=upper)


class PartyConfig(Settings):
    """All of `party.toml`.

    Attributes:
        name: of this party, as in its certificate.
        federation: the federation whose members it trusts.
        listen: address to serve on; port 0 lets the system choose.
        data_dir: folder for what this party keeps to itself, such as its reports.
        blas_threads: threads of the linear algebra library.
        log_format: `json` or `console`.
        tls: this party's certificate, its key, the authority.
        coordinator: whom it obeys.
        peers: party to address: the parties that this owner agrees to compute with; a job with any other is refused.
        tables: what jobs may ask for; a party that only computes has none.
        max_job_s: a job that runs here for longer is broken off, whoever is slow.
        least_deadline_s: a job with a shorter `deadline_s` gets no table of this party. Well above the time that the
            largest table takes to be read: else an analyst's deadline, and not the table, would decide whether jobs
            fail that cost nothing.
        policy: which jobs are accepted, asked about, refused; by default the owner is asked about every job.
        ledger: where the privacy ledger lies.
    """

    name: Name
    federation: Name
    listen: Address = "127.0.0.1:7101"
    data_dir: FilePath
    blas_threads: Annotated[int, Field(ge=1, le=1024)] = 1
    log_format: LogFormat = "console"
    tls: TlsFiles
    coordinator: CoordinatorPin
    peers: dict[Name, Address]
    tables: tuple[TableConfig, ...] = ()
    max_job_s: Annotated[Finite, Field(gt=0, le=604_800)] = 14_400.0
    least_deadline_s: Annotated[Finite, Field(gt=0, le=86_400)] = 10.0
    policy: Policy = Policy()
    ledger: LedgerConfig = LedgerConfig()

    @model_validator(mode="after")
    def _names_are_distinct(self) -> Self:
        if self.name in self.peers:
            raise ValueError(f"peers: {self.name!r} is this party itself")
        names = [table.name for table in self.tables]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(f"tables: {repeated[0]!r} appears more than once")
        columns = {table.name: tuple(table.bounds) for table in self.tables}
        contradiction = self.policy.contradiction(columns, len(self.peers) + 1, self.coordinator.name)
        if contradiction is not None:
            raise ValueError(contradiction)
        return self

    @property
    def ledger_path(self) -> Path:
        """The SQLite file of the ledger, where it is not in PostgreSQL."""
        return self.ledger.path or self.data_dir / "ledger.sqlite"

    @property
    def counter_path(self) -> Path:
        """The ledger's counter."""
        return self.ledger.counter or self.data_dir / "ledger.counter"


def load_party_config(
    path: Path, overrides: Mapping[str, object] | None = None, *, environ: Mapping[str, str] | None = None
) -> PartyConfig:
    """Read `party.toml`; the environment overrides the file, and `overrides` override both.

    Args:
        path: the file.
        overrides: fields given as flags, for instance `{"listen": "0.0.0.0:7101", "tls.key": "key.pem"}`; None means
            not given. As in the environment, a relative path starts at the folder of the file.
        environ: the environment, where `MOIETY_PARTY__TLS__KEY` overrides `tls.key`; the process's own where absent.

    Raises:
        SettingsError: it cannot be used; the text names the file and each wrong field with its value.
    """
    variables = dict(os.environ if environ is None else environ)
    for field, value in (overrides or {}).items():
        if value is not None:
            variables["__".join([ENVIRONMENT_PREFIX, *field.upper().split(".")])] = str(value)
    return load_settings(PartyConfig, path, prefix=ENVIRONMENT_PREFIX, environ=variables)
