"""The coordinator's batches on disk: one answer of each device, no more than there may be, emptied at the end."""

import pytest

from coordinator.batches.store import BatchesStore, BatchesUnusableError, GivenAnswer
from coordinator.surveys.store import Outcome


@pytest.fixture
def store(tmp_path):
    found = BatchesStore(tmp_path / "batches.sqlite")
    yield found
    found.close()


def given(name, body=b"sealed", batch=1):
    return GivenAnswer(batch, name, body)


def test_the_first_answer_of_a_device_stands(store):
    store.add(bytes(16), "ada", "{}", b"keys", 5)
    outcomes = store.take([given("ann"), given("ann"), given("ann", b"another"), given("ben")])
    assert outcomes == [Outcome.TAKEN, Outcome.REPEATED, Outcome.CONTRADICTED, Outcome.TAKEN]
    assert store.answers(1, "", 10) == [("ann", b"sealed"), ("ben", b"sealed")]
    assert store.answers(1, "ann", 10) == [("ben", b"sealed")]
    assert store.names(1) == ["ann", "ben"]
    assert (store.has_answered(1, "ann"), store.has_answered(1, "cem")) == (True, False)


def test_no_more_are_taken_than_there_may_be_and_none_of_a_closed_batch(store):
    store.add(bytes(16), "ada", "{}", b"keys", 2)
    found = store.take([given("ann"), given("ben"), given("cem")])
    assert found == [Outcome.TAKEN, Outcome.TAKEN, Outcome.CLOSED]
    store.add(b"b" * 16, "ada", "{}", b"keys", 9)
    assert store.close_batch(2).is_closed
    assert store.take([given("ann", batch=2)]) == [Outcome.CLOSED]
    assert store.take([given("ann")]) == [Outcome.REPEATED]


def test_batches_and_their_counts_outlive_the_process(store, tmp_path):
    store.add(bytes(16), "ada", "{}", b"keys", 5)
    store.take([given("ann")])
    store.close()
    again = BatchesStore(tmp_path / "batches.sqlite")
    (found,) = again.unended()
    assert (found.n_answers, found.keys, found.is_closed) == (1, b"keys", False)
    again.close_batch(1)
    again.end(1, result_json="{}")
    assert again.unended() == []
    assert again.find(bytes(16)).result_json == "{}"
    assert again.answers(1, "", 10) == [("ann", b"")]
    assert again.take([given("ann"), given("ann", b"another")]) == [Outcome.REPEATED, Outcome.CONTRADICTED]
    again.close()


def test_a_file_in_use_or_of_another_version_is_refused(store, tmp_path):
    with pytest.raises(BatchesUnusableError, match="cannot be used"):
        BatchesStore(tmp_path / "batches.sqlite")
    store._db.execute("PRAGMA user_version = 7")
    store.close()
    with pytest.raises(BatchesUnusableError, match="version 7"):
        BatchesStore(tmp_path / "batches.sqlite")
