"""A coordinator that kills itself by SIGKILL at an exact moment of a job: which one, a file says.

The moments: `before STATE` and `after STATE`, where the step of a job to a state is written to its store, and `PARTY in
STAGE`, where it has heard that a party is in a stage. It dies once: the file is emptied before. With `cannot write
STATE` it lives, and its disk is full where it would write that.
"""

import os
import signal
from pathlib import Path

from cli.main import app
from coordinator.journal import Journal
from coordinator.sqlite_store import SqliteJobStore
from coordinator.store import StoreWriteError

DIES_AT = "TEST_COORDINATOR_DIES_AT"
"""Environment variable: the file with the moment; empty for none."""

_advance, _record_progress = SqliteJobStore.advance, Journal.record_progress


def die_at(moment):
    path = Path(os.environ[DIES_AT])
    if path.read_text() == moment:
        path.write_text("")
        os.kill(os.getpid(), signal.SIGKILL)


def advance(self, job_id, state, **what):
    if Path(os.environ[DIES_AT]).read_text() == f"cannot write {state}":
        raise StoreWriteError("the disk is full")
    die_at(f"before {state}")
    _advance(self, job_id, state, **what)
    die_at(f"after {state}")


def record_progress(self, job_id, *, stage, member, **what):
    die_at(f"{member} in {stage}")
    _record_progress(self, job_id, stage=stage, member=member, **what)


def main() -> None:
    """Be the command, of a coordinator that dies; a forked service calls this."""
    SqliteJobStore.advance = advance
    Journal.record_progress = record_progress
    app()


if __name__ == "__main__":
    main()
