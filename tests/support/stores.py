"""Stores in a SQLite file, or in the schema of a PostgreSQL server whose coordinator leads."""

from pathlib import Path

from leases import lease_on

from coordinator.leading.fenced_database import FencedDatabase
from coordinator.sql_store import TABLES as JOBS
from coordinator.sql_store import SqlJobStore
from coordinator.stores import batches, surveys
from coordinator.stores.batches import BatchesStore
from coordinator.stores.surveys import SurveyStore
from service.database.sqlite import SqliteDatabase


def jobs_in(path: Path, **clock) -> SqlJobStore:
    return SqlJobStore(SqliteDatabase(path, JOBS), **clock)


def surveys_in(path: Path) -> SurveyStore:
    return SurveyStore(SqliteDatabase(path, surveys.TABLES))


def batches_in(path: Path) -> BatchesStore:
    return BatchesStore(SqliteDatabase(path, batches.TABLES))


class LeadingDatabase(FencedDatabase):
    """Its coordinator leads as long as it is open.

    Attributes:
        lost: why it no longer leads.
    """

    def __init__(self, url, tables, holder="one"):
        self.lost = []
        lease = lease_on(url, holder, lost=self.lost)
        assert lease.take()
        super().__init__(lease, tables)

    def close(self):
        super().close()
        self.lease.release()
