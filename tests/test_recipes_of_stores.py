"""The recipes of stores and of sources of tables: their examples are run, and hold what the protocols promise."""

import json
import re
import runpy
import sqlite3
import subprocess
import sys
import tomllib
import traceback
from pathlib import Path

import pytest
from entry_store_contract import EntryStoreContract
from job_store_contract import JobStoreContract, a_job

from analyses.job.job import JobInput
from coordinator.sql_store import TABLES, SqlJobStore
from coordinator.store import JobStore, StoreError, StoreWriteError
from ledger.store import EntryStore
from party.config import PartyConfig
from party.tables.config import TableConfig
from party.tables.sources.registry import SOURCES
from party.tables.table import UnusableTableError, count_rows, describe_table, is_there, load_table

REPOSITORY = Path(__file__).parent.parent
RECIPES = (REPOSITORY / "docs" / "recipes.md").read_text(encoding="utf-8")


def example(name):
    return runpy.run_path(str(REPOSITORY / "examples" / f"{name}.py"))


LineJobStore = example("job_store")["LineJobStore"]
NetworkDriveDatabase = example("database")["NetworkDriveDatabase"]
LineEntryStore = example("entry_store")["LineEntryStore"]
SqliteQuery = example("table_source")["SqliteQuery"]


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("table_source", "columns age; 2 rows\n"),
        ("job_store", "FAILED this was an example\n"),
        ("database", "FAILED this was an example\n"),
        ("entry_store", "set; 1 entry\nfound; 1 entry\n"),
    ],
)
def test_the_example_runs_as_a_program(name, printed):
    done = subprocess.run(
        [sys.executable, REPOSITORY / "examples" / f"{name}.py"],
        capture_output=True,
        text=True,
        check=True,
        cwd=REPOSITORY,
        env={"PYTHONPATH": str(REPOSITORY)},
    )
    assert done.stdout == printed


class TestJobsOnAnotherEngine(JobStoreContract):
    def open(self, folder, clock):
        return SqlJobStore(NetworkDriveDatabase(folder / "jobs", TABLES), clock=clock)


class TestLineJobStore(JobStoreContract):
    def open(self, folder, clock):
        return LineJobStore(folder / "jobs", clock=clock)

    def test_a_change_that_was_cut_by_a_crash_has_not_happened(self, store, tmp_path, clock):
        job_id, _ = store.submit("ada", "key", a_job())
        store.close()
        with (tmp_path / "jobs").open("ab") as file:
            file.write(json.dumps({"job_id": job_id, "state": "PROP"}).encode()[:-3])
        again = self.open(tmp_path, clock)
        assert again.record(job_id).state == "SUBMITTED"
        again.close()

    def test_a_second_process_is_refused_and_a_full_disk_is_told(self, store, tmp_path, clock):
        with pytest.raises(StoreError, match="another process"):
            self.open(tmp_path, clock)
        with Path("/dev/full").open("r+b", buffering=0) as full:
            own, store._file = store._file, full
            with pytest.raises(StoreWriteError, match="No space left"):
                store.submit("ada", "key", a_job())
            store._file = own
        assert store.records("ada") == []


class TestLineEntryStore(EntryStoreContract):
    def open(self, place):
        return LineEntryStore(place)


def methods(protocol):
    return {name for name in vars(protocol) if not name.startswith("_") and callable(getattr(protocol, name))}


def test_the_examples_have_every_method_of_their_protocols():
    assert methods(JobStore) <= set(dir(LineJobStore))
    assert methods(EntryStore) <= set(dir(LineEntryStore))


# Sources of tables

WANTED = JobInput(party="north", table="visits")


@pytest.fixture
def config(tmp_path, monkeypatch):
    """A party whose table is what the page shows, on a database that is not there yet."""
    monkeypatch.setitem(SOURCES, "sqlite", SqliteQuery)
    (section,) = re.findall(r"```toml\n(.*?)```", RECIPES, flags=re.DOTALL)
    source = tomllib.loads(section)["tables"]["source"]
    document = {
        "name": "north",
        "federation": "clinics",
        "data_dir": "data",
        "tls": dict.fromkeys(("authority", "certificate", "key"), "file.pem"),
        "coordinator": {"name": "coordinator", "address": "127.0.0.1:7100"},
        "peers": {"south": "127.0.0.1:7102", "west": "127.0.0.1:7103"},
        "tables": [{"name": "visits", "id_column": "patient", "bounds": {"age": [0, 120]}, "source": source}],
    }
    return PartyConfig.model_validate(document, context={"folder": tmp_path})


def fill(path, *rows, columns="patient TEXT, age"):
    database = sqlite3.connect(path)
    database.execute(f"CREATE TABLE visits ({columns})")
    marks = ", ".join("?" * (columns.count(",") + 1))
    database.executemany(f"INSERT INTO visits VALUES ({marks})", rows)
    database.commit()
    database.close()


def test_the_table_of_the_page_is_described_without_a_database_and_read_from_it_in_its_order(config, tmp_path):
    assert [column.name for column in describe_table(config, WANTED).columns] == ["age"]
    assert not is_there(config.tables[0])
    fill(tmp_path / "clinic.sqlite", ("p-2", 47.5), ("p-1", 31))
    assert is_there(config.tables[0])
    assert count_rows(config, "visits") == 2
    assert load_table(config, WANTED).values.tolist() == [[31.0], [47.5]]


def test_no_row_of_the_database_decides_how_the_values_of_others_are_read(config, tmp_path):
    (visits,) = config.tables
    kind = {"kind": "category", "values": ["1", "2"], "others": "other"}
    table = {**visits.model_dump(exclude={"source", "bounds"}), "bounds": {}, "columns": {"town": kind}}
    found = []
    for name, more in (("a", []), ("b", [("p-9", 1.5)]), ("c", [("p-9", "x")])):
        fill(tmp_path / name, ("p-1", 1), ("p-2", 2), *more, columns="patient TEXT, town")
        source = SqliteQuery(path=tmp_path / name, query="SELECT patient, town FROM visits ORDER BY patient")
        owner = config.model_copy(update={"tables": (TableConfig.model_validate({**table, "source": source}),)})
        found.append(load_table(owner, WANTED).values[:2].tolist())
    assert found[0] == found[1] == found[2] == [[1, 0, 0], [0, 1, 0]]


@pytest.mark.parametrize(
    ("rows", "columns", "words"),
    [
        (None, "", "cannot be opened, or refuses the query"),
        ([("secret-1",)], "patient TEXT", "cannot be opened, or refuses the query"),
        ([("secret-1", "secret-2")], "patient TEXT, age", "column 'age' is not numeric"),
        (
            [("secret-1", 3.5), ("secret-2", "secret-3")],
            "patient TEXT, age",
            "column 'age' is not numeric|more than one",
        ),
        ([("secret-1", None)], "patient TEXT, age", "column 'age' has an empty value"),
        ([("secret-1", 4711), ("secret-1", 4712)], "patient TEXT, age", "names a row twice"),
        ([], "patient TEXT, age", "it has no rows"),
    ],
)
def test_a_database_that_cannot_serve_is_told_to_its_owner_without_data(config, tmp_path, rows, columns, words):
    if rows is not None:
        fill(tmp_path / "clinic.sqlite", *rows, columns=columns)
    with pytest.raises(UnusableTableError) as caught:
        load_table(config, WANTED)
    assert re.search(words, caught.value.detail)
    told = caught.value.detail + "".join(traceback.format_exception(caught.value))
    assert not re.search(r"secret|4711|4712|clinic.sqlite", told)
