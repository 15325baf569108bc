"""Stores of surveys and batches in PostgreSQL, on a real server: the promises of every store, and those of a lease."""

import pytest
from device_store_contracts import ID, BatchesStoreContract, SurveyStoreContract, given
from leases import lease_on, let_it_lapse
from postgres import schema_of_its_own, throwaway_cluster

from coordinator.batches.postgres_store import PostgresBatchesStore
from coordinator.batches.store import BatchesUnusableError
from coordinator.leading.lease import SupersededError
from coordinator.surveys.postgres_store import PostgresSurveyStore
from coordinator.surveys.store import Given, Outcome, SurveyStoreError


def leading(kind, url, holder="one"):
    """Return a store whose coordinator leads as long as it is open."""
    lease = lease_on(url, holder)
    assert lease.take()
    store = kind(lease)
    close = store.close

    def release():
        close()
        lease.release()

    store.close = release
    return store


class TestPostgresSurveyStore(SurveyStoreContract):
    @pytest.fixture(autouse=True)
    def _on(self, cluster):
        self.cluster = cluster

    def open(self, folder):
        return leading(PostgresSurveyStore, schema_of_its_own(self.cluster, str(folder)))


class TestPostgresBatchesStore(BatchesStoreContract):
    @pytest.fixture(autouse=True)
    def _on(self, cluster):
        self.cluster = cluster

    def open(self, folder):
        return leading(PostgresBatchesStore, schema_of_its_own(self.cluster, str(folder)))


def test_nothing_is_taken_once_another_coordinator_leads_which_finds_what_was_taken(url):
    before = leading(PostgresSurveyStore, url, "one")
    number = before.add(ID, "ada", "{}").number
    assert before.take([Given(number, "ann", 1)]) == [Outcome.TAKEN]
    let_it_lapse(url)
    after = leading(PostgresSurveyStore, url, "two")
    for write in (
        lambda: before.take([Given(number, "ben", 1)]),
        lambda: before.add(b"b" * 16, "ada", "{}"),
        lambda: before.close_question(number),
        lambda: before.end(number, failure="nobody"),
    ):
        with pytest.raises(SupersededError):
            write()
    assert after.take([Given(number, "ann", 1), Given(number, "ann", 2)]) == [Outcome.REPEATED, Outcome.CONTRADICTED]
    assert after.counts(number, 3).tolist() == [0, 1, 0]
    assert [one.number for one in after.unended()] == [number]
    for store in (before, after):
        store.close()


def test_no_answer_to_a_batch_is_taken_once_another_coordinator_leads(url):
    before = leading(PostgresBatchesStore, url, "one")
    before.add(ID, "ada", "{}", b"keys", 5)
    assert before.take([given("ann")]) == [Outcome.TAKEN]
    let_it_lapse(url)
    after = leading(PostgresBatchesStore, url, "two")
    for write in (
        lambda: before.take([given("ben")]),
        lambda: before.add(b"b" * 16, "ada", "{}", b"keys", 5),
        lambda: before.close_batch(1),
        lambda: before.end(1, failure="nobody"),
    ):
        with pytest.raises(SupersededError):
            write()
    assert after.take([given("ann"), given("ben")]) == [Outcome.REPEATED, Outcome.TAKEN]
    assert after.names(1) == ["ann", "ben"]
    for store in (before, after):
        store.close()


def break_connection(store, url):
    import psycopg

    (pid,) = store._db.execute("SELECT pg_backend_pid()").fetchone()
    with psycopg.connect(url, autocommit=True) as database:
        database.execute("SELECT pg_terminate_backend(%s)", (pid,))


def test_a_connection_that_broke_is_made_anew_and_the_work_is_done_once_more(url):
    store = leading(PostgresSurveyStore, url)
    number = store.add(ID, "ada", "{}").number
    break_connection(store, url)
    assert store.take([Given(number, "ann", 1)]) == [Outcome.TAKEN]
    break_connection(store, url)
    assert store.n_responses(number) == 1
    store.close()


def test_a_database_that_is_away_is_said_to_be_so_and_nothing_is_written():
    with throwaway_cluster() as url:
        surveys, batches = leading(PostgresSurveyStore, url), None
        batches = PostgresBatchesStore(surveys._lease)
        number = surveys.add(ID, "ada", "{}").number
        batches.add(ID, "ada", "{}", b"keys", 5)
    with pytest.raises(SurveyStoreError, match="the jobs' database cannot be used now"):
        surveys.take([Given(number, "ann", 1)])
    with pytest.raises(BatchesUnusableError, match="the jobs' database cannot be used now"):
        batches.take([given("ann")])
    batches.close()
    surveys.close()
