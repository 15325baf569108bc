from collections.abc import Iterator
from pathlib import Path

import pytest
from stores import jobs_in

from analyses.job.job import Job
from coordinator.sql_store import SqlJobStore


def a_job(title: str = "") -> Job:
    return Job.model_validate(
        {
            "analysis": "pca",
            "title": title,
            "inputs": [{"party": party, "table": "visits"} for party in ("north", "south", "west")],
            "privacy": {"epsilon": 1.0, "delta": 1e-6},
        }
    )


class Clock:
    """Unix time that a test sets."""

    now_s = 1_000_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def job() -> Job:
    return a_job()


@pytest.fixture
def other_job() -> Job:
    return a_job("another")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.sqlite"


@pytest.fixture
def store(path: Path, clock: Clock) -> Iterator[SqlJobStore]:
    store = jobs_in(path, clock=clock)
    yield store
    store.close()
