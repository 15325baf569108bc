"""The one opener of SQLite files: what is deleted, what was damaged, and what another process does meanwhile."""

import sqlite3
from contextlib import closing

import pytest
from job_store_contract import a_job
from stores import jobs_in

from coordinator.store import StoreReadError
from device.response_store import ResponseStore
from service.database.database import LongText, Tables
from service.database.sqlite import Spelt, SqliteDatabase
from service.errors import ServiceError

TABLES = Tables(
    what="the store of notes",
    failure=ServiceError,
    prefix="shared_",
    schema="""\
CREATE TABLE shared_notes (
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name TEXT COLLATE "C" NOT NULL UNIQUE,
    at_s DOUBLE PRECISION NOT NULL DEFAULT 0,
    is_read BOOLEAN NOT NULL DEFAULT FALSE,
    body BYTEA,
    text LONGTEXT NOT NULL DEFAULT ''
) /*STRICT*/""",
)


def test_a_statement_is_spelt_for_sqlite():
    said = "SELECT 1 FROM shared_notes WHERE name = %s AND body = CAST(%s AS BYTEA)"
    assert Spelt("shared_")[said] == "SELECT 1 FROM notes WHERE name = ? AND body = CAST(? AS BLOB)"


def test_values_come_back_as_they_went_in_and_later_a_version_is_refused(tmp_path):
    with closing(SqliteDatabase(tmp_path / "notes", TABLES)) as database:
        query = "INSERT INTO shared_notes (name, body, text) VALUES (%s, %s, %s) RETURNING number"
        (number,) = database.write(lambda run: run(query, "a\0", b"\0", LongText("é" * 10)).fetchone())
        assert database.read("SELECT name, body, is_read FROM shared_notes WHERE NOT is_read") == [("a\0", b"\0", 0)]
        assert database.piece("shared_notes", "text", number, 2, 4).decode() == "éé"
        database.write(lambda run: run("PRAGMA user_version = 2"))
    with pytest.raises(
        ServiceError, match=r"the store of notes .*notes has version 2; this program reads up to version 1"
    ):
        SqliteDatabase(tmp_path / "notes", TABLES)


def test_a_file_of_several_processes_is_waited_for_and_one_of_one_process_is_refused(tmp_path):
    with (
        closing(SqliteDatabase(tmp_path / "shared", TABLES, alone=False)) as one,
        closing(SqliteDatabase(tmp_path / "shared", TABLES, alone=False)) as other,
    ):
        one.write(lambda run: run("INSERT INTO shared_notes (name) VALUES (%s)", "a"))
        assert other.read("SELECT name FROM shared_notes") == [("a",)]
    with closing(SqliteDatabase(tmp_path / "own", TABLES)), pytest.raises(ServiceError, match="another process use it"):
        SqliteDatabase(tmp_path / "own", TABLES)


def test_what_a_device_said_is_overwritten_once_it_was_taken(tmp_path):
    path, said = tmp_path / "responses.sqlite", b"what the device said, at some length " * 3
    with closing(ResponseStore(path)) as store:
        store.begin(bytes(32))
        store.keep(bytes(32), said)
    assert said in path.read_bytes()
    with closing(ResponseStore(path)) as store:
        store.empty(bytes(32))
    assert b"the device said" not in path.read_bytes()


def test_a_job_store_that_cannot_be_read_says_so(tmp_path):
    path = tmp_path / "jobs.sqlite"
    with closing(jobs_in(path)) as store:
        job_id, _ = store.submit("ada", "key", a_job())
    with closing(sqlite3.connect(path)) as damaged:
        damaged.execute("DROP TABLE events")
    with (
        closing(jobs_in(path)) as store,
        pytest.raises(StoreReadError, match="the job store cannot be read: no such table"),
    ):
        store.record(job_id)
