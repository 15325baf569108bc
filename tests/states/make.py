"""Write what services keep on disk, as the code of this commit writes it: the states that later code must open.

    .venv/bin/python tests/states/make.py tests/states/NAME      # NAME: the commit, abbreviated

Run it before a change of anything on disk, and commit the folder: `tests/test_kept_states.py` opens each of them.
"""

import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from job_store_contract import a_job  # noqa: E402 -- found by the path above
from ledgers import budget, ledger_in, reserve  # noqa: E402
from stores import batches_in, jobs_in, surveys_in  # noqa: E402

from analyses.job.schema import LocalReport  # noqa: E402
from coordinator.state import State  # noqa: E402
from coordinator.store import Note  # noqa: E402
from coordinator.stores.batches import GivenAnswer  # noqa: E402
from coordinator.stores.surveys import Given  # noqa: E402
from device.journal import SqliteSampleJournal, SqliteSumJournal  # noqa: E402
from device.response_store import ResponseStore  # noqa: E402
from mpc.secagg.journal import ShareKind  # noqa: E402
from mpc.transcript import RoundId  # noqa: E402
from party.batches.store import BatchStore, ClosedBatch, KeptBatch  # noqa: E402
from party.outcome.report import write_report  # noqa: E402
from party.tables.kept_matches import KeptMatches  # noqa: E402
from questions.shares_agreement import ShownList  # noqa: E402

ROUND = RoundId("5" * 32, 0, 0)
MATCH = "job-3"


def party(folder: Path) -> None:
    """A ledger with a job paid, one given back and one held; a batch closed; a match and a report kept."""
    with closing(ledger_in(folder)) as ledger:
        ledger.set_budget("visits", budget(), "first")
        for job_id in ("job-1", "job-2", "job-3"):
            reserve(ledger, job_id)
        ledger.commit("job-1")
        ledger.release("job-2", "the analyst cancelled it")
    with closing(BatchStore(folder / "batches.sqlite")) as store:
        store.add(bytes(32), KeptBatch(bytes(range(100, 132)), b"p" * 32, b"certificate", b"signature"), 4e9)
        store.note_shown(bytes(32), ShownList(b"l" * 32, np.ones(3, dtype=np.bool_)))
        store.close_batch(bytes(32), ClosedBatch(np.array([True, False, True]), b"share"))
    KeptMatches(folder).keep(
        MATCH,
        np.array([4, 0, 2]),
        inputs={"north": "visits", "south": "visits"},
        table="visits",
        recipe=(("trim", "lower"),),
        version=None,
        ids_digest="0" * 64,
        origin=bytes(32),
    )
    write_report(
        folder,
        "job-1",
        LocalReport(n_rows=5, clipped_values={}, clipped_rows=0),
        traffic={},
        privacy={},
        budget=None,
        elapsed_s=1.0,
    )


def coordinator(folder: Path) -> None:
    """Three jobs, of which one is done, one failed and one waits; a survey and a batch with an answer each."""
    with closing(jobs_in(folder / "jobs.sqlite")) as jobs:
        done, failed, _ = (jobs.submit("ada", f"key-{i}", a_job(f"job {i}"))[0] for i in range(3))
        for step in (State.PROPOSED, State.RUNNING, State.OPENING):
            jobs.advance(done, step, plan_json='{"plan":1}' if step is State.RUNNING else "")
        jobs.record_progress([Note(done, 1_000_000.0, "opening", "north", 100)])
        jobs.advance(done, State.DONE, result_json='{"answer":42}')
        jobs.advance(failed, State.FAILED, reason="north was away [not-reachable]", culprit="north", stage="proposal")
    with closing(surveys_in(folder / "surveys.sqlite")) as surveys:
        surveys.take([Given(surveys.add(bytes(16), "ada", "{}").number, "ann", 3)])
    with closing(batches_in(folder / "batches.sqlite")) as batches:
        batches.take([GivenAnswer(batches.add(bytes(16), "ada", "{}", b"keys", 10).number, "ann", b"sealed")])


def device(folder: Path) -> None:
    """A ledger with a round paid; a round whose shares were released; coins of a series; a response kept."""
    with closing(ledger_in(folder, party="ann")) as ledger:
        ledger.set_budget("records", budget(), "first")
        reserve(ledger, "round-1", dataset="records")
        ledger.commit("round-1")
    with closing(SqliteSumJournal(folder / "sums.sqlite")) as journal:
        journal.open_round(ROUND)
        journal.record_release(ROUND, {1: ShareKind.MASK_KEY})
    with closing(SqliteSampleJournal(folder / "samples.sqlite")) as samples:
        samples.begin(b"series", b"key")
    for name in ("responses.sqlite", "batches.sqlite"):
        with closing(ResponseStore(folder / name)) as store:
            store.begin(bytes(32))
            store.keep(bytes(32), b"answer")


STATES: dict[str, Callable[[Path], None]] = {"party": party, "coordinator": coordinator, "device": device}


if __name__ == "__main__":
    for role, make in STATES.items():
        (Path(sys.argv[1]) / role).mkdir(parents=True)
        make(Path(sys.argv[1]) / role)
