"""The party's configuration, `party.toml`: its identity, its coordinator, its peers and its tables.

Everything here is the owner's decision. A job that asks for another party, another table or a column without public
bounds is refused, whatever the coordinator says.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, SecretStr, model_validator

from analyses.job.job import Finite, Name
from analyses.job.schema import ColumnSchema
from ledger.balance import Balance
from ledger.budget import Budget
from ledger.notices import Notice, notices_of
from party.batches.rules import BatchRules
from party.engine.config import EngineConfig
from party.policy import Policy
from party.tables.config import TableConfig, tables_of_same_data
from party.tables.ratings_config import AnyTableConfig
from service.identity import Identity, Role
from service.logs import LogFormat, LogLevel
from service.reach.addresses import is_loopback, split_address
from service.reach.proxy_config import ProxyConfig
from service.reach.relay_config import MemberAddress, RelayEntry, check_relays, directly, way_to
from service.reach.relays import RelayPoint, Way
from service.settings import Address, Addresses, FilePath, Settings, TlsFiles, check_addresses, load_settings
from service.watch.notice import NoticeConfig
from service.watch.page_config import PageConfig
from service.watch.traces import TracesConfig

ENVIRONMENT_PREFIX = "MOIETY_PARTY"

MAY_CHANGE = (
    "log_level", "tls", "proxy", "peers", "relays", "max_job_s", "least_deadline_s", "policy", "notice", "batches",
    "tables",
)  # fmt: skip
"""Fields that a running service takes over at SIGHUP."""


class CoordinatorPin(Settings):
    """The only coordinator that this party accepts calls from.

    Attributes:
        name: name in the coordinator's certificate.
        address: where this party sends its shares of what is opened; a list of addresses where several coordinators
            share the name, of which one leads.
    """

    name: Name
    address: Addresses


class LedgerConfig(Settings):
    """Section `[ledger]`: where the privacy ledger is stored.

    Attributes:
        path: path of a SQLite file; default `ledger.sqlite` in `data_dir`.
        url: URL of a PostgreSQL database instead, `postgresql://...`; it may hold a password, so give it by the
            environment (`MOIETY_PARTY__LEDGER__URL`).
        counter: the file with the position of the ledger; default `ledger.counter` in `data_dir`. If it is on another
            disk and not in the ledger's backup, it reveals a ledger that was restored from an old copy.
        may_begin: whether the service begins a ledger by itself where there is none. Only for trials: a folder that was
            lost would renew all budgets. Otherwise `moiety budget init` begins it.
    """

    path: FilePath | None = None
    url: SecretStr | None = None
    counter: FilePath | None = None
    may_begin: bool = False

    @model_validator(mode="after")
    def _lies_in_one_place(self) -> Self:
        if self.path is not None and self.url is not None:
            raise ValueError("path, url: give at most one of them")
        return self


class PartyConfig(Settings):
    """All of `party.toml`.

    Attributes:
        name: name of this party in its certificate.
        federation: the federation whose members it trusts.
        listen: address to serve on; port 0 lets the system choose.
        data_dir: folder for what this party keeps to itself, such as its reports.
        blas_threads: threads of the linear algebra library.
        log_format: `json` or `console`.
        log_level: the lowest that is written: `debug`, `info`, `warning` or `error`.
        tls: this party's certificate, its key, the authority.
        proxy: through which other members are dialled; directly where absent.
        coordinator: the only coordinator that it accepts calls from.
        peers: party to address, or to `relay` for one that only dials out: the parties that this owner agrees to
            compute with; a job with any other is refused.
        reach: `direct`: others dial this party at its address; or `dial-out`: it accepts no connection from outside,
            stays connected to each of its relays, and others reach it by these. It then listens on loopback alone.
        relays: relays by which peers are reached, and to which this party stays connected where it only dials out; they
            are tried in this order.
        tables: what jobs may ask for; a party that only computes has none.
        table_memory_mib: MiB of a table's values that may be in memory; more are kept in a file without a name in
            `data_dir`, which should be on a disk as safe as that of the table.
        job_memory_mib: a job whose forecast says that it takes more MiB of this party, beside what it takes at rest, is
            refused; by default as many as the machine has. The limit of a container is not seen: state it.
        looks_at_tables: whether the service looks through the first rows of its tables after its start, in a process of
            its own, and warns in its log of tables that no job can use and of columns that lose nearly all values.
        max_job_s: a job that runs here for longer is broken off, whoever is slow.
        least_deadline_s: a job with a shorter `deadline_s` gets no table of this party. Well above the time that the
            largest table takes to be read: else an analyst's deadline, and not the table, would decide whether jobs
            fail that cost nothing.
        engine: who shares and multiplies rows: by default threads of this process.
        policy: which jobs are accepted, asked about, refused; by default the owner is asked about every job.
        ledger: where the privacy ledger is stored.
        batches: which batches of devices' answers it takes part in; none where absent.
        page: a page to look at, and metrics; none where absent.
        traces: spans of jobs for a collector of OpenTelemetry; none where absent.
        notice: how the owner hears that a job waits for approval; not at all where absent.
    """

    name: Name
    federation: Name
    listen: Address = "127.0.0.1:7101"
    data_dir: FilePath
    blas_threads: Annotated[int, Field(ge=1, le=1024)] = 1
    log_format: LogFormat = "console"
    log_level: LogLevel = "info"
    tls: TlsFiles
    proxy: ProxyConfig | None = None
    coordinator: CoordinatorPin
    peers: dict[Name, MemberAddress]
    reach: Literal["direct", "dial-out"] = "direct"
    relays: tuple[RelayEntry, ...] = ()
    tables: tuple[AnyTableConfig, ...] = ()
    table_memory_mib: Annotated[int, Field(ge=1, le=1 << 20)] = 128
    job_memory_mib: Annotated[int, Field(ge=1, le=1 << 24)] | None = None
    looks_at_tables: bool = True
    max_job_s: Annotated[Finite, Field(gt=0, le=604_800)] = 14_400.0
    least_deadline_s: Annotated[Finite, Field(gt=0, le=86_400)] = 10.0
    engine: EngineConfig = EngineConfig()
    policy: Policy = Policy()
    ledger: LedgerConfig = LedgerConfig()
    batches: BatchRules | None = None
    page: PageConfig | None = None
    traces: TracesConfig | None = None
    notice: NoticeConfig | None = None

    @model_validator(mode="after")
    def _names_are_distinct(self) -> Self:
        if self.name in self.peers:
            raise ValueError(f"peers: {self.name!r} is this party itself")
        if strangers := sorted(set(self.engine.peer_hosts) - set(self.peers)):
            raise ValueError(f"engine.peer_hosts: {strangers[0]!r} is not among the peers")
        check_relays(self.peers, self.relays)
        named: dict[str, str | tuple[str, ...]] = {**directly(self.peers), self.name: self.listen}
        check_addresses({**named, self.coordinator.name: self.coordinator.address})
        if self.reach == "dial-out":
            if not self.relays:
                raise ValueError("reach: a party that only dials out needs a relay: name one under [[relays]]")
            if self.engine.host is not None:
                raise ValueError("engine.host: workers of a party that only dials out are reached by its relays")
            if not is_loopback(split_address(self.listen)[0]):
                raise ValueError("listen: a party that only dials out listens on loopback, as at 127.0.0.1:7101")
        names = [table.name for table in self.tables]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(f"tables: {repeated[0]!r} appears more than once")
        columns = {table.name: (*table.column_names, *table.source_columns) for table in self.tables}
        self._check_id_spaces()
        known = (*self.peers, self.name)
        filters = {table.name: table.filters for table in self.tables}
        contradiction = self.policy.contradiction(columns, len(known), self.coordinator.name, known, filters)
        if contradiction is not None:
            raise ValueError(contradiction)
        return self

    def _check_id_spaces(self) -> None:
        """Refuse tables of one id space that cannot have one budget."""
        for space in {table.id_space for table in self.tables} - {None}:
            inside = [table for table in self.tables if table.id_space == space]
            if len({table.person_column is None for table in inside}) > 1:
                raise ValueError(f"tables: in id space {space!r}, all tables need a person_column or none may have one")
            if len({table.first_budget for table in inside} - {None}) > 1:
                raise ValueError(f"tables: in id space {space!r}, tables declare different first budgets; there is one")

    def table_called(self, name: str) -> TableConfig | None:
        """Return one of its tables; None where it has none of that name."""
        return next((table for table in self.tables if table.name == name), None)

    @property
    def accounts(self) -> dict[str, str]:
        """Table to the account of the ledger that its jobs are charged to."""
        return {table.name: table.account for table in self.tables}

    @property
    def first_budgets(self) -> dict[str, Budget]:
        """Account to the budget with which it begins."""
        return {
            table.account: table.first_budget.as_budget() for table in self.tables if table.first_budget is not None
        }

    def budget_notices(self, balances: Sequence[Balance]) -> list[Notice]:
        """Return what does not fit between its tables and the budgets of its ledger (`ledger.notices`)."""
        return notices_of(self.accounts, self.first_budgets, tables_of_same_data(self.tables), balances)

    @property
    def relay_points(self) -> tuple[RelayPoint, ...]:
        """The relays as they are dialled."""
        return tuple(relay.point(self.federation) for relay in self.relays)

    @property
    def stays_at(self) -> tuple[RelayPoint, ...]:
        """The relays to which this party stays connected."""
        return self.relay_points if self.reach == "dial-out" else ()

    @property
    def dials(self) -> dict[Identity, tuple[Way, ...]]:
        """Whom this party dials, and where; several addresses are those of coordinators of which one leads."""
        coordinator = Identity(self.federation, Role.COORDINATOR, self.coordinator.name)
        parties = {
            Identity(self.federation, Role.PARTY, name): (way_to(at, self.relay_points),)
            for name, at in self.peers.items()
        }
        return {coordinator: self.coordinator.address, **parties}

    def columns_of_filter(self, table: str, name: str) -> tuple[str, ...]:
        """Return the columns of the owner's table that a filter asks about; none where there is no such filter."""
        found = next((one.filters for one in self.tables if one.name == table), {})
        return tuple(found.get(name, ()))

    def sources_of(self, table: str, columns: Sequence[ColumnSchema]) -> dict[str, str]:
        """Return the encoded columns that a job asks for, of a product its factors, to the columns they come from."""
        encoded = next((one.encoded for one in self.tables if one.name == table), ())
        sources = {one.name: one.source for one in encoded} | {one.name: one.source for one in columns}
        return {name: sources.get(name, name) for one in columns for name in one.factors or (one.name,)}

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
