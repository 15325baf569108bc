import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from job_store_contract import JobStoreContract, job_in

from analyses.job.job import Job
from coordinator.sqlite_store import SqliteJobStore
from coordinator.state import State
from coordinator.store import JobStore, StoreError


class TestSqliteJobStore(JobStoreContract):
    def open(self, folder: Path, clock: Callable[[], float]) -> JobStore:
        return SqliteJobStore(folder / "jobs.sqlite", clock=clock)


def test_a_step_is_on_disk_when_the_process_dies(path: Path, store: SqliteJobStore, job: Job, tmp_path: Path) -> None:
    job_id = job_in(store, State.RUNNING, job)
    for file in path.parent.glob("jobs.sqlite*"):  # what a crash leaves: the files as they are, nothing closed
        (tmp_path / "after").mkdir(exist_ok=True)
        (tmp_path / "after" / file.name).write_bytes(file.read_bytes())
    found = SqliteJobStore(tmp_path / "after" / "jobs.sqlite")
    assert found.record(job_id).state is State.RUNNING
    found.close()


def test_the_file_is_for_its_owner_only(path: Path, store: SqliteJobStore) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_second_coordinator_is_refused(path: Path, store: SqliteJobStore) -> None:
    with pytest.raises(StoreError, match="does another coordinator run"):
        SqliteJobStore(path)


def test_a_file_that_is_no_store_is_refused_and_kept(path: Path) -> None:
    path.write_text("name,age\n" * 200)
    with pytest.raises(StoreError, match="not a database"):
        SqliteJobStore(path)
    assert path.read_text() == "name,age\n" * 200


def test_a_store_of_another_version_is_refused(path: Path) -> None:
    newer = sqlite3.connect(path)
    newer.execute("PRAGMA user_version = 99")
    newer.close()
    with pytest.raises(StoreError, match="version 99"):
        SqliteJobStore(path)


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"absent/jobs.sqlite cannot be opened: No such file or directory"):
        SqliteJobStore(tmp_path / "absent" / "jobs.sqlite")
