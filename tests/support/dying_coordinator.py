"""A coordinator that kills itself by SIGKILL at an exact moment of a job: which one, a file says.

The moments: `before STATE` and `after STATE`, where the step of a job to a state is written to its store, and `PARTY in
STAGE`, where it has heard that a party is in a stage. Of several, with ` or ` between them, it is the first. It dies
once: the file is emptied before. After `stop: ` it is stopped at the moment instead, until somebody lets it go on. With
`cannot write STATE` it lives, and its disk is full where it would write that.
"""

import os
import signal
from pathlib import Path

from cli.main import app
from coordinator.journal import Journal
from coordinator.sql_store import SqlJobStore
from coordinator.store import StoreWriteError

DIES_AT = "TEST_COORDINATOR_DIES_AT"
"""Environment variable: the file with the moment; empty for none."""
STOP = "stop: "

_record_progress = Journal.record_progress


def die_at(moment):
    path = Path(os.environ[DIES_AT])
    told = path.read_text()
    if moment in told.removeprefix(STOP).split(" or "):
        path.write_text("")
        os.kill(os.getpid(), signal.SIGSTOP if told.startswith(STOP) else signal.SIGKILL)


def dying(advance):
    def dying_advance(self, job_id, state, **what):
        if Path(os.environ[DIES_AT]).read_text() == f"cannot write {state}":
            raise StoreWriteError("the disk is full")
        die_at(f"before {state}")
        advance(self, job_id, state, **what)
        die_at(f"after {state}")

    return dying_advance


def record_progress(self, job_id, *, stage, member, **what):
    die_at(f"{member} in {stage}")
    _record_progress(self, job_id, stage=stage, member=member, **what)


def main() -> None:
    """Be the command, of a coordinator that dies; a forked service calls this."""
    SqlJobStore.advance = dying(SqlJobStore.advance)
    Journal.record_progress = record_progress
    app()


if __name__ == "__main__":
    main()
