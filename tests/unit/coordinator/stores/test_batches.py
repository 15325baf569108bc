"""The coordinator's batches on disk: the promises of a file."""

import shutil
from pathlib import Path

import pytest
from stores import batches_in

from coordinator.stores.batches import BatchesUnusableError

STATES = Path(__file__).parents[3] / "states"


def test_a_file_in_use_or_of_another_version_is_refused(tmp_path):
    path = tmp_path / "batches.sqlite"
    store = batches_in(path)
    with pytest.raises(BatchesUnusableError, match="cannot be used"):
        batches_in(path)
    store._db.connection.execute("PRAGMA user_version = 7")
    store.close()
    with pytest.raises(BatchesUnusableError, match="version 7"):
        batches_in(path)


def test_a_batch_of_an_upgraded_file_is_agreed_to_and_told_like_any_other(tmp_path):
    """Only batches that were there before count as agreed to: nobody had to agree then."""
    path = tmp_path / "batches.sqlite"
    shutil.copy(STATES / "507ed98" / "coordinator" / "batches.sqlite", path)
    store = batches_in(path)
    (before,) = store.unended()
    added = store.add(b"b" * 16, "ada", "{}", b"keys", 5)
    assert (before.is_agreed, before.is_told) == (True, True)
    assert (added.is_agreed, added.is_told) == (store.find(added.question_id).is_agreed, False) == (False, False)
    store.close()
