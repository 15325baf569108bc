"""What earlier code kept on disk is opened by this code, says what it said then, and goes on."""

import json
import shutil
import sys
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest
from ledgers import budget, ledger_in, reserve
from stores import batches_in, jobs_in, surveys_in

from coordinator.state import State
from device.journal import SqliteSampleJournal, SqliteSumJournal
from device.response_store import Begun, ResponseStore
from ledger.books import ChargeError
from mpc.secagg.errors import RoundReusedError
from mpc.transcript import RoundId
from party.batches.store import BatchStore, BatchStoreError, ClosedBatch
from party.tables.kept_matches import KeptMatches
from service.files.private_report import report_path

STATES = Path(__file__).parent / "states"
EARLIER = sorted(path.name for path in STATES.iterdir() if path.is_dir() and path.name != "__pycache__")


@pytest.fixture(params=EARLIER)
def state(request, tmp_path):
    """A copy of what one earlier commit kept, with the rights that services give their files."""
    shutil.copytree(STATES / request.param, tmp_path / "state")
    for path in (tmp_path / "state").rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    return tmp_path / "state"


def test_there_is_a_state_of_earlier_code():
    assert "507ed98" in EARLIER


def test_a_ledger_remembers_what_was_spent_and_takes_more(state):
    with closing(ledger_in(state / "party")) as ledger:
        (balance,) = ledger.balances()
        assert balance.budget == budget()
        assert ledger.release_leftovers("restarted") == ["job-3"]
        for spent in ("job-1", "job-2"):
            with pytest.raises(ChargeError):
                reserve(ledger, spent)
        reserve(ledger, "job-4", Fraction(1, 100))
        ledger.commit("job-4")
    with closing(ledger_in(state / "party")) as again:
        assert [again.charge(f"job-{i}").state.name for i in (1, 2, 4)] == ["COMMITTED", "RELEASED", "COMMITTED"]


def test_a_party_keeps_its_batch_its_match_and_its_report(state):
    with closing(BatchStore(state / "party" / "batches.sqlite")) as store:
        found = store.find(bytes(32))
        assert (found.private, found.closed.share) == (None, b"share")
        assert found.closed.cohort.tolist() == [True, False, True]
        with pytest.raises(BatchStoreError, match="closed once"):
            store.close_batch(bytes(32), ClosedBatch(found.closed.cohort, b"another"))
    matches = KeptMatches(state / "party")
    assert matches.ids() == ["job-3"]
    assert matches.rows("job-3").tolist() == [4, 0, 2]
    assert json.loads(report_path(state / "party", "job-1").read_text())["rows"] == 5


def test_a_coordinator_knows_its_jobs_and_goes_on(state):
    with closing(jobs_in(state / "coordinator" / "jobs.sqlite")) as jobs:
        waits, failed, done = jobs.records("ada")
        assert [one.state for one in (waits, failed, done)] == [State.SUBMITTED, State.FAILED, State.DONE]
        assert (failed.reason, failed.culprit) == ("north was away [not-reachable]", "north")
        assert dict(jobs.texts(done.job_id))["result_json"] == '{"answer":42}'
        assert [event.percent for event in jobs.events(done.job_id) if event.member == "north"] == [100]
        assert jobs.unended() == [waits.job_id]
        jobs.advance(waits.job_id, State.PROPOSED)


def test_a_coordinator_knows_what_devices_answered(state):
    with closing(surveys_in(state / "coordinator" / "surveys.sqlite")) as surveys:
        (asked,) = surveys.unended()
        assert surveys.counts(asked.number, 6).tolist() == [0, 0, 0, 1, 0, 0]
        assert surveys.has_answered(asked.number, "ann")
    with closing(batches_in(state / "coordinator" / "batches.sqlite")) as batches:
        (batch,) = batches.unended()
        assert batches.answers(batch.number, "", 10) == [("ann", b"sealed")]


def test_a_device_answers_nothing_twice(state):
    folder = state / "device"
    with closing(ledger_in(folder, party="ann")) as ledger:
        assert ledger.charge("round-1").state.name == "COMMITTED"
    with closing(SqliteSumJournal(folder / "sums.sqlite")) as journal:
        for attempt in (0, 1):
            with pytest.raises(RoundReusedError):
                journal.open_round(RoundId("5" * 32, 0, attempt))
        journal.open_round(RoundId("6" * 32, 0, 0))
    with closing(SqliteSampleJournal(folder / "samples.sqlite")) as samples:
        assert samples.begin(b"series", b"another key") == (b"key", 1)
    for name in ("responses.sqlite", "batches.sqlite"):
        with closing(ResponseStore(folder / name)) as store:
            assert store.find(bytes(32)) == Begun(b"answer")


def test_this_code_writes_states_that_can_be_kept(tmp_path):
    """The maker of states runs, so that the next one can be made."""
    sys.path.insert(0, str(STATES))
    try:
        import make
    finally:
        sys.path.remove(str(STATES))
    for role, write in make.STATES.items():
        (tmp_path / role).mkdir()
        write(tmp_path / role)
    made, kept = (
        {str(path.relative_to(top)) for path in top.rglob("*") if path.is_file()}
        for top in (tmp_path, STATES / EARLIER[-1])
    )
    assert made == kept
