import sqlite3
import stat
from pathlib import Path

import pytest
from job_store_contract import job_in
from stores import jobs_in

from analyses.job.job import Job
from coordinator.sql_store import SqlJobStore
from coordinator.state import State
from coordinator.store import StoreError


def test_a_step_is_on_disk_when_the_process_dies(path: Path, store: SqlJobStore, job: Job, tmp_path: Path) -> None:
    job_id = job_in(store, State.RUNNING, job)
    for file in path.parent.glob("jobs.sqlite*"):  # what a crash leaves: the files as they are, nothing closed
        (tmp_path / "after").mkdir(exist_ok=True)
        (tmp_path / "after" / file.name).write_bytes(file.read_bytes())
    found = jobs_in(tmp_path / "after" / "jobs.sqlite")
    assert found.record(job_id).state is State.RUNNING
    found.close()


def test_the_file_is_for_its_owner_only(path: Path, store: SqlJobStore) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_second_coordinator_is_refused(path: Path, store: SqlJobStore) -> None:
    with pytest.raises(StoreError, match="does another process use it"):
        jobs_in(path)


def test_a_file_that_is_no_store_is_refused_and_kept(path: Path) -> None:
    path.write_text("name,age\n" * 200)
    with pytest.raises(StoreError, match="not a database"):
        jobs_in(path)
    assert path.read_text() == "name,age\n" * 200


def test_a_store_of_another_version_is_refused(path: Path) -> None:
    newer = sqlite3.connect(path)
    newer.execute("PRAGMA user_version = 99")
    newer.close()
    with pytest.raises(StoreError, match="version 99"):
        jobs_in(path)


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"absent/jobs.sqlite cannot be opened: No such file or directory"):
        jobs_in(tmp_path / "absent" / "jobs.sqlite")
