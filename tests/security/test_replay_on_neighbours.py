"""Every analysis is run on tables and on neighbours of them, with what it releases frozen: nobody can tell which.

And what enters a mechanism is at most as far apart as the mechanism declares, in both views. Other tests break an
analysis in one way each, and see that the replay notices.
"""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from replayed_jobs import N_UNITS, REPLAYED, WAYS, replayed

from analyses.power_moments import protocol as power_moments
from analyses.registry import ANALYSES, analysis_of
from analyses.rows import joint_computation
from analyses.rows.quantise import BlockQuantiser
from dp.cost.views import VIEWS
from dp.mechanism.gram import GramSensitivity
from mpc.protocol.session import COORDINATOR

QUICK = (
    *ANALYSES,
    "pca, secret matching",
    "pca, revealed matching",
    "pca, persons",
    "clustering, independent",
    "matrix-factorization, vertical",
)
"""The usual way of each analysis, named like it, and one of each kind of job and of frozen release."""


@pytest.fixture(autouse=True)
def _a_row_more_needs_another_block(monkeypatch):
    monkeypatch.setattr(joint_computation, "ROWS_PER_BLOCK", N_UNITS)
    monkeypatch.setattr(power_moments, "BLOCK_ROWS", N_UNITS)


def test_every_analysis_is_replayed():
    assert {way.analysis for way in WAYS.values()} == set(ANALYSES)
    assert set(QUICK) <= set(REPLAYED)


@pytest.mark.parametrize("name", QUICK)
def test_neighbours_show_no_difference_and_move_no_more_than_is_declared(name):
    job = replayed(name)
    assert [problem for view in VIEWS for problem in job.problems(view, 1)] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", REPLAYED)
def test_neighbours_of_all_kinds_show_no_difference_and_move_no_more_than_is_declared(name):
    job = replayed(name)
    assert [problem for view in VIEWS for problem in job.problems(view, 4)] == []


# -- the replay has power --------------------------------------------------------------------------------------------


def test_a_sensitivity_that_is_declared_too_small_is_noticed(monkeypatch):
    whole = GramSensitivity.of

    def quarter(*args):
        found = whole(*args)
        return replace(found, squares=found.squares / 4, sizes=found.sizes / 2)

    job = replayed("pca")
    monkeypatch.setattr(GramSensitivity, "of", quarter)
    for view in VIEWS:
        assert any(problem.startswith("NoisyGram") for problem in job.problems(view, 4))


def test_rows_that_are_longer_than_their_bound_are_noticed(monkeypatch):
    whole = BlockQuantiser.quantise

    def doubled(self, values):
        rows, *counts = whole(self, values)
        return (2 * rows, *counts)

    monkeypatch.setattr(BlockQuantiser, "quantise", doubled)
    assert any(problem.startswith("NoisyGram") for problem in replayed("low-rank").problems("coordinator", 2))


def broken(party):
    """The analysis of moments of which a party with a table does something else first."""
    analysis = analysis_of(replayed("moments, laplace").plan.job)

    async def of_party(session, plan, table):
        if table is not None:
            await party(session, table.values)
        return await analysis.party(session, plan, table)

    return replace(analysis, own_party=of_party)


def is_beyond(values):
    return bool(np.abs(values).max() > 3)


async def raises(session, values):
    if is_beyond(values):
        raise ValueError("beyond the bounds")


async def sends_more(session, values):
    await session.send(COORDINATOR, "hint", np.zeros(1 + is_beyond(values), dtype=np.uint8))


async def sends_first(session, values):
    stages = ("hint", "other hint")[:: -1 if is_beyond(values) else 1]
    for stage in stages:
        await session.send(COORDINATOR, stage, np.zeros(1, dtype=np.uint8))


async def tells(session, values):
    if is_beyond(values):
        session.progress("rows that are clipped", 0, 1)


async def commits_early(session, values):
    if is_beyond(values):
        await session.commit()


@pytest.mark.parametrize("party", [raises, sends_more, sends_first, tells, commits_early])
@pytest.mark.parametrize("view", VIEWS)
def test_whatever_a_party_shows_of_its_values_is_noticed(party, view):
    assert replayed("moments, laplace").problems(view, 6, analysis=broken(party))


def test_a_result_with_other_fields_is_noticed():
    job, n_run = replayed("pca"), 0
    analysis = analysis_of(job.plan.job)

    async def coordinator(session, plan):
        nonlocal n_run
        n_run += 1
        return await analysis.coordinator(session, plan) | {f"field {n_run}": 0}

    problems = job.problems("coordinator", 1, analysis=replace(analysis, coordinator=coordinator))
    assert problems == ["the results have other fields"]


def test_less_noise_is_drawn_where_a_replay_asks_for_it():
    job = replayed("moments")
    ((_, unit),) = job.pairs("coordinator", 1)
    drawn = [np.concatenate([d.noise for d in job.run(unit, noise=Fraction(part)).drawn]) for part in (1, "1/100")]
    assert np.abs(drawn[1]).sum() < np.abs(drawn[0]).sum()
