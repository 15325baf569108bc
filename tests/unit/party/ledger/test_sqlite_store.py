import sqlite3
import stat

import pytest
from entry_store_contract import EntryStoreContract, entries

from party.ledger.entry import LedgerError
from party.ledger.sqlite_store import SqliteEntryStore


class TestSqliteEntryStore(EntryStoreContract):
    def open(self, place):
        return SqliteEntryStore(place)

    def test_the_file_is_for_its_owner_only(self, store, place):
        assert stat.S_IMODE(place.stat().st_mode) == 0o600

    @pytest.mark.parametrize("statement", ["UPDATE entries SET text = ''", "DELETE FROM entries"])
    def test_the_database_refuses_to_change_or_delete_entries(self, store, place, statement):
        with store.transaction() as stored:
            stored.append(entries(1))
        database = sqlite3.connect(place)
        with pytest.raises(sqlite3.IntegrityError, match=r"never (changed|deleted)"):
            database.execute(statement)
        database.close()

    def test_a_folder_that_is_missing_is_told(self, tmp_path):
        with pytest.raises(LedgerError, match="No such file or directory"):
            self.open(tmp_path / "absent" / "entries")
