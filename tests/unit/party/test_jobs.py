import asyncio
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from deadlines import GENEROUS_S
from job_builders import PARTIES, make_job, make_table
from party_federation import NAMES, Federation, told_by

from analyses import registry
from analyses.job.job import JobError
from analyses.registry import analysis_of
from ledger.entry import LedgerError
from mpc.errors import PeerViolationError, ShapeError
from mpc.protocol.session import COORDINATOR
from party import job_run
from party import jobs as party_jobs
from party.admission import RefusalError
from party.engine import engine
from party.engine.engine import Engine
from party.events import FailedEvent, FinishedEvent, ProgressEvent
from party.job_run import LEFT_EARLY
from party.tables.table import UnusableTableError
from service.codes.coded_text import told


@pytest.fixture
def tables():
    rng = np.random.default_rng(3)
    return {name: make_table(name, rng.uniform(-1, 3, (30, 2))) for name in PARTIES}


@pytest.fixture
def federation(tables, tmp_path):
    return Federation(tables, tmp_path)


async def test_an_accepted_job_runs_to_its_end_and_leaves_a_local_report(federation):
    events, result = await federation.run(make_job())
    for name in PARTIES:
        assert events[name][-1] == FinishedEvent()
        assert federation.reports[name].n_rows == 30
        assert federation.sessions[name].ended == "finished"
    assert result["analysis"] == "pca"
    assert federation.closed == []
    for name in PARTIES:
        federation.jobs[name].settle("job-1")
    assert sorted(federation.closed) == [(name, None) for name in sorted(PARTIES)]


async def test_progress_is_told_in_quarters_only(federation):
    events, _ = await federation.run(make_job())
    percents = {e.percent for e in events["bank"] if isinstance(e, ProgressEvent)}
    assert percents <= {0, 25, 50, 75, 100}


class Idle(Engine):
    """An engine of which nobody is asked for anything: the tables of these tests are small."""

    async def prepare(self, lane, order):
        raise AssertionError("no shard has so few rows")

    async def work(self, handle, session_id, addresses):
        raise AssertionError("no shard has so few rows")

    async def abandon(self, handle, session_id):
        """Nothing was begun."""

    async def close(self):
        """Likewise."""


async def test_a_party_with_workers_says_how_many_in_its_schema_and_works_alone_on_few_rows(tables, tmp_path):
    (tmp_path / "people.csv").touch()
    federation = Federation(tables, tmp_path, engine=Idle(3))
    assert (await federation.propose(make_job(), job_id="job-0")).workers == 3
    events, _ = await federation.run(make_job())
    assert events["bank"][-1] == FinishedEvent()


async def test_a_party_whose_table_its_workers_cannot_read_offers_none(tables, tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "can_be_read_in_parts", lambda table: False)
    federation = Federation(tables, tmp_path, engine=Idle(3))
    assert (await federation.propose(make_job())).workers is None


async def test_a_schema_is_offered_and_a_job_is_accepted_once(federation):
    schema = await federation.propose(make_job())
    assert schema == federation.tables["bank"].schema
    with pytest.raises(RefusalError, match="proposed before"):
        await federation.propose(make_job())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"inputs": [{"party": p, "table": "people"} for p in ("bank", "hospital", "stranger")]}, "stranger"),
        ({"inputs": [{"party": p, "table": "others"} for p in PARTIES]}, "no table 'others'"),
        ({"colluding": 2}, "5 compute parties"),
        ({"analysis": "mining"}, "analysis: there is no analysis 'mining'; available"),
    ],
)
async def test_jobs_that_the_owner_did_not_agree_to_are_refused_with_the_reason(federation, changes, words):
    job = make_job(**changes)
    with pytest.raises(RefusalError, match=words):
        await federation.propose(job, roster=dict(enumerate(job.members, start=1)))


async def test_a_roster_that_does_not_match_the_job_is_refused(federation):
    with pytest.raises(RefusalError, match="does not match"):
        await federation.propose(make_job(), roster={1: "bank", 2: "telco", 3: "hospital"})


async def test_a_job_without_this_party_is_refused(federation):
    job = make_job(inputs=[{"party": p, "table": "people"} for p in ("hospital", "telco", "third")])
    with pytest.raises(RefusalError, match="bank is not a member"):
        await federation.propose(job, roster=dict(enumerate(job.members, start=1)))


async def test_no_more_than_so_many_jobs_are_held(federation, monkeypatch):
    monkeypatch.setattr(party_jobs, "MAX_JOBS", 1)
    await federation.propose(make_job())
    with pytest.raises(RefusalError, match="already holds 1 jobs"):
        await federation.jobs["bank"].propose("job-2", make_job().canonical_json(), NAMES, "ada")


async def test_a_job_that_is_never_started_is_forgotten(federation):
    await federation.propose(make_job(deadline_s=0.05))
    await asyncio.sleep(0.2)
    assert federation.closed == [("bank", "it was proposed and never started")]
    await federation.propose(make_job())


async def test_a_job_that_was_not_accepted_cannot_be_run(federation):
    with pytest.raises(RefusalError, match="not accepted"):
        await anext(told_by(federation.jobs["bank"], "job-9"))


async def test_a_plan_other_than_our_own_is_refused(federation):
    job = make_job()
    schemas = [await federation.propose(job, name) for name in PARTIES]
    with pytest.raises(RefusalError, match="differs from the coordinator"):
        await anext(federation.jobs["bank"].reserve("job-1", schemas, b"other"))


@pytest.mark.parametrize("broken", ["plan", "digest"])
async def test_a_plan_that_fails_in_a_way_nobody_foresaw_refuses_the_job_and_leaves_nothing_of_it(
    federation, monkeypatch, capsys, broken
):
    def burst(*args):
        raise ZeroDivisionError("epsilon 4711")

    job, pca = make_job(), registry.ANALYSES["pca"]
    schemas = [await federation.propose(job, name) for name in PARTIES]
    plan = pca.plan(job, schemas)
    if broken == "plan":
        monkeypatch.setitem(registry.ANALYSES, "pca", replace(pca, own_plan=burst))
    else:
        monkeypatch.setattr(type(plan), "digest", burst)
    said = "bank cannot plan this job, because its analysis failed unexpectedly; the log of bank has the details"
    said += " [internal-error]"
    with pytest.raises(RefusalError) as refused:
        await anext(federation.jobs["bank"].reserve("job-1", schemas, b"any"))
    assert str(refused.value) == said
    assert federation.closed == [("bank", said)]
    assert "epsilon 4711" in capsys.readouterr().out
    with pytest.raises(RefusalError, match="not accepted here, or has ended"):
        await anext(told_by(federation.jobs["bank"], "job-1"))
    assert federation.ledgers["bank"].balance("people").n_reserved == 0


async def test_columns_that_we_did_not_offer_are_refused(federation):
    job = make_job()
    schemas = [await federation.propose(job, name) for name in PARTIES]
    forged = schemas[0].model_copy(update={"columns": schemas[0].columns[:1]})
    plan = analysis_of(job).plan(job, [forged, *schemas[1:]])
    with pytest.raises(RefusalError, match="the coordinator's schema of bank differs from the one that bank sent"):
        await anext(federation.jobs["bank"].reserve("job-1", [forged, *schemas[1:]], plan.digest()))


async def test_a_member_at_fault_is_named_and_what_it_was_caught_at_is_told_from_its_absence(tables, tmp_path):
    tables["telco"] = make_table("telco", tables["telco"].values[:-1])
    federation = Federation(tables, tmp_path, deadline_s=0.3)
    events, result = await federation.run(make_job())
    assert isinstance(result, Exception)
    failed = events["bank"][-1]
    assert (failed.culprit, failed.stage, failed.is_finding) == ("telco", "same rows", True)


async def test_the_coordinator_gets_the_same_events_whatever_the_tables_differ_in(tables, tmp_path, capsys):
    seen, logs = [], []
    values = tables["telco"].values
    swapped = [str(i) for i in range(len(values))][::-1]
    for name, other in {
        "short": make_table("telco", values[:-1]),
        "swapped": make_table("telco", values, swapped),
    }.items():
        (tmp_path / name).mkdir()
        federation = Federation({**tables, "telco": other}, tmp_path / name, deadline_s=0.3)
        seen.append((await federation.run(make_job()))[0])
        logs.append(capsys.readouterr().out)
    assert seen[0] == seen[1]
    text = "the tables of telco and bank do not hold the same rows in the same order [members-differ]"
    assert seen[0]["bank"][-1] == FailedEvent("same rows", text, "telco", is_finding=True)
    assert "their numbers of rows differ" in logs[0]
    assert "their ids or the order differ" in logs[1]


async def test_an_unforeseen_error_is_told_without_its_text(federation, monkeypatch):
    def burst(*args):
        raise ZeroDivisionError("row 17 holds 4711")

    monkeypatch.setattr(federation.jobs["bank"], "_write_report", burst)
    events, _ = await federation.run(make_job())
    assert events["bank"][-1].reason == "internal error; the log of bank has the details [internal-error]"
    assert federation.sessions["bank"].ended == events["bank"][-1].reason


@pytest.mark.parametrize("error", [JobError, ShapeError, ValueError, MemoryError])
async def test_what_an_analysis_raises_about_its_data_is_told_neither_by_text_nor_by_kind(
    federation, monkeypatch, capsys, error
):
    async def burst(session, plan, table):
        raise error("row 17 holds 4711")

    pca = registry.ANALYSES["pca"]
    monkeypatch.setitem(registry.ANALYSES, "pca", replace(pca, own_party=burst))
    await federation.reserve(make_job())
    events = [event async for event in told_by(federation.jobs["bank"], "job-1")]
    text = "internal error; the log of bank has the details [internal-error]"
    assert events == [ProgressEvent("reading", 0), FailedEvent("reading", text)]
    assert "row 17 holds 4711" in capsys.readouterr().out


async def test_a_deadline_that_reading_a_table_may_pass_is_refused_by_owners_and_nothing_is_read(tables, tmp_path):
    federation = Federation(tables, tmp_path, least_deadline_s=10.0)
    inputs = [{"party": p, "table": "people"} for p in ("bank", "hospital")]
    job = make_job(deadline_s=9.9, inputs=inputs, compute=PARTIES)
    for owner in ("bank", "hospital"):
        with pytest.raises(
            RefusalError, match=f"deadline_s: 9.9 is below 10, the shortest deadline that {owner} accepts"
        ):
            await federation.propose(job, owner)
    assert await federation.propose(job, "telco")  # it reads nothing
    assert await federation.propose(make_job(deadline_s=10.0))
    assert federation.loaded == []


@pytest.mark.parametrize("least_s", [60.0, 0.5])
async def test_an_owner_is_told_that_reading_takes_longer_than_half_of_the_least_deadline(
    tables, tmp_path, monkeypatch, capsys, least_s
):
    federation = Federation(tables, tmp_path, least_deadline_s=least_s, deadline_s=0.5)
    monkeypatch.setattr(
        federation.jobs["bank"]._tables, "_load_table", lambda config, brought: time.sleep(0.3) or tables["bank"]
    )
    await federation.reserve(make_job(deadline_s=60.0))
    running = told_by(federation.jobs["bank"], "job-1")
    await collect(running)
    assert ("raise least_deadline_s" in capsys.readouterr().out) == (least_s < 1)


async def test_jobs_that_are_begun_and_cancelled_over_and_over_leave_one_thread_that_reads(federation, monkeypatch):
    bank, reads, may_end, began = federation.jobs["bank"], [], threading.Event(), threading.Event()

    def slowly(config, brought):
        reads.append(brought)
        began.set()
        may_end.wait(GENEROUS_S)
        return federation.tables["bank"]

    monkeypatch.setattr(bank._tables, "_load_table", slowly)
    try:
        for number in range(4):
            await federation.reserve(make_job(), job_id=f"job-{number}")
            running = told_by(bank, f"job-{number}")
            assert await anext(running) == ProgressEvent("reading", 0)
            await asyncio.to_thread(began.wait, GENEROUS_S)
            async with asyncio.timeout(20):
                bank.end(f"job-{number}", "cancelled")
                await running.aclose()  # it does not wait for the thread
        assert len(reads) == 1
    finally:
        may_end.set()
    async with asyncio.timeout(20):
        await bank._tables.read(bank._config, make_job().inputs[0])  # and the turn passes on
    assert len(reads) == 2


class Panic(BaseException):
    """As libraries in Rust raise it."""


@pytest.mark.parametrize("error", [Panic, MemoryError, OSError, JobError, ValueError, LedgerError, ShapeError])
async def test_whatever_stops_the_reading_of_a_table_reads_like_a_table_that_cannot_be_used(
    federation, monkeypatch, capsys, error
):
    def burst(config, brought):
        raise error("row 17 holds 4711")

    monkeypatch.setattr(federation.jobs["bank"]._tables, "_load_table", burst)
    await federation.reserve(make_job())
    async with asyncio.timeout(20):
        events = await collect(told_by(federation.jobs["bank"], "job-1"))
    text = told(UnusableTableError("table 'people' of party 'bank'", ""))
    assert events == [ProgressEvent("reading", 0), FailedEvent("reading", text)]
    assert f"reading it failed: {error.__name__}" in (shown := capsys.readouterr().out)
    assert "4711" not in shown


async def test_a_panic_elsewhere_ends_the_job_with_a_reason(federation, monkeypatch, capsys):
    """Libraries are called before and after a table is read, too."""

    def burst(*_):
        raise Panic("row 17 holds 4711")

    monkeypatch.setattr(job_run, "workers_of_job", burst)
    await federation.reserve(make_job())
    async with asyncio.timeout(20):
        events = await collect(told_by(federation.jobs["bank"], "job-1"))
    assert isinstance(events[-1], FailedEvent)
    assert "internal error; the log of bank has the details" in events[-1].reason
    assert "Panic" in capsys.readouterr().out


async def test_a_table_is_read_when_the_job_runs_and_not_before(federation):
    plan = await federation.reserve(make_job())
    assert federation.loaded == []
    running = told_by(federation.jobs["bank"], "job-1")
    assert await anext(running) == ProgressEvent("reading", 0)
    await running.aclose()
    assert set(federation.loaded) <= {"bank"}
    assert plan.owners == (1, 2, 3)


async def until_closed(federation):
    async with asyncio.timeout(GENEROUS_S):
        while not federation.closed:  # noqa: ASYNC110 - the party forgets the job by itself
            await asyncio.sleep(0.01)


async def test_a_job_whose_coordinator_does_not_come_back_has_failed_at_the_party_and_its_log_says_so(
    federation, capsys
):
    await federation.reserve(make_job(deadline_s=0.5))
    running = told_by(federation.jobs["bank"], "job-1")
    await anext(running)
    await running.aclose()
    await until_closed(federation)
    assert federation.closed == [("bank", LEFT_EARLY)]
    assert capsys.readouterr().out.count(LEFT_EARLY) == 2  # why it failed, and why it has ended
    await federation.jobs["bank"].end_all("stop")
    assert federation.ledgers["bank"].balance("people").n_reserved == 0


async def test_who_comes_back_hears_how_far_the_job_is_and_the_call_before_ends(federation):
    await federation.reserve(make_job(deadline_s=GENEROUS_S))
    first = told_by(federation.jobs["bank"], "job-1")
    await anext(first)
    second = told_by(federation.jobs["bank"], "job-1")
    assert isinstance(await anext(second), ProgressEvent)
    assert not [event async for event in first if not isinstance(event, ProgressEvent)]
    assert federation.closed == []
    federation.jobs["bank"].end("job-1", "cancelled")
    assert (await collect(second))[-1] == FailedEvent("", "cancelled")


async def test_a_job_is_kept_until_the_coordinator_has_stored_its_result_and_blocks_no_others(federation, monkeypatch):
    monkeypatch.setattr(party_jobs, "MAX_JOBS", 1)
    await federation.run(make_job())
    assert (await collect(told_by(federation.jobs["bank"], "job-1")))[-1] == FinishedEvent()
    await federation.propose(make_job(), job_id="job-2")
    federation.jobs["bank"].settle("job-1")
    with pytest.raises(RefusalError, match="has ended"):
        await anext(told_by(federation.jobs["bank"], "job-1"))


async def test_a_job_whose_part_is_done_is_kept_beyond_its_deadline_and_not_for_ever(federation, monkeypatch):
    monkeypatch.setattr(job_run, "KEPT_S", 1.5)
    await federation.run(make_job(deadline_s=0.5))
    bank = federation.jobs["bank"]
    await asyncio.sleep(0.6)  # its deadline has passed
    last = await collect(told_by(bank, "job-1"))
    assert last[-1] == FinishedEvent()
    while ("bank", None) not in federation.closed:  # noqa: ASYNC110 - the party forgets the job by itself
        await asyncio.sleep(0.1)
    with pytest.raises(RefusalError, match="has ended"):
        await anext(told_by(bank, "job-1"))


async def test_of_jobs_whose_results_nobody_stores_the_oldest_are_forgotten(federation, monkeypatch):
    monkeypatch.setattr(party_jobs, "MAX_KEPT", 1)
    for job_id in ("job-1", "job-2"):
        await federation.run(make_job(), job_id=job_id)
    with pytest.raises(RefusalError, match="has ended"):
        await anext(told_by(federation.jobs["bank"], "job-1"))
    assert (await collect(told_by(federation.jobs["bank"], "job-2")))[-1] == FinishedEvent()


async def test_a_coordinator_that_leaves_done_jobs_open_cannot_make_us_keep_more_of_them(federation, monkeypatch):
    monkeypatch.setattr(party_jobs, "MAX_KEPT", 1)
    bank, unread = federation.jobs["bank"], []
    run = bank.run

    async def reads_one_event(job_id):
        unread.append(run(job_id))
        yield await anext(unread[-1])
        await until(lambda: "bank" in federation.reports)

    monkeypatch.setattr(bank, "run", reads_one_event)
    for job_id in ("job-1", "job-2"):
        federation.reports.clear()
        await federation.run(make_job(), job_id=job_id)
    assert ("bank", None) not in federation.closed
    await federation.propose(make_job(), job_id="job-3")
    assert federation.closed.count(("bank", None)) == 1
    with pytest.raises(RefusalError, match="has ended"):
        await anext(run("job-1"))
    for running in unread:
        await running.aclose()


class Repeating:
    """Notes every time that a party begins to send all again, and goes on until it is cancelled."""

    def __init__(self, federation, monkeypatch):
        self.n_begun = self.n_ended = 0
        session = federation.sessions["bank"]
        monkeypatch.setattr(session, "begin_again", self.begin_again)

    async def begin_again(self, member):
        self.n_begun += 1
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.n_ended += 1


async def until(condition):
    async with asyncio.timeout(GENEROUS_S):
        while not condition():  # noqa: ASYNC110 - what it waits for has no event
            await asyncio.sleep(0.01)


async def test_a_cancelled_job_sends_nothing_again_however_often_the_coordinator_came_back(federation, monkeypatch):
    await federation.reserve(make_job(deadline_s=GENEROUS_S))
    bank = federation.jobs["bank"]
    running = [told_by(bank, "job-1")]
    await anext(running[0])
    repeating = Repeating(federation, monkeypatch)
    for _ in range(3):
        running.append(told_by(bank, "job-1"))
        await anext(running[-1])
        await until(lambda: repeating.n_begun == len(running) - 1)
    assert repeating.n_ended == 2  # one at a time
    bank.end("job-1", "cancelled")
    await until(lambda: repeating.n_ended == 3)
    for one in running:
        await one.aclose()


async def test_a_job_that_failed_while_the_coordinator_was_away_sends_it_nothing_again(federation, monkeypatch):
    await federation.reserve(make_job(deadline_s=GENEROUS_S))
    bank = federation.jobs["bank"]
    running = told_by(bank, "job-1")
    await anext(running)
    repeating = Repeating(federation, monkeypatch)
    await running.aclose()
    federation.network.kill(2)
    federation.network.kill(3)
    await until(lambda: federation.sessions["bank"].ended is not None)
    assert isinstance((await collect(told_by(bank, "job-1")))[-1], FailedEvent)
    assert repeating.n_begun == 0


async def test_a_job_ends_at_once_where_the_coordinator_breaks_the_protocol_whomever_it_waits_for(federation):
    await federation.reserve(make_job(deadline_s=GENEROUS_S))
    running = federation.jobs["bank"].run("job-1")  # the others never start
    await anext(running)
    session, what = federation.sessions["bank"], "main says something else in stage a than before it restarted"
    session.violated(PeerViolationError(COORDINATOR, "a", what))
    last = [event async for events in running for event in events][-1]
    assert last == FailedEvent("a", f"{what} [peer-violation]", "main", is_finding=True)
    assert session.ended == last.reason  # which is what other members hear
    assert ("bank", last.reason) in federation.closed


async def test_a_long_silence_of_the_work_is_bridged_by_repeated_progress(federation):
    job = make_job(deadline_s=0.4)
    await federation.reserve(job)
    running = told_by(federation.jobs["bank"], "job-1")  # the others never start
    events = [await anext(running) for _ in range(6)]
    assert events[-1] == events[-2]
    await running.aclose()


async def test_a_cancelled_job_ends_at_once_and_its_session_is_aborted(federation):
    job = make_job()
    await federation.reserve(job)
    running = told_by(federation.jobs["bank"], "job-1")
    await anext(running)
    federation.jobs["bank"].end("job-1", "the analyst cancelled it")
    events = [event async for event in running]
    assert isinstance(events[-1], FailedEvent)
    assert events[-1].reason == "the analyst cancelled it"
    assert federation.sessions["bank"].ended == "the job was cancelled"


async def test_a_peer_that_violates_the_protocol_is_named(tables, tmp_path):
    federation = Federation(tables, tmp_path, deadline_s=0.5)

    def falsify(message):
        wrong = message.sender == 2 and message.stage == "table"
        return (message.altered(message.array | np.uint64(1 << 63)),) if wrong else (message,)

    federation.network.fault = falsify
    events, _ = await federation.run(make_job())
    failed = [e[-1] for e in events.values() if isinstance(e[-1], FailedEvent)]
    assert any(f.culprit == "hospital" and f.is_finding and f.stage == "table" for f in failed)
    assert PeerViolationError.__name__ not in failed[0].reason


async def test_a_job_is_reserved_before_it_runs_and_committed_before_it_opens(federation):
    plan = await federation.reserve(make_job())
    for ledger in federation.ledgers.values():
        assert ledger.balance("people").n_reserved == 1
        assert ledger.balance("people").held <= 4.0
    assert plan.privacy_report()["views"]["coalition"]["epsilon"] == pytest.approx(ledger.balance("people").held)
    with pytest.raises(RefusalError, match="was requested before"):
        await anext(federation.jobs["bank"].reserve("job-1", [], b""))


async def test_a_finished_job_is_spent_and_its_id_cannot_be_used_again(federation):
    await federation.run(make_job())
    for name in PARTIES:
        balance = federation.ledgers[name].balance("people")
        assert (balance.n_committed, balance.n_reserved) == (1, 0)
        federation.jobs[name].settle("job-1")
    schemas = [await federation.propose(make_job(), name) for name in PARTIES]
    plan = analysis_of(make_job()).plan(make_job(), schemas)
    with pytest.raises(RefusalError, match="a job id may be used only once"):
        await anext(federation.jobs["bank"].reserve("job-1", schemas, plan.digest()))


async def test_a_job_that_was_not_reserved_cannot_run(federation):
    await federation.propose(make_job())
    with pytest.raises(RefusalError, match="holds no privacy budget"):
        await anext(told_by(federation.jobs["bank"], "job-1"))


async def test_a_job_that_fails_before_the_opening_costs_nothing(tables, tmp_path):
    tables["telco"] = make_table("telco", tables["telco"].values[:-1])
    federation = Federation(tables, tmp_path, deadline_s=0.3)
    await federation.run(make_job())
    for name in PARTIES:
        await federation.jobs[name].end_all("stop")
        balance = federation.ledgers[name].balance("people")
        assert (balance.held, balance.n_committed, balance.n_reserved) == (0.0, 0, 0)


async def test_a_reservation_that_is_never_used_is_given_back(federation):
    await federation.reserve(make_job(deadline_s=0.1), "bank")
    await asyncio.sleep(0.4)
    await federation.jobs["bank"].end_all("stop")
    assert federation.ledgers["bank"].balance("people").held == 0
    assert federation.ledgers["bank"].history()[-1].what.reason == "it was proposed and never started"


async def test_a_reservation_is_held_as_long_as_the_coordinator_listens_and_lapses_soon_after(federation):
    await federation.reserve(make_job(deadline_s=0.1), "bank")
    bank, ledger = federation.jobs["bank"], federation.ledgers["bank"]
    held = asyncio.create_task(bank.hold("job-1"))
    await asyncio.sleep(0.5)  # five deadlines: another owner is asked
    assert ledger.balance("people").n_reserved == 1
    held.cancel()
    await asyncio.sleep(0.4)
    await bank.end_all("stop")
    assert ledger.balance("people").n_reserved == 0


async def test_holding_ends_when_the_job_runs_or_ends(federation):
    await federation.reserve(make_job(deadline_s=0.5))
    holding = [asyncio.create_task(federation.jobs[name].hold("job-1")) for name in ("bank", "telco")]
    running = told_by(federation.jobs["bank"], "job-1")
    await anext(running)
    federation.jobs["telco"].end("job-1", "the analyst cancelled it")
    await asyncio.wait_for(asyncio.gather(*holding), 60)
    await asyncio.wait_for(federation.jobs["bank"].hold("job-9"), 60)
    await running.aclose()


async def test_a_job_that_ends_while_the_ledger_reserves_for_it_leaves_nothing_held(federation, monkeypatch):
    job, ledger, bank = make_job(), federation.ledgers["bank"], federation.jobs["bank"]
    writes, may_write, reserve = threading.Event(), threading.Event(), ledger.reserve

    def slowly(*args, **kwargs):
        writes.set()
        may_write.wait(60)
        reserve(*args, **kwargs)

    monkeypatch.setattr(ledger, "reserve", slowly)
    schemas = [await federation.propose(job, name) for name in PARTIES]
    plan = analysis_of(job).plan(job, schemas)
    asking = asyncio.create_task(collect(bank.reserve("job-1", schemas, plan.digest())))
    await asyncio.to_thread(writes.wait, 60)
    bank.end("job-1", "the analyst cancelled it")
    await bank.end_all("stop")  # the release comes first, and finds nothing
    asking.cancel()
    may_write.set()
    await asyncio.gather(asking, return_exceptions=True)
    await bank.end_all("stop")
    assert ledger.balance("people").n_reserved == 0


async def test_a_ledger_that_fails_at_the_commit_opens_nothing_and_keeps_its_details_to_itself(federation):
    await federation.reserve(make_job(deadline_s=0.5))
    federation.ledgers["telco"].close()
    events = await asyncio.gather(*(collect(told_by(federation.jobs[name], "job-1")) for name in PARTIES))
    telco = events[2][-1]
    assert isinstance(telco, FailedEvent)
    assert telco.reason == "the privacy ledger of telco cannot be used; its log has the details [ledger-unusable]"
    assert all(isinstance(e[-1], FailedEvent) for e in events)
    assert not [stage for stage, receiver in federation.sent if stage == "opening" or receiver == 0]


async def collect(events):
    return [event async for event in events]


async def test_who_waits_for_half_of_the_deadline_says_for_whom(federation):
    await federation.reserve(make_job(deadline_s=0.8))
    running = told_by(federation.jobs["bank"], "job-1")  # alone: it waits for the others
    first = await anext(running)
    assert (type(first), first.waits_for) == (ProgressEvent, "")
    federation.sessions["bank"].slow = 2
    async with asyncio.timeout(20):
        async for event in running:
            if isinstance(event, ProgressEvent) and event.waits_for:
                break
    assert event.waits_for == NAMES[2]
    await running.aclose()


@pytest.mark.parametrize(("slow", "culprit"), [(2, NAMES[2]), (None, "")])
async def test_a_job_ends_at_the_limit_of_its_owner_and_names_who_was_waited_for(tables, tmp_path, slow, culprit):
    federation = Federation(tables, tmp_path, deadline_s=60.0)
    federation.jobs["bank"]._config = federation.jobs["bank"]._config.model_copy(update={"max_job_s": 0.5})
    await federation.reserve(make_job(deadline_s=60.0))
    running = told_by(federation.jobs["bank"], "job-1")
    async with asyncio.timeout(20):
        await anext(running)
        federation.sessions["bank"].slow = slow
        events = [event async for event in running]
    assert isinstance(events[-1], FailedEvent)
    assert events[-1].culprit == culprit
    assert "the job ran longer than the owner of bank allows (0.5 s, max_job_s)" in events[-1].reason
    assert not events[-1].is_finding


def changed(federation, **fields):
    """The bank's owner declares its table otherwise."""
    jobs = federation.jobs["bank"]
    (table,) = jobs._config.tables
    jobs.use(jobs._config.model_copy(update={"tables": (table.model_copy(update=fields),)}))


@pytest.mark.parametrize("fields", [{"bounds": {"x0": (-1.0, 4.0), "x1": (-1.0, 3.0)}}, {"name": "others"}])
async def test_a_job_about_a_table_that_was_changed_since_is_refused_before_anything_is_paid(federation, fields):
    schemas = [await federation.propose(make_job(), name) for name in PARTIES]
    before = federation.jobs["bank"]._config
    changed(federation, **fields)
    with pytest.raises(RefusalError, match="has changed table 'people' since the job was planned; nothing was paid"):
        await anext(federation.jobs["bank"].reserve("job-1", schemas, b""))
    federation.jobs["bank"].use(before)
    await federation.reserve(make_job(), job_id="job-2")
    changed(federation, **fields)
    with pytest.raises(RefusalError, match="has changed table 'people'"):
        await anext(told_by(federation.jobs["bank"], "job-2"))
    await federation.jobs["bank"].end_all("")
    (balance,) = federation.ledgers["bank"].balances()
    assert (balance.n_reserved, balance.n_committed, federation.loaded) == (0, 0, [])


async def test_a_job_goes_on_where_only_the_beginning_of_a_budget_is_declared_otherwise(federation):
    schemas = [await federation.propose(make_job(), name) for name in PARTIES]
    changed(federation, show_budget=True)
    plan = registry.ANALYSES["pca"].plan(make_job(), schemas)
    assert [text async for text in federation.jobs["bank"].reserve("job-1", schemas, plan.digest())] == []
