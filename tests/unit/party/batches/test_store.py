"""A party's memory of batches: closed once, before anything leaves, with no key after it."""

from dataclasses import replace

import numpy as np
import pytest

from party.batches.store import BatchStore, BatchStoreError, ClosedBatch, KeptBatch
from questions.shares_agreement import ShownList

DIGEST, OTHER = bytes(32), bytes([1]) * 32
KEY = bytes(range(100, 132))
OPEN = KeptBatch(KEY, b"p" * 32, b"certificate", b"signature")
SHOWN = ShownList(b"l" * 32, np.ones(3, dtype=np.bool_))


def closed(share=b"share", cohort=(True, False, True)):
    return ClosedBatch(np.array(cohort, dtype=np.bool_), share)


@pytest.fixture
def store(tmp_path):
    found = BatchStore(tmp_path / "batches.sqlite")
    yield found
    found.close()


def test_a_batch_is_what_it_was_when_it_was_added_first(store):
    assert store.find(DIGEST) is None
    assert store.add(DIGEST, OPEN, 10.0) == OPEN
    another = KeptBatch(bytes(32), b"q" * 32, b"", b"")
    assert store.add(DIGEST, another, 10.0) == OPEN


def test_closing_is_durable_and_happens_once(store, tmp_path):
    store.add(DIGEST, OPEN, 10.0)
    store.note_shown(DIGEST, SHOWN)
    store.close_batch(DIGEST, closed())
    for again in (closed(), closed(b"another share", (True, True, True))):
        with pytest.raises(BatchStoreError, match="closed once"):
            store.close_batch(DIGEST, again)
    store.close()
    again = BatchStore(tmp_path / "batches.sqlite").find(DIGEST)
    assert (again.private, again.closed.share) == (None, b"share")
    assert again.closed.cohort.tolist() == [True, False, True]
    assert (again.shown.digest, again.shown.openable.tolist()) == (SHOWN.digest, [True, True, True])


def test_with_whom_a_batch_was_closed_and_its_coin_are_kept(store, tmp_path):
    for digest in (DIGEST, OTHER):
        store.add(digest, OPEN, 10.0)
        store.note_shown(digest, SHOWN)
    assert store.noted_coin(DIGEST) is None
    assert (
        store.note_coin(DIGEST, b"coin") == store.note_coin(DIGEST, b"another") == store.noted_coin(DIGEST) == b"coin"
    )
    store.close_batch(DIGEST, replace(closed(), openers=(1, 3)))
    store.close_batch(OTHER, closed())
    store.close()
    again = BatchStore(tmp_path / "batches.sqlite")
    assert (again.find(DIGEST).closed.openers, again.find(OTHER).closed.openers) == ((1, 3), ())


def test_an_unknown_batch_is_not_closed(store):
    with pytest.raises(BatchStoreError, match="closed once"):
        store.close_batch(DIGEST, closed())


def test_answers_are_noted_once_and_a_batch_is_closed_with_those_alone(store):
    store.add(DIGEST, OPEN, 10.0)
    with pytest.raises(BatchStoreError, match="closed once"):
        store.close_batch(DIGEST, closed())
    store.note_shown(DIGEST, SHOWN)
    with pytest.raises(BatchStoreError, match="noted once"):
        store.note_shown(DIGEST, ShownList(b"m" * 32, np.ones(3, dtype=np.bool_)))
    with pytest.raises(BatchStoreError, match="closed once"):
        store.close_batch(DIGEST, closed(cohort=(True,) * 4))
    assert store.find(DIGEST).shown.digest == SHOWN.digest


def test_no_byte_of_the_key_stays_on_the_disk(store, tmp_path):
    store.add(DIGEST, OPEN, 10.0)
    files = list(tmp_path.glob("batches.sqlite*"))
    assert any(KEY in path.read_bytes() for path in files)
    store.note_shown(DIGEST, SHOWN)
    store.close_batch(DIGEST, closed())
    assert not any(KEY in path.read_bytes() for path in tmp_path.glob("batches.sqlite*"))


def test_open_batches_are_forgotten_after_their_time_and_closed_ones_never(store):
    store.add(DIGEST, OPEN, 10.0)
    store.add(OTHER, OPEN, 10.0)
    store.note_shown(OTHER, SHOWN)
    store.close_batch(OTHER, closed())
    assert store.forget(10.0) == 1
    assert store.forget(11.0) == 0
    assert store.find(DIGEST) is None
    assert store.find(OTHER).closed is not None


def test_nothing_secret_is_shown(store):
    store.add(DIGEST, OPEN, 10.0)
    assert str(KEY) not in repr(store.find(DIGEST))
    assert "share" not in repr(closed())


def test_the_file_is_its_owners_and_an_unusable_one_is_said(tmp_path):
    BatchStore(tmp_path / "batches.sqlite").close()
    assert (tmp_path / "batches.sqlite").stat().st_mode & 0o077 == 0
    (tmp_path / "damaged").write_bytes(b"no database at all, but long enough to be read as one")
    with pytest.raises(BatchStoreError, match="cannot be used"):
        BatchStore(tmp_path / "damaged")
    with pytest.raises(BatchStoreError, match="cannot be opened"):
        BatchStore(tmp_path / "no folder" / "batches.sqlite")


def test_a_step_that_cannot_be_written_leaves_the_batch_as_it_was(store, monkeypatch):
    store.add(DIGEST, OPEN, 10.0)
    store.note_shown(DIGEST, SHOWN)
    before = store.find(DIGEST)
    store._db.connection.execute("CREATE TRIGGER no BEFORE UPDATE ON batches BEGIN SELECT RAISE(ABORT, 'full'); END")
    with pytest.raises(BatchStoreError):
        store.close_batch(DIGEST, closed())
    after = store.find(DIGEST)
    assert (after.private, after.closed) == (before.private, None) == (KEY, None)


def test_the_first_coin_of_an_open_batch_stands(store, tmp_path):
    store.add(DIGEST, OPEN, 10.0)
    assert store.note_coin(DIGEST, b"c" * 32) == b"c" * 32
    store.close()
    again = BatchStore(tmp_path / "batches.sqlite")
    assert again.note_coin(DIGEST, b"d" * 32) == b"c" * 32
    again.note_shown(DIGEST, SHOWN)
    again.close_batch(DIGEST, closed())
    for digest in (DIGEST, OTHER):
        with pytest.raises(BatchStoreError, match="while the batch is open"):
            again.note_coin(digest, b"c" * 32)
    again.close()


def test_what_was_rejected_is_kept_with_what_is_closed(store):
    for digest, rejected in ((DIGEST, None), (OTHER, np.array([False, True, False]))):
        store.add(digest, OPEN, 10.0)
        store.note_shown(digest, SHOWN)
        store.close_batch(digest, ClosedBatch(np.array([True, False, True]), b"share", rejected))
    assert store.find(DIGEST).closed.rejected is None
    assert store.find(OTHER).closed.rejected.tolist() == [False, True, False]


def test_a_file_of_the_version_before_proofs_is_opened_and_takes_them(store, tmp_path):
    store.add(DIGEST, OPEN, 10.0)
    store._db.connection.execute("DROP TABLE proofs")
    store._db.connection.execute("PRAGMA user_version = 1")
    store.close()
    again = BatchStore(tmp_path / "batches.sqlite")
    assert again.find(DIGEST) == OPEN
    assert again.note_coin(DIGEST, b"c" * 32) == b"c" * 32
    again.forget(11.0)
    assert again._db.read("SELECT * FROM proofs") == []
    again.close()
