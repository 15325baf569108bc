"""An engine of stores: SQLite without a write-ahead log, for a folder on a network drive. See docs/recipes.md.

python examples/database.py     submits a job, ends it, and finds it again after another start
"""

import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from analyses.job.job import Job
from coordinator.sql_store import TABLES, SqlJobStore
from coordinator.state import State
from service.database.database import Run, Tables
from service.database.sqlite import Spelt

T = TypeVar("T")


class NetworkDriveDatabase:
    """Implements `Database`. Call it from one thread.

    Args:
        path: of the file; made where absent.
        tables: that it holds.
    """

    def __init__(self, path: Path, tables: Tables) -> None:
        self._tables = tables
        self._spelt = Spelt(tables.prefix)
        try:
            self._connection = sqlite3.connect(path, isolation_level=None)
            for statement in (
                "PRAGMA locking_mode = EXCLUSIVE",
                "PRAGMA synchronous = FULL",
                *tables.schema.split(";\n"),
            ):
                self._run(statement)
        except sqlite3.Error as error:
            raise tables.failure(f"{tables.what} {path} cannot be used: {error}") from error

    def _run(self, statement: str, *values: object) -> Any:
        return self._connection.execute(self._spelt[statement], values)

    def read(self, statement: str, *values: object) -> list[Any]:
        """See `Database`."""
        return list(self._run(statement, *values))

    def write(self, work: Callable[[Run], T]) -> T:
        """See `Database`."""
        with self.transaction() as run:
            return work(run)

    @contextmanager
    def transaction(self) -> Iterator[Run]:
        """See `Database`."""
        try:
            with self._connection:
                self._connection.execute("BEGIN EXCLUSIVE")
                yield self._run
        except sqlite3.Error as error:
            raise (self._tables.write_failure or self._tables.failure)(str(error)) from error

    def piece(self, table: str, column: str, number: int, start: int, n_bytes: int) -> bytes:
        """See `Database`."""
        with self._connection.blobopen(self._spelt[table], column, number, readonly=True) as blob:
            blob.seek(start)
            return blob.read(n_bytes)

    def close(self) -> None:
        """See `Database`."""
        self._connection.close()


def main() -> None:
    """Submit a job, end it, and look for it after another start."""
    job = Job.model_validate({"analysis": "secure-sum", "inputs": [{"party": p, "table": "t"} for p in ("a", "b")]})
    with tempfile.TemporaryDirectory() as folder:
        store = SqlJobStore(NetworkDriveDatabase(Path(folder) / "jobs", TABLES))
        job_id, _ = store.submit("ada", "key", job)
        store.advance(job_id, State.FAILED, reason="this was an example")
        store.close()
        again = SqlJobStore(NetworkDriveDatabase(Path(folder) / "jobs", TABLES))
        print(again.record(job_id).state, again.record(job_id).reason)
        again.close()


if __name__ == "__main__":
    main()
