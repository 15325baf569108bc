"""The party's configuration, `party.toml`: its identity, its coordinator, its peers and its tables.

Everything here is the owner's decision. A job that asks for another party, another table or a column without public
bounds is refused, whatever the coordinator says.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, SecretStr, model_validator

from analyses.job.job import Finite, Name
from party.batches.rules import BatchRules
from party.engine.config import EngineConfig
from party.policy import Policy
from party.tables.ratings_config import AnyTableConfig
from service.identity import Identity, Role
from service.logs import LogFormat, LogLevel
from service.settings import Address, Addresses, FilePath, Settings, TlsFiles, check_addresses, load_settings
from service.watch.notice import NoticeConfig
from service.watch.page_config import PageConfig
from service.watch.traces import TracesConfig

ENVIRONMENT_PREFIX = "MOIETY_PARTY"

MAY_CHANGE = ("log_level", "tls", "peers", "max_job_s", "least_deadline_s", "policy", "notice", "batches")
"""Fields that a running service takes over at SIGHUP."""


class CoordinatorPin(Settings):
    """The only coordinator that this party accepts calls from.

    Attributes:
        name: as in the coordinator's certificate.
        address: where this party sends its shares of what is opened; a list of addresses where several coordinators
            share the name, of which one leads.
    """

    name: Name
    address: Addresses


class LedgerConfig(Settings):
    """Section `[ledger]`: where the privacy ledger lies.

    Attributes:
        path: of a SQLite file; default `ledger.sqlite` in `data_dir`.
        url: of a PostgreSQL database instead, `postgresql://...`; it may hold a password, so give it by the environment
            (`MOIETY_PARTY__LEDGER__URL`).
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
            raise ValueError("path, url: only one of them may be given, because the ledger is stored in one place")
        return self


class PartyConfig(Settings):
    """All of `party.toml`.

    Attributes:
        name: of this party, as in its certificate.
        federation: the federation whose members it trusts.
        listen: address to serve on; port 0 lets the system choose.
        data_dir: folder for what this party keeps to itself, such as its reports.
        blas_threads: threads of the linear algebra library.
        log_format: `json` or `console`.
        log_level: the lowest that is written: `debug`, `info`, `warning` or `error`.
        tls: this party's certificate, its key, the authority.
        coordinator: the only coordinator that it accepts calls from.
        peers: party to address: the parties that this owner agrees to compute with; a job with any other is refused.
        tables: what jobs may ask for; a party that only computes has none.
        table_memory_mib: so many MiB of a table's values may be in memory; more are kept in a file without a name in
            `data_dir`, which should be on a disk as safe as that of the table.
        max_job_s: a job that runs here for longer is broken off, whoever is slow.
        least_deadline_s: a job with a shorter `deadline_s` gets no table of this party. Well above the time that the
            largest table takes to be read: else an analyst's deadline, and not the table, would decide whether jobs
            fail that cost nothing.
        engine: who shares and multiplies rows: by default threads of this process.
        policy: which jobs are accepted, asked about, refused; by default the owner is asked about every job.
        ledger: where the privacy ledger lies.
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
    coordinator: CoordinatorPin
    peers: dict[Name, Address]
    tables: tuple[AnyTableConfig, ...] = ()
    table_memory_mib: Annotated[int, Field(ge=1, le=1 << 20)] = 128
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
        check_addresses({**self.peers, self.name: self.listen, self.coordinator.name: self.coordinator.address})
        names = [table.name for table in self.tables]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(f"tables: {repeated[0]!r} appears more than once")
        columns = {table.name: (*table.column_names, *table.source_columns) for table in self.tables}
        contradiction = self.policy.contradiction(columns, len(self.peers) + 1, self.coordinator.name)
        if contradiction is not None:
            raise ValueError(contradiction)
        return self

    @property
    def dials(self) -> dict[Identity, tuple[str, ...]]:
        """Whom this party dials, and where; several addresses are those of coordinators of which one leads."""
        coordinator = Identity(self.federation, Role.COORDINATOR, self.coordinator.name)
        parties = {Identity(self.federation, Role.PARTY, name): (address,) for name, address in self.peers.items()}
        return {coordinator: self.coordinator.address, **parties}

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
