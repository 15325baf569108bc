"""Sums as jobs, by the parties' real code and ledgers: their cost, what survives, and jobs that try to go around."""

import asyncio
import json
from dataclasses import replace

import numpy as np
import pytest
from job_builders import make_table
from ledgers import budget
from party_federation import Federation, told_by

from analyses.job.job import Job, JobError
from analyses.job.plan import OPENING_STAGE
from analyses.registry import ANALYSES, analysis_of
from analyses.sums.plan import TableSumPlan
from analyses.sums.plan import plan as make_plan
from analyses.sums.reference import reference
from ledger.entry import Committed, ExactRelease, Reserved
from mpc.protocol.session import COORDINATOR
from party.admission import RefusalError
from party.consent import ConsentBox
from party.events import FailedEvent, FinishedEvent
from party.policy import Policy, Rules

PARTIES = ("bank", "clinic", "hospital", "school", "telco")
EXACT = Policy(
    automatic=Rules(max_epsilon_per_job=1e6, exact_tables=("people",)),
    limits=Rules(exact_tables=("people",), withstand_coalition=1),
)
PRIVATE = {"privacy": {"epsilon": 4.0, "delta": 1e-6}}
COUNTED = {
    "secure-sum": {"max_rows": 100, "units": 16},
    "secure-mean": {"max_rows": 100, "units": 16},
    "secure-histogram": {"max_rows": 100, "edges": [-1, 0, 1, 3]},
}


def job_of(analysis="secure-sum", **changes):
    fields = {
        "analysis": analysis,
        "inputs": [{"party": p, "table": "people"} for p in PARTIES],
        "colluding": 1,
        "deadline_s": 40.0,
        "parameters": COUNTED[analysis],
    }
    return Job.model_validate({**fields, **changes})


def federation_in(folder, n_columns=2, **options):
    rng = np.random.default_rng(5)
    tables = {name: make_table(name, rng.uniform(-1, 3, (30, n_columns))) for name in PARTIES}
    return Federation(tables, folder, **{"deadline_s": 20.0, **options})


def entries(federation, name):
    return [entry.what for entry in federation.ledgers[name].history()]


@pytest.mark.parametrize("analysis", COUNTED)
async def test_a_noisy_answer_is_reserved_committed_and_reported_by_every_party(tmp_path, analysis):
    federation = federation_in(tmp_path, n_columns=1 if analysis == "secure-histogram" else 2)
    job = job_of(analysis, **PRIVATE)
    events, result = await federation.run(job)
    assert {name: ends[-1] for name, ends in events.items()} == dict.fromkeys(PARTIES, FinishedEvent())
    assert result["privacy"]["views"]["coalition"]["epsilon"] <= 4.0
    first = next(i for i, (_, to) in enumerate(federation.sent) if to == COORDINATOR)
    assert {stage for stage, to in federation.sent[:first]} == {"keys", "budget"}
    for name in PARTIES:
        _, reserved, committed = entries(federation, name)
        assert isinstance(reserved, Reserved)
        assert isinstance(committed, Committed)
        assert reserved.analysis == analysis
        spent = federation.ledgers[name].balance("people")
        assert 0 < spent.spent <= 4.0
        assert federation.reports[name].n_rows == 30


async def test_an_exact_answer_is_refused_by_default_with_the_reason(tmp_path):
    federation = federation_in(tmp_path)
    with pytest.raises(
        RefusalError, match="an exact result of table 'people', which has no privacy guarantee, is not allowed"
    ):
        await federation.run(job_of())
    assert federation.sent == []


async def test_an_exact_answer_waits_for_the_owner_where_only_the_limits_allow_it(tmp_path):
    policy = Policy(
        automatic=Rules(max_epsilon_per_job=1e6), limits=Rules(exact_tables=("people",), withstand_coalition=1)
    )
    federation = federation_in(tmp_path, policy=policy)
    schemas = [await federation.propose(job_of(), name) for name in PARTIES]
    plan = analysis_of(job_of()).plan(job_of(), schemas)
    asked = federation.jobs["bank"].reserve("job-1", schemas, plan.digest())
    assert "waits for its owner's approval" in await anext(asked)
    waiting, question = asyncio.create_task(anext(asked)), tmp_path / "bank" / "consent" / "job-1.json"
    async with asyncio.timeout(20):
        while not question.exists():  # noqa: ASYNC110 -- a file, as for the owner
            await asyncio.sleep(0.02)
    shown = json.loads(question.read_text())
    assert (shown["epsilon"], shown["table"]) == (None, "people")
    ConsentBox(tmp_path / "bank").answer("job-1", None)
    with pytest.raises(StopAsyncIteration):
        await waiting
    assert federation.sent == []


async def test_an_allowed_exact_answer_is_written_down_before_anything_leaves_and_says_it_protects_nobody(tmp_path):
    federation = federation_in(tmp_path, policy=EXACT)
    events, result = await federation.run(job_of())
    assert [ends[-1] for ends in events.values()] == [FinishedEvent()] * 5
    plan = analysis_of(job_of()).plan(job_of(), [table.schema for table in federation.tables.values()])
    assert result["sum"] == reference(list(federation.tables.values()), plan)["sum"]
    assert result["privacy"]["guarantee"] == "none"
    for name in PARTIES:
        _, release = entries(federation, name)
        assert release == ExactRelease("job-1", "people", "ada", "secure-sum", "policy")
        assert federation.ledgers[name].balance("people").as_dict()["exact_results"] == 1


async def test_without_a_ledger_that_takes_the_entry_no_exact_answer_leaves(tmp_path):
    federation = federation_in(tmp_path, policy=EXACT)
    await federation.reserve(job_of())
    federation.jobs["clinic"]._admission._exact.clear()
    events, _ = await run_reserved(federation)
    assert any(isinstance(ends[-1], FailedEvent) for ends in events.values())
    assert [to for _, to in federation.sent if to == COORDINATOR] == []


async def run_reserved(federation, job_id="job-1"):
    """Run an admitted job at all parties, with nobody at the coordinator's end."""

    async def events_of(name):
        return [event async for event in told_by(federation.jobs[name], job_id)]

    federation.network.deadline_s = 1.0
    found = await asyncio.gather(*map(events_of, PARTIES))
    return dict(zip(PARTIES, found, strict=True)), None


@pytest.mark.parametrize("changes", [PRIVATE, {}])
async def test_the_same_job_is_answered_once_even_after_a_restart(tmp_path, changes):
    """The ledger remembers; nothing else of the parties is kept here."""
    federation = federation_in(tmp_path, policy=EXACT)
    await federation.run(job_of(**changes))
    federation.sent.clear()
    with pytest.raises(RefusalError, match=r"a job id may be used only once|was proposed before"):
        await federation.run(job_of(**changes))
    assert federation.sent == []


async def test_a_job_may_not_change_its_kind_under_an_id_that_was_used(tmp_path):
    federation = federation_in(tmp_path, policy=EXACT)
    await federation.run(job_of(**PRIVATE))
    with pytest.raises(RefusalError, match=r"a job id may be used only once|was proposed before"):
        await federation.run(job_of())


async def test_more_than_is_left_is_refused_and_a_smaller_job_passes(tmp_path):
    federation = federation_in(tmp_path)
    for ledger in federation.ledgers.values():
        ledger.set_budget("people", budget(5.0, delta=1e-5), "test")
    await federation.run(job_of(**PRIVATE))
    with pytest.raises(RefusalError, match="the privacy budget of table 'people' does not cover this job"):
        await federation.run(job_of(**PRIVATE), job_id="job-2")
    for jobs in federation.jobs.values():
        await jobs.end_all("stop")
    events, _ = await federation.run(job_of(privacy={"epsilon": 0.5, "delta": 1e-6}), job_id="job-3")
    assert [ends[-1] for ends in events.values()] == [FinishedEvent()] * 5


@pytest.mark.parametrize("unit", ["row", "party"])
async def test_a_job_that_protects_less_than_the_budget_counts_is_refused(tmp_path, unit):
    federation = federation_in(tmp_path)
    parameters = COUNTED["secure-sum"] | {"unit": unit} | ({"party_norm": 2.0} if unit == "party" else {})
    with pytest.raises(RefusalError, match="budget of table 'people' is of the unit 'record of the joint table'"):
        await federation.run(job_of(parameters=parameters, **PRIVATE))


async def test_an_analysis_that_adds_no_noise_though_the_job_asks_for_some_is_refused(tmp_path, monkeypatch):
    class Liar(TableSumPlan):
        @property
        def is_exact(self):
            return True

    def plan(job, schemas):
        return Liar.model_validate(dict(make_plan(job, schemas)))

    monkeypatch.setitem(ANALYSES, "secure-sum", replace(ANALYSES["secure-sum"], own_plan=plan))
    federation = federation_in(tmp_path, policy=EXACT)
    with pytest.raises(
        RefusalError, match="privacy: the plan must add noise if and only if the job has a privacy target"
    ):
        await federation.run(job_of(**PRIVATE))


def test_an_analysis_with_noise_has_no_exact_answer():
    with pytest.raises(JobError, match="privacy: missing; the answer of pca is noisy"):
        analysis_of(Job.model_validate({**json.loads(job_of().canonical_json()), "analysis": "pca"}))


@pytest.mark.parametrize("stage", ["advertise keys", "share keys", "masked input", "sign survivors", OPENING_STAGE])
async def test_a_party_that_drops_out_after_the_commit_stops_neither_the_sum_nor_the_others(tmp_path, stage):
    """Five parties, one may collude: one may drop out."""
    federation = federation_in(tmp_path)
    number = PARTIES.index("hospital") + 1

    def strike(message):
        name = OPENING_STAGE if stage == OPENING_STAGE else f"{stage}, attempt 0"
        if message.sender == number and message.stage == name and message.receiver == COORDINATOR:
            federation.network.kill(number)
            federation.jobs["hospital"].end("job-1", "killed")
            return ()
        return (message,)

    federation.network.fault = strike
    events, result = await federation.run(job_of(**PRIVATE))
    others = [name for name in PARTIES if name != "hospital"]
    assert [events[name][-1] for name in others] == [FinishedEvent()] * 4
    if stage in ("sign survivors", OPENING_STAGE):
        assert result["survivors"] == list(PARTIES)
        assert set(result["silent_after"]) == {"hospital"}
    else:
        assert result["survivors"] == others
        assert result["vanished"] == {"hospital": stage}
    assert federation.ledgers["hospital"].charge("job-1").state == "committed"


async def test_a_party_that_drops_out_before_the_commit_ends_the_job_and_it_costs_nobody_anything(tmp_path):
    federation = federation_in(tmp_path, deadline_s=1.0)
    number = PARTIES.index("hospital") + 1

    def strike(message):
        if message.sender == number and message.stage == "keys":
            federation.network.kill(number)
            federation.network.kill(COORDINATOR)
            return ()
        federation._note(message)
        return (message,)

    federation.network.fault = strike
    events, _ = await federation.run(job_of(**PRIVATE))
    assert all(isinstance(ends[-1], FailedEvent) for ends in events.values())
    assert [stage for stage, to in federation.sent if to == COORDINATOR] == []
    for jobs in federation.jobs.values():
        await jobs.end_all("stop")
    assert {federation.ledgers[name].charge("job-1").state for name in PARTIES} == {"released"}


async def test_the_same_rows_never_reach_the_coordinator_under_the_same_masks(tmp_path):
    """Also with the same randomness: masks are bound to the job."""
    seen = []
    for run in ("a", "b"):
        (tmp_path / run).mkdir()
        federation = federation_in(tmp_path / run, policy=EXACT)
        federation.network.job_id = run
        arrays = {}

        def keep(message, arrays=arrays):
            if message.receiver == COORDINATOR and message.stage.startswith("masked input"):
                arrays[message.sender] = message.array.tobytes()
            return (message,)

        federation.network.fault = keep
        _, result = await federation.run(job_of())
        assert result["attempt"] == 0
        seen.append(arrays)
    assert set(seen[0]) == set(seen[1]) == set(range(1, 6))
    assert all(seen[0][party] != seen[1][party] for party in seen[0])
