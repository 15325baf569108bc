import sqlite3
import stat

import pytest
from entry_store_contract import entries

from ledger.entry import LedgerError
from ledger.ledger import open_entries


@pytest.fixture
def place(tmp_path):
    return tmp_path / "entries"


@pytest.fixture
def store(place):
    store = open_entries(place, None)
    yield store
    store.close()


def test_the_file_is_for_its_owner_only(store, place):
    assert stat.S_IMODE(place.stat().st_mode) == 0o600


@pytest.mark.parametrize("statement", ["UPDATE entries SET text = ''", "DELETE FROM entries"])
def test_the_database_refuses_to_change_or_delete_entries(store, place, statement):
    with store.transaction() as stored:
        stored.append(entries(1))
    database = sqlite3.connect(place)
    with pytest.raises(sqlite3.IntegrityError, match=r"never (changed|deleted)"):
        database.execute(statement)
    database.close()


def test_a_folder_that_is_missing_is_told(tmp_path):
    with pytest.raises(LedgerError, match="No such file or directory"):
        open_entries(tmp_path / "absent" / "entries", None)
