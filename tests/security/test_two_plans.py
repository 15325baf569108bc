"""A coordinator that shows different plans of one job: no party says a word of its data to another, in any analysis."""

import asyncio

import pytest
from registry_jobs import HELPERS, OWNERS, VARIANTS

from analyses.job.schema import BlockSchema
from analyses.registry import ANALYSES, analysis_of
from analyses.run_locally import run_plan
from mpc.local.network import LocalNetwork
from mpc.protocol.greeting import DifferentTermsError
from mpc.protocol.session import COORDINATOR
from party.gate import GatedSession

ODD = {
    "compute-only parties": lambda variant: HELPERS if variant.has_helpers else OWNERS[2:],
    "owners": lambda variant: OWNERS if variant.has_helpers else OWNERS[1:],
    "one owner": lambda variant: OWNERS[:1],
    "one compute party": lambda variant: variant.members[1:2],
}


def test_every_analysis_of_the_registry_is_lied_to():
    assert set(ANALYSES) == {variant.analysis for variant in VARIANTS.values()}
    assert set(ANALYSES) <= set(VARIANTS)


def plan_of(variant, job):
    tables = variant.tables()
    return analysis_of(job).plan(job, [tables[m].schema if m in tables else BlockSchema(party=m) for m in job.members])


class Showing:
    """The parties of a job over one network, some of which were shown another plan than the others."""

    def __init__(self, variant, plan, other_plan, odd, *, analyst_of=lambda name: "ada"):
        self.tables = variant.tables()
        self.names = {COORDINATOR: "main", **dict(enumerate(plan.job.members, start=1))}
        self.plans = {m: other_plan if name in odd else plan for m, name in self.names.items()}
        self.network = LocalNetwork(
            self.names, terms_of=lambda m: self.plans[m].terms(analyst_of(self.names[m])), deadline_s=20.0
        )
        self.committed = []

    async def party(self, session):
        me, plan = session.me, self.plans[session.me]
        gated = GatedSession.of_plan(session, plan, commit=lambda: self.committed.append(me))
        try:
            await analysis_of(plan.job).party(gated, plan, self.tables.get(self.names[me]))
            await gated.open()
        except DifferentTermsError:
            await asyncio.sleep(0.05)  # as a service, which lets its last words arrive
            self.network.kill(me)
            raise

    async def run(self):
        """Return what each party came to; without the coordinator, who has no word in this."""
        parties = dict.fromkeys(list(self.names)[1:], self.party)
        run = await run_plan(self.plans[COORDINATOR], self.tables, self.network, parts=parties, absent=(COORDINATOR,))
        return run.ends

    def check(self, ends):
        """No word but greetings, and the key confirmations of those who found nothing wrong with their own peers."""
        assert {message.stage for message in self.network.transcript} <= {"keys", "key confirmation"}
        assert self.committed == []
        found = [end for end in ends.values() if isinstance(end, DifferentTermsError)]
        assert found
        assert {error.member for error in found} == {COORDINATOR}
        assert all("coordinator main showed different plans to" in str(error) for error in found)
        assert all("unless" in str(error) for error in found)
        assert None not in ends.values()


@pytest.mark.parametrize(
    ("name", "odd"),
    [
        (name, odd)
        for i, name in enumerate(VARIANTS)
        for j, odd in enumerate(ODD)
        if (i + j) % len(ODD) == 0 or name in ("pca", "secure-sum", "matrix-factorization")
    ],
)
async def test_parties_that_were_shown_two_epsilons_part_with_their_first_words(name, odd):
    variant = VARIANTS[name]
    plan = plan_of(variant, variant.job_of_epsilon(40.0))
    showing = Showing(variant, plan, plan_of(variant, variant.job_of_epsilon(4000.0)), ODD[odd](variant))
    showing.check(await showing.run())


@pytest.mark.parametrize("name", VARIANTS)
async def test_parties_that_were_shown_other_parameters_part_with_their_first_words(name):
    variant = VARIANTS[name]
    showing = Showing(
        variant, plan_of(variant, variant.job()), plan_of(variant, variant.other_job()), variant.members[:1]
    )
    showing.check(await showing.run())


@pytest.mark.parametrize("name", ["pca", "secure-sum"])
async def test_parties_that_were_told_different_analysts_part_with_their_first_words(name):
    variant = VARIANTS[name]
    plan = plan_of(variant, variant.job())
    showing = Showing(variant, plan, plan, (), analyst_of=lambda party: "mallory" if party == "bank" else "ada")
    showing.check(await showing.run())


async def test_two_owners_that_hold_no_shares_have_each_others_plan_compared_by_the_compute_parties():
    """They greet each other nowhere. The odd one is found out before the other has shared anything."""
    variant = VARIANTS["pca"]
    showing = Showing(
        variant, plan_of(variant, variant.job()), plan_of(variant, variant.job_of_epsilon(41.0)), ("telco",)
    )
    ends = await showing.run()
    showing.check(ends)
    by_name = {showing.names[m]: end for m, end in ends.items()}
    assert all(isinstance(by_name[helper], DifferentTermsError) for helper in HELPERS)
    confirming = {m.sender for m in showing.network.transcript if m.stage == "key confirmation"}
    assert not confirming & {m for m, name in showing.names.items() if name in (*HELPERS, "telco")}


@pytest.mark.parametrize("name", VARIANTS)
async def test_parties_that_were_shown_one_plan_come_to_a_result(name):
    variant = VARIANTS[name]
    plan = plan_of(variant, variant.job())
    showing = Showing(variant, plan, plan, ())
    parties = dict.fromkeys(list(showing.names)[1:], showing.party)
    ends = dict((await run_plan(plan, showing.tables, showing.network, parts=parties)).ends)
    assert ends.pop(COORDINATOR)["privacy"]
    assert set(ends.values()) == {None}
    assert sorted(showing.committed) == sorted(showing.names)[1:]
