"""What every store of jobs must do: one class of tests, run against each implementation."""

import time
from collections.abc import Callable, Iterator
from itertools import pairwise, product
from pathlib import Path

import pytest

from analyses.job.job import Job
from coordinator.state import IllegalStepError, State
from coordinator.store import MAX_CHARACTERS, PIECE_BYTES, Event, JobNotFoundError, JobStore, KeyReusedError, Note

PATHS_TO = {
    State.SUBMITTED: [],
    State.PROPOSED: [State.PROPOSED],
    State.RUNNING: [State.PROPOSED, State.RUNNING],
    State.OPENING: [State.PROPOSED, State.RUNNING, State.OPENING],
    State.DONE: [State.PROPOSED, State.RUNNING, State.OPENING, State.DONE],
    State.FAILED: [State.FAILED],
    State.CANCELLED: [State.CANCELLED],
}
LEGAL = {
    *pairwise((State.SUBMITTED, State.PROPOSED, State.RUNNING, State.OPENING, State.DONE)),
    *product((State.SUBMITTED, State.PROPOSED, State.RUNNING, State.OPENING), (State.FAILED, State.CANCELLED)),
}


def job_in(store: JobStore, state: State, job: Job, key: str = "key") -> str:
    job_id, _ = store.submit("ada", key, job)
    for step in PATHS_TO[state]:
        store.advance(job_id, step)
    return job_id


class Clock:
    """Unix time that a test sets."""

    now_s = 1_000_000.0

    def __call__(self) -> float:
        return self.now_s


def a_job(title: str = "") -> Job:
    return Job.model_validate(
        {
            "analysis": "pca",
            "title": title,
            "inputs": [{"party": party, "table": "visits"} for party in ("north", "south", "west")],
            "privacy": {"epsilon": 1.0, "delta": 1e-6},
        }
    )


class JobStoreContract:
    """The tests. A subclass whose name begins with `Test` says how its store is opened."""

    def open(self, folder: Path, clock: Callable[[], float]) -> JobStore:
        """Open the store in a folder; the same one whenever the folder is the same."""
        raise NotImplementedError

    @pytest.fixture
    def job(self) -> Job:
        return a_job()

    @pytest.fixture
    def other_job(self) -> Job:
        return a_job("another")

    @pytest.fixture
    def clock(self) -> Clock:
        return Clock()

    @pytest.fixture
    def store(self, tmp_path: Path, clock: Clock) -> Iterator[JobStore]:
        store = self.open(tmp_path, clock)
        yield store
        store.close()

    @pytest.mark.parametrize("before", list(State))
    def test_only_the_legal_steps_are_taken(self, store: JobStore, job: Job, before: State) -> None:
        for after in State:
            job_id = job_in(store, before, job, key=after)
            if (before, after) in LEGAL:
                store.advance(job_id, after)
                assert store.record(job_id).state is after
                assert store.events(job_id)[-1].state is after
            else:
                n_events = len(store.events(job_id))
                with pytest.raises(IllegalStepError, match=f"job {job_id} cannot go from {before} to {after}"):
                    store.advance(job_id, after)
                assert store.record(job_id).state is before
                assert len(store.events(job_id)) == n_events

    def test_a_failure_keeps_reason_culprit_stage_and_time(self, store: JobStore, job: Job, clock: object) -> None:
        job_id = job_in(store, State.RUNNING, job)
        clock.now_s += 7.5  # type: ignore[attr-defined]
        store.advance(job_id, State.FAILED, reason="west went away", culprit="west", stage="multiply")
        record = store.record(job_id)
        assert (record.reason, record.culprit, record.stage) == ("west went away", "west", "multiply")
        assert record.ended_at_s - record.submitted_at_s == 7.5
        last = store.events(job_id)[-1]
        assert (last.text, last.member, last.stage) == ("west went away", "west", "multiply")

    def test_the_plan_stays_when_the_result_comes(self, store: JobStore, job: Job) -> None:
        job_id = job_in(store, State.PROPOSED, job)
        store.advance(job_id, State.RUNNING, plan_json='{"n":1}')
        store.advance(job_id, State.OPENING)
        store.advance(job_id, State.DONE, result_json='{"r":2}')
        assert dict(store.texts(job_id)) == {
            "job_json": job.canonical_json(),
            "plan_json": '{"n":1}',
            "result_json": '{"r":2}',
        }

    def test_a_record_has_the_job_s_title(self, store: JobStore, job: Job, other_job: Job) -> None:
        for number, one in enumerate((job, other_job)):
            store.advance(store.submit("ada", f"key {number}", one)[0], State.FAILED, reason="no")
        assert [record.title for record in store.records("ada")] == ["another", ""]

    def test_a_long_text_comes_in_pieces_that_fit_a_message(self, store: JobStore, job: Job) -> None:
        result = "x" + "é" * PIECE_BYTES  # no piece ends where a character does
        job_id = job_in(store, State.OPENING, job)
        store.advance(job_id, State.DONE, result_json=result)
        pieces = list(store.texts(job_id))
        assert [name for name, _ in pieces] == ["job_json", "result_json", "result_json", "result_json"]
        assert max(len(piece.encode()) for _, piece in pieces) == PIECE_BYTES
        assert "".join(piece for name, piece in pieces if name == "result_json") == result

    def test_texts_are_those_of_the_moment_in_which_they_were_asked_for(self, store: JobStore, job: Job) -> None:
        job_id = job_in(store, State.PROPOSED, job)
        before = store.texts(job_id)
        store.advance(job_id, State.RUNNING, plan_json='{"n":1}')
        assert list(before) == [("job_json", job.canonical_json())]
        amid = store.texts(job_id)
        next(amid)
        store.advance(job_id, State.OPENING)
        assert list(amid) == [("plan_json", '{"n":1}')]
        with pytest.raises(JobNotFoundError):
            store.texts("0" * 16)

    def test_reasons_and_texts_of_events_are_cut_where_they_get_long(self, store: JobStore, job: Job) -> None:
        job_id = job_in(store, State.RUNNING, job)
        store.advance(job_id, State.FAILED, reason="because " * MAX_CHARACTERS)
        reason = store.record(job_id).reason
        assert (len(reason), reason[-3:]) == (MAX_CHARACTERS, "...")
        assert store.events(job_id)[-1].text == reason

    def test_the_same_submission_twice_is_one_job(self, store: JobStore, job: Job) -> None:
        first, is_new = store.submit("ada", "key", job)
        second, is_new_again = store.submit("ada", "key", job)
        assert (first, is_new, is_new_again) == (second, True, False)
        assert len(store.records("ada")) == 1

    def test_a_key_used_for_another_job_is_refused(self, store: JobStore, job: Job, other_job: Job) -> None:
        store.submit("ada", "key", job)
        with pytest.raises(KeyReusedError):
            store.submit("ada", "key", other_job)
        assert len(store.records("ada")) == 1

    def test_two_analysts_may_use_the_same_key(self, store: JobStore, job: Job) -> None:
        assert store.submit("ada", "key", job)[0] != store.submit("grace", "key", job)[0]

    def test_jobs_of_others_look_as_if_absent(self, store: JobStore, job: Job) -> None:
        job_id, _ = store.submit("ada", "key", job)
        with pytest.raises(JobNotFoundError) as theirs:
            store.record(job_id, analyst="grace")
        with pytest.raises(JobNotFoundError) as absent:
            store.record("0" * 16, analyst="grace")
        assert str(theirs.value).replace(job_id, "") == str(absent.value).replace("0" * 16, "")
        assert store.records("grace") == []
        assert store.record(job_id, analyst="ada").job_id == job_id

    def test_records_come_newest_first_and_limited(self, store: JobStore, job: Job) -> None:
        ids = [store.submit("ada", f"key {i}", job)[0] for i in range(3)]
        assert [record.job_id for record in store.records("ada")] == ids[::-1]
        assert [record.job_id for record in store.records("ada", limit=2)] == [ids[2], ids[1]]
        other, _ = store.submit("grace", "key", job)
        assert [record.job_id for record in store.records(None)] == [other, *ids[::-1]]
        assert [record.job_id for record in store.records(None, limit=2)] == [other, ids[2]]

    def test_progress_is_an_event_and_leaves_the_state(self, store: JobStore, job: Job) -> None:
        job_id = job_in(store, State.RUNNING, job)
        seen = store.events(job_id)[-1].sequence
        store.record_progress([Note(job_id, 12.5, "multiply", "west", 75)])
        (event,) = store.events(job_id, after=seen)
        assert event == Event(seen + 1, 12.5, State.RUNNING, "multiply", "west", 75, "")

    def test_notes_of_several_jobs_are_kept_in_order_or_not_at_all(self, store: JobStore, job: Job) -> None:
        one, two = (job_in(store, State.RUNNING, job, key=key) for key in ("one", "two"))
        seen = {job_id: store.events(job_id)[-1].sequence for job_id in (one, two)}
        notes = [
            Note(one, 1.0, "multiply", "west", text="a"),
            Note(two, 2.0, "add", "east"),
            Note(one, 3.0, "add", "west"),
        ]
        with pytest.raises(JobNotFoundError):
            store.record_progress([*notes, Note("0" * 16, 4.0, "add", "west")])
        assert all(store.events(job_id, after=after) == [] for job_id, after in seen.items())
        store.record_progress(notes)
        kept = [(e.sequence - seen[one], e.at_s, e.stage, e.text) for e in store.events(one, after=seen[one])]
        assert kept == [(1, 1.0, "multiply", "a"), (2, 3.0, "add", "")]
        assert [e.member for e in store.events(two, after=seen[two])] == ["east"]

    def test_notes_with_a_step_are_kept_before_it_and_none_with_a_step_that_is_refused(self, store, job) -> None:
        job_id, _ = store.submit("ada", "key", job)
        with pytest.raises(IllegalStepError):
            store.advance(job_id, State.DONE, notes=[Note(job_id, 1.0, "add", "west")])
        assert len(store.events(job_id)) == 1
        store.advance(
            job_id, State.PROPOSED, notes=[Note(job_id, 1.0, "add", "west"), Note(job_id, 2.0, "add", "east")]
        )
        told = [(event.state, event.stage, event.member) for event in store.events(job_id)[1:]]
        assert told == [(State.SUBMITTED, "add", "west"), (State.SUBMITTED, "add", "east"), (State.PROPOSED, "", "")]

    def test_a_restart_finds_what_had_not_ended_and_changes_nothing(
        self, tmp_path: Path, store: JobStore, job: Job
    ) -> None:
        ids = {state: job_in(store, state, job, key=state) for state in State}
        before = {state: store.record(job_id) for state, job_id in ids.items()}
        store.close()
        again = self.open(tmp_path, time.time)
        assert again.unended() == [ids[state] for state in State if not state.has_ended]
        assert {state: again.record(job_id) for state, job_id in ids.items()} == before
        again.close()

    def test_a_job_that_is_not_there_takes_no_step_and_no_note(self, store: JobStore) -> None:
        with pytest.raises(JobNotFoundError):
            store.advance("0" * 16, State.PROPOSED)
        with pytest.raises(JobNotFoundError):
            store.record_progress([Note("0" * 16, 0.0, "multiply", "west")])
        assert store.events("0" * 16) == []
