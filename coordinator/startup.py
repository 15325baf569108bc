"""What a coordinator opens before it serves: its credentials, the right to lead, the store of its jobs."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path

import structlog

from coordinator.config import MAY_CHANGE, CoordinatorConfig
from coordinator.leading.database import JobDatabase
from coordinator.leading.fenced_database import FencedDatabase
from coordinator.leading.lease import Lease
from coordinator.leading.standby import Standby
from coordinator.sql_store import TABLES as JOBS
from coordinator.sql_store import SqlJobStore
from coordinator.store import JobStore, StoreError
from coordinator.stores.batches import TABLES as BATCHES
from coordinator.stores.batches import BatchesStore
from coordinator.stores.surveys import TABLES as SURVEYS
from coordinator.stores.surveys import SurveyStore
from service.database.database import Database, Tables
from service.database.sqlite import SqliteDatabase
from service.identity import Identity, Role
from service.settings import SettingsError
from service.tls import Credentials, credentials_of
from service.trust.changes import check_changes

_log = structlog.get_logger(__name__)


def own_credentials(config: CoordinatorConfig) -> Credentials:
    """Load the files of `[tls]`.

    Raises:
        SettingsError: the certificate states another identity than the configuration.
        CredentialsError: the files cannot be used.
    """
    tls = config.tls
    credentials = credentials_of(tls, config.proxy)
    expected = Identity(config.federation, Role.COORDINATOR, config.name)
    if credentials.identity != expected:
        raise SettingsError(
            f"{tls.certificate} is the certificate of {credentials.identity}, but the configuration is for {expected}"
        )
    return credentials


def open_store(config: CoordinatorConfig, lease: Lease | None) -> JobStore:
    """Open the store of jobs that the configuration names.

    Args:
        config: configuration in `coordinator.toml`.
        lease: lease with which this coordinator leads, if its jobs are in PostgreSQL.

    Raises:
        StoreError: it cannot be used.
        DatabaseError, DatabaseAwayError: the database cannot be used.
    """
    return SqlJobStore(_database(config.store if isinstance(config.store, Path) else None, lease, JOBS))


def open_survey_store(config: CoordinatorConfig, lease: Lease | None) -> SurveyStore:
    """Open the store of surveys: a file, or the database of the jobs where no file is named. Raises as `open_store`.

    Raises:
        SurveyStoreError: the file cannot be used.
    """
    return SurveyStore(_database(config.survey_path, lease, SURVEYS))


def open_batch_store(config: CoordinatorConfig, lease: Lease | None) -> BatchesStore:
    """Open the store of batches: a file, or the database of the jobs where no file is named. Raises as `open_store`.

    Raises:
        BatchesUnusableError: the file cannot be used.
    """
    return BatchesStore(_database(config.batch_path, lease, BATCHES))


def _database(path: Path | None, lease: Lease | None, tables: Tables) -> Database:
    """Open the database of a store: a file, or that of the jobs, where this coordinator leads."""
    if path is not None:
        return SqliteDatabase(path, tables)
    if lease is None:
        raise StoreError("the job store is in PostgreSQL, and this coordinator does not lead")
    return FencedDatabase(lease, tables)


async def lead(
    config: CoordinatorConfig,
    database: JobDatabase,
    read_again: Callable[[], CoordinatorConfig],
    permitted: Mapping[str, frozenset[Role]],
    beside: Callable[[Standby], AbstractAsyncContextManager[None]] = lambda standby: nullcontext(),
) -> tuple[Lease | None, CoordinatorConfig]:
    """Stand by until this coordinator leads.

    Args:
        config: configuration in `coordinator.toml`.
        database: database of the jobs.
        read_again: reads the file anew, at SIGHUP.
        permitted: who may call what, of a coordinator that leads.
        beside: what else runs as long as it stands by.

    Returns:
        The lease, which is kept from then on, or None where a signal came before; and the configuration, which may have
        been read again.

    Raises:
        SettingsError: the certificate states another identity than the configuration.
        ServiceError: the certificates, the database or the address cannot be used; the text says why.
    """
    identity = Identity(config.federation, Role.COORDINATOR, config.name)
    lease = Lease(database, identity.uri, config.shown_instance, lease_s=config.lease_s)
    standby = Standby(
        lease,
        lease_s=config.lease_s,
        credentials=own_credentials(config),
        federation=config.federation,
        permitted=permitted,
    )

    def reload() -> None:
        nonlocal config
        after = read_again()
        check_changes(config, after, MAY_CHANGE)
        standby.server.renew(own_credentials(after))
        config = after

    if not await standby.until_leading(config.listen, reload, lambda: beside(standby)):
        return None, config
    lease.keep()
    _log.info("coordinator leads", name=config.name, term=lease.term)
    return lease, config
