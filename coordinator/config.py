"""The coordinator's configuration, `coordinator.toml`."""

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Discriminator, Field, SecretStr, Tag, model_validator

from analyses.job.job import Finite, Name
from coordinator.leading.database import JobDatabase
from coordinator.leading.lease import LONGEST_LEASE_S
from service.identity import Identity, Role
from service.logs import LogFormat, LogLevel
from service.reach.addresses import dialled
from service.reach.proxy_config import ProxyConfig
from service.reach.relay_config import MemberAddress, RelayEntry, RelaySection, check_relays, directly, way_to
from service.reach.relays import RelayPoint, Way
from service.settings import Address, FilePath, Settings, TlsFiles, check_addresses, load_settings
from service.watch.page_config import PageConfig
from service.watch.traces import TracesConfig

ENVIRONMENT_PREFIX = "MOIETY_COORDINATOR"

MAY_CHANGE = (
    "log_level",
    "tls",
    "proxy",
    "max_running_jobs",
    "max_job_s",
    "job_memory_mib",
    "turn_s",
    "parties",
    "relays",
    "analysts",
)
"""Fields that a running service takes over at SIGHUP."""


POSTGRES = ("postgresql://", "postgres://")


def _kind_of_place(value: object) -> str:
    is_url = isinstance(value, SecretStr) or (isinstance(value, str) and value.startswith(POSTGRES))
    return "url" if is_url else "path"


StorePlace = Annotated[
    Annotated[SecretStr, Tag("url")] | Annotated[FilePath, Tag("path")], Discriminator(_kind_of_place)
]
"""A URL of PostgreSQL, which is a secret because it may hold a password, or a file."""


class RosterEntry(Settings):
    """A party that jobs may name.

    Attributes:
        name: name in its certificate.
        address: where it listens, or `relay` for a party that only dials out.
    """

    name: Name
    address: MemberAddress


class SumMember(Settings):
    """A member that may take part in masked sums: a device or a party.

    Attributes:
        name: name in its certificate.
        role: role in its certificate; a member with the same name and another role is refused.
        identity: its Ed25519 key, 64 hexadecimal digits: what `moiety device key` prints. Members pin each other's.
    """

    name: Name
    role: Literal["device", "party"] = "device"
    identity: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Analysts(Settings):
    """Who may submit jobs.

    Attributes:
        allowed: names as in their certificates; other analysts are refused.
    """

    allowed: tuple[Name, ...]

    @model_validator(mode="after")
    def _somebody_may_ask(self) -> Self:
        if not self.allowed:
            raise ValueError("allowed: name at least one analyst: an empty list would let nobody submit jobs")
        return self


class CoordinatorConfig(Settings):
    """All of `coordinator.toml`.

    Attributes:
        name: name of this coordinator in its certificate.
        federation: the federation whose members it trusts.
        listen: address to serve on; port 0 lets the system choose.
        store: the SQLite file of jobs and their events, or `postgresql://user@host:port/database`: then several
            coordinators may share it, of which one leads and the others stand by. The URL may hold a password; better
            give that by one of the next two.
        store_password_file: a file whose first line is the password of the database.
        store_password_variable: the environment variable that holds it.
        lease_s: after so long without a word of the leading coordinator to the database another one leads.
        instance: what members are told of this coordinator where it leads and they ask another; the name of its host
            where absent.
        survey_store: the SQLite file of surveys and their responses; if absent, `surveys.sqlite` beside the file
            `store`, or the database where the jobs are in PostgreSQL. Another coordinator takes no survey over from a
            file. A coordinator for surveys alone, without `parties` and `sum_members`, names it.
        batch_store: the SQLite file of batches and sealed answers to them; if absent, `batches.sqlite` beside the file
            `store`, or where the jobs are in PostgreSQL the name of `survey_store` with this ending, or the database.
        blas_threads: threads of the linear algebra library.
        log_format: `json` or `console`.
        log_level: the lowest that is written: `debug`, `info`, `warning` or `error`.
        max_running_jobs: more than these wait. Analysts take turns.
        max_job_s: a job that runs for longer is broken off.
        job_memory_mib: a job whose forecast says that it takes more MiB of this coordinator, beside what it takes at
            rest, is refused; by default as many as the machine has. The limit of a container is not seen: state it.
        turn_s: a job that has run longer than this may have to make room for others; see `Scheduler`.
        tls: this coordinator's certificate, its key, the authority.
        proxy: through which parties are dialled; directly where absent.
        parties: the roster of jobs.
        relay: where this coordinator listens as a relay for parties that only dial out; nowhere where absent.
        relays: further relays of such parties. They are tried in this order, after the coordinator's own.
        sum_members: who may take part in masked sums.
        analysts: who may submit jobs.
        page: a page to look at, and metrics; none where absent.
        traces: spans of jobs for a collector of OpenTelemetry; none where absent.
    """

    name: Name
    federation: Name
    listen: Address
    store: StorePlace
    store_password_file: FilePath | None = None
    store_password_variable: Annotated[str, Field(min_length=1)] | None = None
    lease_s: Annotated[Finite, Field(ge=1, le=LONGEST_LEASE_S)] = 15.0
    instance: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    survey_store: FilePath | None = None
    batch_store: FilePath | None = None
    blas_threads: Annotated[int, Field(ge=1, le=1024)] = 1
    log_format: LogFormat = "console"
    log_level: LogLevel = "info"
    max_running_jobs: Annotated[int, Field(ge=1, le=64)] = 2
    max_job_s: Annotated[Finite, Field(gt=0, le=604_800)] = 14_400.0
    job_memory_mib: Annotated[int, Field(ge=1, le=1 << 24)] | None = None
    turn_s: Annotated[Finite, Field(gt=0, le=604_800)] = 300.0
    tls: TlsFiles
    proxy: ProxyConfig | None = None
    parties: tuple[RosterEntry, ...] = ()
    sum_members: tuple[SumMember, ...] = ()
    relay: RelaySection | None = None
    relays: tuple[RelayEntry, ...] = ()
    analysts: Analysts
    page: PageConfig | None = None
    traces: TracesConfig | None = None

    @model_validator(mode="after")
    def _parties_are_distinct(self) -> Self:
        if not (self.parties or self.sum_members or self.survey_store):
            raise ValueError("parties, sum_members, survey_store: set at least one of them")
        for what, entries in (("parties", self.parties), ("sum_members", self.sum_members)):
            names = [entry.name for entry in entries]
            repeated = sorted({name for name in names if names.count(name) > 1})
            if repeated:
                raise ValueError(f"{what}: {repeated[0]!r} appears more than once")
        addresses = {party.name: party.address for party in self.parties}
        check_relays(addresses, self.relays, has_own=self.relay is not None)
        own = {} if self.relay is None else {f"{self.name}, the relay": self.relay.listen}
        check_addresses({**directly(addresses), self.name: self.listen, **own})
        return self

    @model_validator(mode="after")
    def _database_is_complete(self) -> Self:
        passwords = (self.store_password_file, self.store_password_variable)
        if isinstance(self.store, SecretStr):
            if None not in passwords:
                raise ValueError("store_password_file, store_password_variable: give at most one of them")
        elif passwords != (None, None):
            raise ValueError("store_password_file, store_password_variable: only a store in PostgreSQL has a password")
        return self

    @classmethod
    def load(cls, path: Path, flags: Mapping[str, object] | None = None) -> Self:
        """Read the file, overridden by `MOIETY_COORDINATOR__...` of the environment and by flags; see `load_settings`.

        Raises:
            SettingsError: it cannot be used; the text names each wrong field.
        """
        return load_settings(cls, path, prefix=ENVIRONMENT_PREFIX, flags=flags)

    @property
    def survey_path(self) -> Path | None:
        """SQLite file of surveys and their responses; None: the database of jobs."""
        if self.survey_store is not None:
            return self.survey_store
        return self.store.with_name("surveys.sqlite") if isinstance(self.store, Path) else None

    @property
    def database(self) -> JobDatabase | None:
        """The database of jobs; None where they are in a file."""
        if not isinstance(self.store, SecretStr):
            return None
        return JobDatabase(self.store, self.store_password_file, self.store_password_variable, self.lease_s)

    @property
    def shown_instance(self) -> str:
        """What members are told of this coordinator."""
        return self.instance or socket.gethostname()

    @property
    def batch_path(self) -> Path | None:
        """SQLite file of batches and their answers; None: the database of jobs."""
        if self.batch_store is not None:
            return self.batch_store
        if isinstance(self.store, Path):
            return self.store.with_name("batches.sqlite")
        if self.survey_store is not None:
            return self.survey_store.with_suffix(".batches.sqlite")  # each coordinator's own, as that of surveys is
        return None

    @property
    def roster(self) -> dict[str, Way]:
        """Party name to the way to it."""
        return {party.name: way_to(party.address, self.relay_points) for party in self.parties}

    @property
    def relay_points(self) -> tuple[RelayPoint, ...]:
        """The relays as this coordinator dials them, its own first."""
        own = Identity(self.federation, Role.COORDINATOR, self.name)
        first = () if self.relay is None else (RelayPoint(own, dialled(self.relay.listen)),)
        return (*first, *(relay.point(self.federation) for relay in self.relays))

    @property
    def sum_identities(self) -> dict[Identity, bytes]:
        """Identity in the certificate to Ed25519 key of all who may take part in masked sums; no two of one name."""
        return {
            Identity(self.federation, Role(member.role), member.name): bytes.fromhex(member.identity)
            for member in self.sum_members
        }
