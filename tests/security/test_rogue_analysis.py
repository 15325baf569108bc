"""Analyses that try to open something without paying for it. Each runs as a job, by the parties' real code."""

import asyncio
from dataclasses import replace
from functools import cached_property

import numpy as np
import pytest
from job_builders import PARTIES, make_job, make_table
from party_federation import Federation

from analyses import registry
from analyses.job.plan import OPENING_STAGE, Plan
from analyses.job.releases import PlannedRelease
from analyses.job.schema import LocalReport
from analyses.pca import protocol as pca
from analyses.registry import ANALYSES
from dp.cost.views import UNIT
from dp.mechanism.gram import NoisyGram
from mpc.protocol.greeting import GREETING_STAGE, exchange_public_keys
from mpc.protocol.session import COORDINATOR
from party.events import FailedEvent, FinishedEvent

COST = NoisyGram(n_columns=2, squared_norm_bound=100, n_parties=3, colluding=1, party_mu=10**7)
SECRET = np.arange(4, dtype=np.uint64)


class RoguePlan(Plan):
    @property
    def privacy_unit(self):
        return UNIT

    def report_of_releases(self):
        return COST.report(1e-6)


class FreePlan(RoguePlan):
    """Says that it costs nothing."""

    @cached_property
    def releases(self):
        return ()


class CoordinatorsPricePlan(RoguePlan):
    """Charges for the weaker neighbours of the coordinator's view."""

    def privacy_events(self, view):
        return COST.events("coordinator")


class HonestPlan(RoguePlan):
    @cached_property
    def releases(self):
        return (PlannedRelease(COST, self.compute_members),)


class SilentPlan(RoguePlan):
    """Its author forgot to say what it costs."""


async def opens_at_once(session, plan, table):
    await session.send(COORDINATOR, OPENING_STAGE, SECRET)
    return LocalReport(table.n_rows, {}, 0)


async def uses_another_stage(session, plan, table):
    await session.send(COORDINATOR, "diagnostics", SECRET)
    return LocalReport(table.n_rows, {}, 0)


async def opens_to_a_party(session, plan, table):
    await session.send(session.me % 3 + 1, OPENING_STAGE, SECRET)
    return LocalReport(table.n_rows, {}, 0)


async def swallows_refusals(session, plan, table):
    for stage in (OPENING_STAGE, "again", OPENING_STAGE):
        try:
            await session.send(COORDINATOR, stage, SECRET)
        except Exception:
            continue
    return LocalReport(table.n_rows, {}, 0)


async def pretends_to_be_the_gate(session, plan, table):
    await session.send(session.me % 3 + 1, "budget", np.ones(1, dtype=np.uint8))
    return LocalReport(table.n_rows, {}, 0)


async def sends_in_the_background(session, plan, table):
    task = asyncio.ensure_future(session.send(COORDINATOR, "later", SECRET))
    await asyncio.sleep(0)
    await asyncio.gather(task, return_exceptions=True)
    return LocalReport(table.n_rows, {}, 0)


def after_greetings(attack):
    """The attack of an analysis that begins as it should: else nothing of it leaves."""

    async def party(session, plan, table):
        await exchange_public_keys(session, plan.peers_of(session.me), b"key")
        return await attack(session, plan, table)

    return party


def after_drawing(attack):
    """The attack of an analysis that has drawn its noise, and does not add it to what it sends."""

    async def party(session, plan, table):
        await session.draw(COST)
        return await attack(session, plan, table)

    return party


ATTACKS = [opens_at_once, uses_another_stage, swallows_refusals, sends_in_the_background]


@pytest.fixture
def federation(tmp_path):
    rng = np.random.default_rng(3)
    tables = {name: make_table(name, rng.uniform(-1, 3, (30, 2))) for name in PARTIES}
    return Federation(tables, tmp_path, deadline_s=0.4)


def install(monkeypatch, plan_class, party):
    def plan(job, schemas):
        return plan_class(job=job, schemas=tuple(schemas), n_primes=3)

    async def coordinator(session, plan):
        return {}

    own = {"own_plan": plan, "own_party": party, "coordinator": coordinator, "signal": lambda plan: None}
    rogue = replace(pca.ANALYSIS, names=("rogue",), **own)
    monkeypatch.setitem(ANALYSES, "rogue", rogue)
    assert registry.ANALYSES is ANALYSES


async def reserve_and_run(federation, names=PARTIES):
    """Return how the job ended at each party, or the exception with which it refused."""
    job = make_job(analysis="rogue", privacy={"epsilon": 4.0, "delta": 1e-6})
    schemas = [await federation.propose(job, name) for name in PARTIES]
    digest = ANALYSES["rogue"].plan(job, schemas).digest()

    async def take_part(name):
        jobs = federation.jobs[name]
        if name in names:
            _ = [text async for text in jobs.reserve("job-1", schemas, digest)]
        return [events async for events in jobs.run("job-1")][-1][-1]

    return await asyncio.gather(*map(take_part, PARTIES), return_exceptions=True)


def said(federation):
    """What was said after the greetings."""
    return [(stage, receiver) for stage, receiver in federation.sent if stage != GREETING_STAGE]


def to_the_coordinator(federation):
    return [stage for stage, receiver in federation.sent if receiver == COORDINATOR]


def committed(federation):
    return [
        federation.ledgers[name].charge("job-1").state for name in PARTIES if federation.ledgers[name].charge("job-1")
    ]


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("plan_class", [FreePlan, CoordinatorsPricePlan, SilentPlan])
async def test_an_analysis_that_does_not_state_its_whole_cost_does_not_run(federation, monkeypatch, plan_class, attack):
    install(monkeypatch, plan_class, attack)
    endings = await reserve_and_run(federation)
    assert all(isinstance(ending, Exception) for ending in endings)
    assert federation.sent == []


@pytest.mark.parametrize("attack", ATTACKS)
async def test_whatever_it_sends_to_the_coordinator_is_paid_by_everybody_first(federation, monkeypatch, attack):
    install(monkeypatch, HonestPlan, after_greetings(after_drawing(attack)))
    assert await reserve_and_run(federation) == [FinishedEvent()] * 3
    assert committed(federation) == ["committed"] * 3
    first = said(federation).index(next(sent for sent in federation.sent if sent[1] == COORDINATOR))
    assert {stage for stage, _ in said(federation)[:first]} == {"budget"}


@pytest.mark.parametrize("attack", ATTACKS)
async def test_nothing_goes_to_the_coordinator_before_the_noise_was_drawn(federation, monkeypatch, attack):
    install(monkeypatch, HonestPlan, after_greetings(attack))
    await reserve_and_run(federation)
    assert to_the_coordinator(federation) == []


@pytest.mark.parametrize("attack", ATTACKS)
async def test_a_party_that_skips_its_reservation_keeps_everybody_from_opening(federation, monkeypatch, attack):
    install(monkeypatch, HonestPlan, after_greetings(after_drawing(attack)))
    endings = await reserve_and_run(federation, names=PARTIES[:2])
    assert "holds no privacy budget" in str(endings[2])
    assert not any(isinstance(ending, FinishedEvent) for ending in endings)
    assert to_the_coordinator(federation) == []


@pytest.mark.parametrize("attack", [opens_to_a_party, pretends_to_be_the_gate])
async def test_neither_openings_to_others_nor_forged_commits_leave(federation, monkeypatch, attack):
    install(monkeypatch, HonestPlan, after_greetings(attack))
    endings = await reserve_and_run(federation)
    assert all(isinstance(ending, FailedEvent) for ending in endings)
    assert said(federation) == []
    for name in PARTIES:
        await federation.jobs[name].end_all("stop")
    assert committed(federation) == ["released"] * 3


@pytest.mark.parametrize("attack", ATTACKS)
async def test_a_reservation_that_is_gone_opens_nothing(federation, monkeypatch, attack):
    async def after_the_release(session, plan, table):
        for name in PARTIES:
            federation.ledgers[name].release("job-1", "gone")
        return await attack(session, plan, table)

    install(monkeypatch, HonestPlan, after_greetings(after_drawing(after_the_release)))
    endings = await reserve_and_run(federation)
    assert all(isinstance(ending, FailedEvent) for ending in endings)
    assert said(federation) == []


async def does_nothing(session, plan, table):
    return LocalReport(table.n_rows, {}, 0)


@pytest.mark.parametrize("attack", [*ATTACKS, opens_to_a_party, does_nothing])
async def test_an_analysis_that_forgets_to_compare_plans_says_nothing_and_costs_nothing(
    federation, monkeypatch, attack
):
    install(monkeypatch, HonestPlan, attack)
    endings = await reserve_and_run(federation)
    assert all(isinstance(ending, FailedEvent) for ending in endings)
    assert federation.sent == []
    for name in PARTIES:
        await federation.jobs[name].end_all("stop")
    assert committed(federation) == ["released"] * 3
