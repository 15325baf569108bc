"""Analyses that draw other noise than their plan states: the gate stops each, for every analysis of the registry.

The real parties' code runs in this process, with the gate of a party in the way; a wrapper between both plays an
analysis that was written wrongly.
"""

from collections import Counter
from dataclasses import replace
from fractions import Fraction

import pytest
from registry_jobs import OTHER_WAYS, VARIANTS

from analyses.job.schema import BlockSchema
from analyses.pattern_count.reports import PatternReports
from analyses.registry import ANALYSES, analysis_of
from analyses.run_locally import local_network, run_plan
from analyses.sums.noise import SumNoise
from audit.less_noise import with_noise
from entropy import InsecureTestEntropy
from mpc.errors import LocalFaultError
from mpc.protocol.session import COORDINATOR
from party.gate import GatedSession

SETTINGS = {**VARIANTS, **OTHER_WAYS}
LESS = Fraction(1, 2)


class Rogue:
    """What an analysis sees of its gate, but for how it draws."""

    def __init__(self, gate, plan):
        self._gate, self._plan = gate, plan

    def __getattr__(self, name):
        return getattr(self._gate, name)


class DrawsLess(Rogue):
    """Draws a release of the same kind with less noise."""

    async def draw(self, release, *args, **kwargs):
        return await self._gate.draw(with_less_noise(release), *args, **kwargs)


class DrawsAgain(Rogue):
    """Draws for each message as often as it may for all of them, and once more."""

    async def draw(self, release, *args, **kwargs):
        most = max(planned.times for planned in self._plan.releases)
        return [await self._gate.draw(release, *args, **kwargs) for _ in range(most + 1)][-1]


class DrawsPastTheGate(Rogue):
    """Makes its noise itself: maybe the right one, but nobody knows."""

    async def draw(self, release, *args, **kwargs):
        return release.draw(self._gate.entropy, *args, **kwargs)


class DrawsLessOfItsOwn(Rogue):
    """Makes less noise, by a class of its own that claims to be what is planned."""

    async def draw(self, release, *args, **kwargs):
        class Imposter(type(release)):
            def __eq__(self, other):
                return True

            __hash__ = None

            def draw(self, entropy, *args, **kwargs):
                return with_less_noise(release).draw(entropy, *args, **kwargs)

        imposter = object.__new__(Imposter)
        imposter.__dict__.update(release.__dict__)
        return await self._gate.draw(imposter, *args, **kwargs)


WRONG = {
    DrawsLess: "states no such release",
    DrawsLessOfItsOwn: "states no such release",
    DrawsAgain: "at most",
    DrawsPastTheGate: "needs noise that was not drawn",
}


def with_less_noise(release):
    match release:
        case SumNoise():
            # At 1 there is no less, but more is other noise too.
            more = {"mean_units": release.mean_units + 1} if release.mean_units else {"mu": release.mu + 1}
            return replace(release, **more)
        case PatternReports():
            return replace(release, bits=with_noise(release.bits, LESS))
    return with_noise(release, LESS)


def planned(name):
    job, tables = SETTINGS[name].job(), SETTINGS[name].tables()
    schemas = [tables[m].schema if m in tables else BlockSchema(party=m) for m in job.members]
    return analysis_of(job).plan(job, schemas), tables


async def run(name, rogue=Rogue):
    """Return the run, and in which stages each party sent something to the coordinator."""
    plan, tables = planned(name)
    analysis, sent = analysis_of(plan.job), Counter()

    def note(message):
        if message.receiver == COORDINATOR:
            sent[message.stage] += 1
        return (message,)

    async def party(session, plan, table):
        gate = GatedSession.of_plan(session, plan, commit=lambda: None)
        report = await analysis.party(rogue(gate, plan), plan, table)
        await gate.open()
        return report

    network = local_network(plan, entropy_of=lambda m: InsecureTestEntropy(f"member {m}"), fault=note, deadline_s=30.0)
    return await run_plan(plan, tables, network, analysis=replace(analysis, own_party=party)), sent


def test_every_analysis_is_tried():
    assert {variant.analysis for variant in SETTINGS.values()} == set(ANALYSES)


@pytest.mark.parametrize("name", SETTINGS)
async def test_an_analysis_that_draws_what_it_planned_gives_the_result_that_it_gives_without_a_gate(name):
    gated, _ = await run(name)
    plan, tables = planned(name)
    network = local_network(plan, entropy_of=lambda m: InsecureTestEntropy(f"member {m}"), deadline_s=30.0)
    assert gated.result == (await run_plan(plan, tables, network)).result
    assert gated.failures == ()


@pytest.mark.parametrize("rogue", WRONG)
@pytest.mark.parametrize("name", SETTINGS)
async def test_an_analysis_that_draws_anything_else_is_stopped_before_it_shows_anything(name, rogue):
    ended, sent = await run(name, rogue)
    assert isinstance(ended.failures[0], LocalFaultError)
    assert WRONG[rogue] in str(ended.failures[0])
    protected = [stage for one in ended.plan.releases for stage in sent if stage not in one.earlier]
    assert protected == []
