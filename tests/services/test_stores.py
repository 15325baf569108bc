"""The stores on each engine: a SQLite file, and a real PostgreSQL server. The promises of every store."""

import pytest
from device_store_contracts import BatchesStoreContract, SurveyStoreContract
from entry_store_contract import EntryStoreContract
from job_store_contract import JobStoreContract
from postgres import schema_of_its_own
from stores import LeadingDatabase

from coordinator.sql_store import TABLES as JOBS
from coordinator.sql_store import SqlJobStore
from coordinator.stores import batches, surveys
from coordinator.stores.batches import BatchesStore
from coordinator.stores.surveys import SurveyStore
from ledger.ledger import open_entries
from service.database.sqlite import SqliteDatabase


@pytest.fixture(params=["sqlite", "postgres"])
def engine(request):
    """The URL of a server for a folder; None for a file in it."""
    if request.param == "sqlite":
        return lambda folder: None
    cluster = request.getfixturevalue("cluster")
    return lambda folder: schema_of_its_own(cluster, str(folder))


class OnEachEngine:
    @pytest.fixture(autouse=True)
    def _on(self, engine):
        self.engine = engine

    def database(self, folder, tables):
        url = self.engine(folder)
        return SqliteDatabase(folder / "store.sqlite", tables) if url is None else LeadingDatabase(url, tables)


class TestSqlJobStore(OnEachEngine, JobStoreContract):
    def open(self, folder, clock):
        return SqlJobStore(self.database(folder, JOBS), clock=clock)


class TestSurveyStore(OnEachEngine, SurveyStoreContract):
    def open(self, folder):
        return SurveyStore(self.database(folder, surveys.TABLES))


class TestBatchesStore(OnEachEngine, BatchesStoreContract):
    def open(self, folder):
        return BatchesStore(self.database(folder, batches.TABLES))


class TestSqlEntryStore(OnEachEngine, EntryStoreContract):
    def open(self, place):
        return open_entries(place, self.engine(place))
