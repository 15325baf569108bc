"""The coordinator's batches on disk: the promises of every store of batches, and those of a file."""

import pytest
from device_store_contracts import BatchesStoreContract

from coordinator.batches.sqlite_store import SqliteBatchesStore
from coordinator.batches.store import BatchesUnusableError


class TestSqliteBatchesStore(BatchesStoreContract):
    def open(self, folder):
        return SqliteBatchesStore(folder / "batches.sqlite")

    def test_a_file_in_use_or_of_another_version_is_refused(self, tmp_path):
        store = self.open(tmp_path)
        with pytest.raises(BatchesUnusableError, match="cannot be used"):
            self.open(tmp_path)
        store._db.execute("PRAGMA user_version = 7")
        store.close()
        with pytest.raises(BatchesUnusableError, match="version 7"):
            self.open(tmp_path)
