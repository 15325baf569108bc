"""Which jobs go on after a restart of the coordinator, and why the others do not."""

import json

import pytest
from coordinator_setup import PARTIES, accepts, job_for_all
from stores import jobs_in

from analyses.job.schema import BlockSchema
from analyses.registry import analysis_of
from coordinator.proposal import JobFailedError
from coordinator.resumption import left_behind
from coordinator.state import State

JOB = job_for_all()
PLAN = analysis_of(JOB).plan(JOB, [BlockSchema.model_validate_json(accepts(name).schema_json) for name in PARTIES])
STEPS = [State.SUBMITTED, State.PROPOSED, State.RUNNING, State.OPENING, State.DONE]


@pytest.fixture
def store(tmp_path):
    made = jobs_in(tmp_path / "jobs.sqlite")
    yield made
    made.close()


def job_in(store, state, plan_json=None):
    job_id, _ = store.submit("ada", state, JOB)
    for step in STEPS[1 : STEPS.index(state) + 1]:
        given = PLAN.canonical_json() if plan_json is None else plan_json
        store.advance(job_id, step, plan_json=given if step is State.RUNNING else "")
    return job_id


async def test_jobs_that_wait_or_run_go_on_with_their_plans_and_one_that_was_proposed_has_failed(store):
    ids = {state: job_in(store, state) for state in STEPS}
    found = left_behind(store, PARTIES)
    going_on = [State.SUBMITTED, State.RUNNING, State.OPENING]
    assert [(left.job_id, left.state, left.analyst, left.job) for left in found] == [
        (ids[state], state, "ada", JOB) for state in going_on
    ]
    assert [await left.agreed_plan() for left in found[1:]] == [PLAN, PLAN]
    proposed = store.record(ids[State.PROPOSED])
    assert proposed.state is State.FAILED
    assert proposed.reason == "the coordinator restarted while the job was PROPOSED [coordinator-stopped]"
    assert {state: store.record(ids[state]).state for state in going_on} == {state: state for state in going_on}


def test_a_job_whose_party_has_left_the_roster_fails(store):
    job_id = job_in(store, State.RUNNING)
    assert left_behind(store, PARTIES[1:]) == []
    assert store.record(job_id).reason == (
        "the coordinator restarted while the job was RUNNING, and cannot run it any more: its roster no longer has "
        f"{PARTIES[0]} [coordinator-stopped]"
    )


async def test_a_plan_that_this_program_makes_otherwise_is_not_gone_on_with(store):
    other = json.loads(PLAN.canonical_json()) | {"n_primes": PLAN.n_primes + 1}
    job_in(store, State.RUNNING, json.dumps(other, sort_keys=True, separators=(",", ":")))
    (left,) = left_behind(store, PARTIES)
    with pytest.raises(JobFailedError, match="computes a different plan than the version that started the job"):
        await left.agreed_plan()
