"""Stores of surveys and batches in PostgreSQL, on a real server: the promises of a lease."""

import pytest
from device_store_contracts import ID, given
from leases import let_it_lapse
from postgres import throwaway_cluster
from stores import LeadingDatabase

from coordinator.leading.fenced_database import FencedDatabase
from coordinator.leading.lease import SupersededError
from coordinator.stores import batches, surveys
from coordinator.stores.batches import BatchesStore, BatchesUnusableError
from coordinator.stores.question import Outcome
from coordinator.stores.surveys import Given, SurveyStore, SurveyStoreError


def surveys_at(url, holder="one"):
    return SurveyStore(LeadingDatabase(url, surveys.TABLES, holder))


def batches_at(url, holder="one"):
    return BatchesStore(LeadingDatabase(url, batches.TABLES, holder))


def test_nothing_is_taken_once_another_coordinator_leads_which_finds_what_was_taken(url):
    before = surveys_at(url, "one")
    number = before.add(ID, "ada", "{}").number
    assert before.take([Given(number, "ann", 1)]) == [Outcome.TAKEN]
    let_it_lapse(url)
    after = surveys_at(url, "two")
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
    before = batches_at(url, "one")
    before.add(ID, "ada", "{}", b"keys", 5)
    assert before.take([given("ann")]) == [Outcome.TAKEN]
    let_it_lapse(url)
    after = batches_at(url, "two")
    for write in (
        lambda: before.take([given("ben")]),
        lambda: before.add(b"b" * 16, "ada", "{}", b"keys", 5),
        lambda: before.close_question(1),
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

    (pid,) = store._db.connection.execute("SELECT pg_backend_pid()").fetchone()
    with psycopg.connect(url, autocommit=True) as database:
        database.execute("SELECT pg_terminate_backend(%s)", (pid,))


def test_a_connection_that_broke_is_made_anew_and_the_work_is_done_once_more(url):
    store = surveys_at(url)
    number = store.add(ID, "ada", "{}").number
    break_connection(store, url)
    assert store.take([Given(number, "ann", 1)]) == [Outcome.TAKEN]
    break_connection(store, url)
    assert store.n_answers(number) == 1
    store.close()


def test_a_database_that_is_away_is_said_to_be_so_and_nothing_is_written():
    with throwaway_cluster() as url:
        database = LeadingDatabase(url, surveys.TABLES)
        asked, summed = SurveyStore(database), BatchesStore(FencedDatabase(database.lease, batches.TABLES))
        number = asked.add(ID, "ada", "{}").number
        summed.add(ID, "ada", "{}", b"keys", 5)
    with pytest.raises(SurveyStoreError, match="the jobs' database cannot be used now"):
        asked.take([Given(number, "ann", 1)])
    with pytest.raises(BatchesUnusableError, match="the jobs' database cannot be used now"):
        summed.take([given("ann")])
    summed.close()
    asked.close()
