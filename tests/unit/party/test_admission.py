import asyncio
from dataclasses import replace

import numpy as np
import pytest
from job_builders import PARTIES, make_job, make_table
from ledgers import budget
from party_federation import NAMES, Federation
from registry_jobs import table_of

from analyses.clustering.estimators.fm_sketch import UNIT_AGAINST_COORDINATOR
from analyses.registry import analysis_of
from party.admission import RefusalError
from party.consent import ConsentBox
from party.policy import Policy, Rules

ASKING = Policy(automatic=Rules(max_epsilon_per_job=1.0), limits=Rules(max_epsilon_per_job=50.0), approval_deadline_s=5)


@pytest.fixture
def tables():
    rng = np.random.default_rng(3)
    return {name: make_table(name, rng.uniform(-1, 3, (30, 2))) for name in PARTIES}


def job_of(epsilon, **changes):
    return make_job(privacy={"epsilon": epsilon, "delta": 1e-5}, **changes)


async def reserve_at_bank(federation, job):
    """Reserve a job at one party; return what it said meanwhile."""
    schemas = [await federation.propose(job, name) for name in PARTIES]
    plan = analysis_of(job).plan(job, schemas)
    return [text async for text in federation.jobs["bank"].reserve("job-1", schemas, plan.digest())]


async def question_of(box):
    while not box.waiting():  # noqa: ASYNC110 - as the owner looks, from another process
        await asyncio.sleep(0.01)
    return box.waiting()[0]


async def test_a_small_job_is_accepted_by_the_policy_and_a_larger_one_by_the_owner(tables, tmp_path):
    federation = Federation(tables, tmp_path, policy=ASKING)
    assert await reserve_at_bank(federation, job_of(1.0)) == []
    (entry,) = [e for e in federation.ledgers["bank"].history() if e.kind == "reserved"]
    assert (entry.what.consent, entry.what.analyst) == ("policy", "ada")


async def test_the_owner_is_shown_who_asks_what_both_epsilons_and_what_would_be_left(tables, tmp_path):
    federation = Federation(tables, tmp_path, policy=ASKING)
    reserving = asyncio.create_task(reserve_at_bank(federation, job_of(4.0, title="Trends")))
    box = ConsentBox(tmp_path / "bank")
    shown = await question_of(box)
    assert federation.ledgers["bank"].balance("people").held == 0  # nothing is held while the owner thinks
    assert (shown["analyst"], shown["analysis"], shown["title"]) == ("ada", "pca", "Trends")
    assert (shown["table"], shown["columns"]) == ("people", ["x0", "x1"])
    assert 0 < shown["epsilon"]["coordinator"] < shown["epsilon"]["coalition"] <= 4.0
    assert shown["budget"]["held_after"] == pytest.approx(shown["epsilon"]["coalition"])
    assert shown["why_asked"] == ["epsilon 4 of the job is above 1 (worst view)"]
    box.answer("job-1", None)
    (said,) = await reserving
    assert "bank waits for its owner's approval" in said
    assert [e.what.consent for e in federation.ledgers["bank"].history() if e.kind == "reserved"] == ["owner"]


async def test_the_owners_refusal_and_its_reason_reach_the_analyst(tables, tmp_path):
    federation = Federation(tables, tmp_path, policy=ASKING)
    reserving = asyncio.create_task(reserve_at_bank(federation, job_of(4.0)))
    box = ConsentBox(tmp_path / "bank")
    await question_of(box)
    box.answer("job-1", "ask again next year")
    with pytest.raises(RefusalError, match="the owner refused the job: ask again next year"):
        await reserving


async def test_an_owner_who_does_not_answer_refuses_at_the_deadline(tables, tmp_path):
    policy = ASKING.model_copy(update={"approval_deadline_s": 0.3})
    federation = Federation(tables, tmp_path, policy=policy)
    with pytest.raises(RefusalError, match=r"the owner did not approve the job within 0.3 s"):
        await reserve_at_bank(federation, job_of(4.0))
    assert ConsentBox(tmp_path / "bank").waiting() == []


async def test_a_job_that_is_called_off_while_the_owner_thinks_leaves_nothing(tables, tmp_path):
    federation = Federation(tables, tmp_path, policy=ASKING)
    reserving = asyncio.create_task(reserve_at_bank(federation, job_of(4.0)))
    box = ConsentBox(tmp_path / "bank")
    await question_of(box)
    federation.jobs["bank"].end("job-1", "cancelled by ada")
    box.answer("job-1", None)
    with pytest.raises(RefusalError, match="called off"):
        await reserving
    await federation.jobs["bank"].end_all("stop")
    assert federation.ledgers["bank"].balance("people").n_reserved == 0


async def test_a_job_beyond_the_limits_is_refused_when_it_is_planned(tables, tmp_path):
    federation = Federation(tables, tmp_path, policy=ASKING)
    with pytest.raises(RefusalError, match=r"by its policy: epsilon 60 of the job is above 50"):
        await reserve_at_bank(federation, job_of(60.0))


async def test_what_is_plain_from_the_proposal_is_refused_at_once(tables, tmp_path):
    policy = Policy(limits=Rules(analysts=("grace",), columns={"people": ("x0",)}))
    federation = Federation(tables, tmp_path, policy=policy)
    with pytest.raises(RefusalError, match=r"by its policy: analyst 'ada' is not .*; column 'x1'"):
        await federation.propose(job_of(1.0))


async def test_the_factors_of_a_product_are_what_a_policy_is_asked_about(tables, tmp_path):
    """A product with a column that may not be used tells that column."""
    schema = tables["bank"].schema
    columns = (schema.columns[0], schema.columns[1].model_copy(update={"name": "x0*x1", "factors": ("x0", "x1")}))
    brought = replace(tables["bank"], schema=schema.model_copy(update={"columns": columns}))
    policy = Policy(limits=Rules(columns={"people": ("x0",)}))
    federation = Federation({**tables, "bank": brought}, tmp_path, policy=policy)
    with pytest.raises(RefusalError, match=r"column 'x1' of table 'people' may not be used"):
        await federation.propose(job_of(1.0))


async def test_an_exhausted_budget_is_told_without_asking_the_owner(tables, tmp_path):
    federation = Federation(tables, tmp_path, policy=ASKING)
    federation.ledgers["bank"].set_budget("people", budget(3.0, delta=1e-5), "less")
    with pytest.raises(RefusalError, match=r"does not cover this job.*epsilon 4 of 3"):
        await reserve_at_bank(federation, job_of(4.0))
    federation.jobs["bank"].end("job-1", "")
    assert federation.ledgers["bank"].balance("people").held == 0


async def test_the_limit_per_analyst_is_enforced_by_the_ledger(tables, tmp_path):
    policy = Policy(automatic=Rules(max_epsilon_per_job=2.0), limits=Rules(max_epsilon_per_analyst=2.5))
    federation = Federation(tables, tmp_path, policy=policy)
    await federation.run(job_of(2.0))
    schemas = [await federation.jobs[n].propose("job-2", job_of(2.0).canonical_json(), NAMES, "ada") for n in PARTIES]
    plan = analysis_of(job_of(2.0)).plan(job_of(2.0), schemas)
    with pytest.raises(RefusalError, match=r"all jobs of analyst 'ada' would come to epsilon [0-9.]+ of 2\.5"):
        await anext(federation.jobs["bank"].reserve("job-2", schemas, plan.digest()))


@pytest.mark.parametrize(("job_delta", "budget_delta"), [(1e-5, 1e-6), (1e-6, 0.04), (1e-6, 1 / 30)])
async def test_a_delta_above_the_budgets_or_a_budgets_above_one_in_n_is_refused_without_a_count(
    tables, tmp_path, job_delta, budget_delta
):
    federation = Federation(tables, tmp_path)
    federation.ledgers["bank"].set_budget("people", budget(100.0, delta=budget_delta), "test")
    with pytest.raises(RefusalError) as raised:
        await reserve_at_bank(federation, make_job(privacy={"epsilon": 1.0, "delta": job_delta}))
    which = "delta is too large for table 'people' of bank: "
    if job_delta > budget_delta:
        assert str(raised.value) == which + f"it may be at most {budget_delta!r}, and is {job_delta!r}"
    else:
        assert str(raised.value).startswith(
            which + f"the delta of its budget is {budget_delta!r}, and must be below 1 / 30 "
        )


async def test_a_table_without_a_budget_is_refused(tables, tmp_path):
    federation = Federation(tables, tmp_path, with_budget=False)
    with pytest.raises(RefusalError, match="no privacy budget is set for table 'people'"):
        await reserve_at_bank(federation, make_job())


SKETCHES = {
    "k": 2,
    "k_local": 2,
    "max_rows": 40,
    "counting": "fm-sketch",
    "counting_options": {"accept_no_protection_against_parties": True, "sketches": 64},
}


def job_with_sketches(epsilon):
    privacy = {"epsilon": epsilon, "delta": 1e-5, "view": "coordinator"}
    return make_job(analysis="clustering", privacy=privacy, parameters=SKETCHES)


def allow_sketches(federation):
    for ledger in federation.ledgers.values():
        allowed = budget(5000.0, delta=1e-5, period="sketches", unit=UNIT_AGAINST_COORDINATOR)
        ledger.set_budget("people", allowed, "the coordinator alone is to be kept out")


async def test_a_job_that_protects_from_the_coordinator_alone_needs_a_budget_that_says_so(tables, tmp_path):
    policy = Policy(automatic=Rules(max_epsilon_per_job=5000.0), limits=Rules(withstand_coalition=0))
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    usual, allowing, other = (Federation(tables, tmp_path / name, policy=policy) for name in ("a", "b", "c"))
    with pytest.raises(
        RefusalError, match="this job protects the unit 'record of the joint table, against the coordinator"
    ):
        await reserve_at_bank(usual, job_with_sketches(500.0))
    allow_sketches(allowing)
    assert await reserve_at_bank(allowing, job_with_sketches(500.0)) == []
    (entry,) = [e for e in allowing.ledgers["bank"].history() if e.kind == "reserved"]
    assert entry.what.unit == UNIT_AGAINST_COORDINATOR
    allow_sketches(other)
    with pytest.raises(RefusalError, match="is of the unit 'record of the joint table, against the coordinator alone'"):
        await reserve_at_bank(other, job_of(1.0))


@pytest.mark.parametrize("limits", [Rules(), Rules(withstand_coalition=1)], ids=["by default", "in words"])
async def test_an_owner_who_does_not_waive_protection_from_parties_refuses_it(tables, tmp_path, limits):
    policy = Policy(automatic=Rules(max_epsilon_per_job=5000.0), limits=limits)
    federation = Federation(tables, tmp_path, policy=policy)
    allow_sketches(federation)
    with pytest.raises(RefusalError, match="must withstand 1 colluding parties, not 0"):
        await reserve_at_bank(federation, job_with_sketches(500.0))


async def test_an_owner_who_is_asked_sees_that_nothing_protects_from_parties(tables, tmp_path):
    federation = Federation(
        tables, tmp_path, policy=Policy(approval_deadline_s=20, limits=Rules(withstand_coalition=0))
    )
    allow_sketches(federation)
    reserving = asyncio.create_task(reserve_at_bank(federation, job_with_sketches(500.0)))
    box = ConsentBox(tmp_path / "bank")
    shown = await question_of(box)
    assert shown["colluding"] == 0
    assert shown["epsilon"]["coalition"] is None
    assert 0 < shown["epsilon"]["coordinator"] <= 500
    box.answer("job-1", None)
    await reserving


HELPERS = ("one", "two", "three")


async def refusal_at(federation, name, job):
    """Reserve a job at one party; return why it was refused, or None."""
    schemas = [await federation.propose(job, member) for member in federation.tables]
    plan = analysis_of(job).plan(job, schemas)
    try:
        assert [text async for text in federation.jobs[name].reserve("job-1", schemas, plan.digest())] == []
    except RefusalError as error:
        return str(error)
    return None


def federation_with_helpers(tables, tmp_path, rules):
    policy = Policy(automatic=Rules(max_epsilon_per_job=rules.max_epsilon_per_job or 1e6), limits=rules)
    return Federation({**dict.fromkeys(HELPERS), **tables}, tmp_path, policy=policy)


@pytest.mark.parametrize("limit", ["max_epsilon_per_job", "max_epsilon_per_analyst"])
@pytest.mark.parametrize(("epsilon", "is_refused"), [(4.0, False), (4.1, True), (5000.0, True)])
async def test_a_party_that_only_computes_holds_jobs_to_its_limits_of_epsilon(
    tables, tmp_path, limit, epsilon, is_refused
):
    rules = Rules(max_epsilon_per_job=4.0) if limit == "max_epsilon_per_job" else Rules(max_epsilon_per_analyst=4.0)
    policy = Policy(automatic=Rules(max_epsilon_per_job=4.0, max_epsilon_per_analyst=4.0), limits=rules)
    federation = Federation({**dict.fromkeys(HELPERS), **tables}, tmp_path, policy=policy)
    refusal = await refusal_at(federation, "one", job_of(epsilon, compute=HELPERS))
    if is_refused:
        words = {
            "max_epsilon_per_job": "of the job is above 4 (worst view)",
            "max_epsilon_per_analyst": "of 4 at delta",
        }
        assert "by its policy: " in refusal
        assert words[limit] in refusal
    else:
        assert refusal is None
    assert federation.ledgers["one"].history()[1:] == []  # its own budget, which this job is not about, is not touched


async def test_a_party_that_only_computes_asks_its_owner_about_a_larger_epsilon(tables, tmp_path):
    federation = federation_with_helpers(tables, tmp_path, Rules())
    for jobs in federation.jobs.values():
        jobs._admission._config = jobs._admission._config.model_copy(update={"policy": ASKING})
    reserving = asyncio.create_task(refusal_at(federation, "two", job_of(4.0, compute=HELPERS)))
    shown = await question_of(ConsentBox(tmp_path / "two"))
    assert shown["why_asked"] == ["epsilon 4 of the job is above 1 (worst view)"]
    assert shown["budget"] is None
    ConsentBox(tmp_path / "two").answer("job-1", "no")
    assert "the owner refused the job: no" in await reserving


async def test_a_party_that_only_computes_refuses_a_delta_that_would_make_any_epsilon_small(tables, tmp_path):
    federation = federation_with_helpers(tables, tmp_path, Rules(max_epsilon_per_job=4.0))
    for delta, is_refused in ((1 / 31, False), (1 / 30, True), (0.9, True)):
        job = make_job(privacy={"epsilon": 4.0, "delta": delta}, compute=HELPERS)
        refusal = await refusal_at(federation, "three", job)
        for name in federation.tables:
            federation.jobs[name].end("job-1", "again")
        assert (refusal is not None) == is_refused
        if is_refused:
            limit = f"1 / 30 (the largest number of rows that the table may have), and is {delta!r}"
            assert refusal == f"delta is too large for the table of bank: it must be below {limit}"


MOMENTS = {"analysis": "moments", "privacy": {"epsilon": 4.0, "delta": 1e-5}, "anyway": True}


@pytest.mark.parametrize(("order", "is_refused"), [(1, False), (2, False), (3, True), (6, True)])
@pytest.mark.parametrize("name", ["bank", "one"])
async def test_a_party_may_refuse_jobs_with_intermediate_products(tables, tmp_path, name, order, is_refused):
    """Those with tables and those that only compute; the plan says which jobs have such, and not the coordinator."""
    counts = {party: table_of(party, ("code",)) for party in tables}
    federation = federation_with_helpers(counts, tmp_path, Rules(intermediate_products=False))
    refusal = await refusal_at(
        federation, name, make_job(compute=HELPERS, parameters={"order": order, "max_rows": 1000}, **MOMENTS)
    )
    assert (refusal is not None) == is_refused
    if is_refused:
        assert refusal.startswith("by its policy: a job that computes further with products under shares")


@pytest.mark.parametrize(
    ("helpers", "refused"), [((), ("one", "two", "three")), (("one", "two"), ("three",)), (HELPERS, ())]
)
async def test_a_party_refuses_helpers_that_it_has_not_named(tables, tmp_path, helpers, refused):
    federation = federation_with_helpers(tables, tmp_path, Rules(helpers=helpers))
    owners = dict(enumerate(PARTIES, start=1))
    assert await federation.jobs["bank"].propose("job-0", job_of(4.0).canonical_json(), owners, "ada")  # they compute
    if not refused:
        assert await refusal_at(federation, "bank", job_of(4.0, compute=HELPERS)) is None
        return
    with pytest.raises(RefusalError, match=", ".join(map(repr, refused)) + " may not compute without bringing a table"):
        await federation.propose(job_of(4.0, compute=HELPERS), "bank")


async def test_a_helper_need_not_name_itself(tables, tmp_path):
    federation = federation_with_helpers(tables, tmp_path, Rules(helpers=("two", "three")))
    assert await federation.propose(job_of(4.0, compute=HELPERS), "one")


async def test_the_owner_is_told_of_helpers_and_of_intermediate_products(tables, tmp_path):
    counts = {party: table_of(party, ("code",)) for party in tables}
    policy = Policy(limits=Rules(withstand_coalition=1), approval_deadline_s=5)
    federation = Federation({**dict.fromkeys(HELPERS), **counts}, tmp_path, policy=policy)
    for order in (2, 3):
        job = make_job(compute=HELPERS, parameters={"order": order, "max_rows": 1000}, **MOMENTS)
        schemas = [await federation.propose(job, member) for member in federation.tables]
        plan = analysis_of(job).plan(job, schemas)
        asked = federation.jobs["bank"].reserve("job-1", schemas, plan.digest())
        task = asyncio.ensure_future(anext(aiter(asked)))
        await task
        box = ConsentBox(tmp_path / "bank")
        rest = asyncio.ensure_future(anext(aiter(asked), None))
        while not box.waiting():  # noqa: ASYNC110 - the question is a file
            await asyncio.sleep(0.01)
        (question,) = box.waiting()
        assert question["helpers"] == list(HELPERS)
        assert (question["products"] is None) == (order == 2)
        box.answer("job-1", "no")
        with pytest.raises(RefusalError):
            await rest
        for name in federation.tables:
            federation.jobs[name].end("job-1", "again")


async def test_a_party_that_only_computes_asks_how_many_may_collude(tables, tmp_path):
    federation = federation_with_helpers(tables, tmp_path, Rules(withstand_coalition=1))
    sketches = {"accept_no_protection_against_parties": True, "sketches": 64}
    job = make_job(
        analysis="clustering",
        compute=HELPERS,
        privacy={"epsilon": 50.0, "delta": 1e-5, "view": "coordinator"},
        parameters={"k": 2, "k_local": 2, "max_rows": 1000, "counting": "fm-sketch", "counting_options": sketches},
    )
    assert "must withstand 1 colluding parties, not 0" in await refusal_at(federation, "one", job)


async def test_a_job_that_asks_for_less_epsilon_than_the_owner_allows_is_refused_and_nothing_is_held(tables, tmp_path):
    limits = Rules(min_epsilon_per_job=1.0)
    federation = Federation(tables, tmp_path, policy=Policy(automatic=Rules(max_epsilon_per_job=2.0), limits=limits))
    with pytest.raises(RefusalError, match=r"epsilon 0\.999 of the job is below 1 \(min_epsilon_per_job"):
        await reserve_at_bank(federation, job_of(0.999))
    assert federation.ledgers["bank"].balance("people").held == 0


@pytest.mark.parametrize("name", ["bank", "one"])
async def test_a_job_whose_forecast_is_above_the_owners_memory_is_refused_and_nothing_is_read_or_held(
    tables, tmp_path, name
):
    """Owners and parties that only compute alike: before the ledger, the owner and the table are asked."""
    federation = Federation({**dict.fromkeys(HELPERS), **tables}, tmp_path, policy=ASKING)
    jobs = federation.jobs[name]
    jobs.use(jobs._config.model_copy(update={"job_memory_mib": 1}))
    refusal = await refusal_at(federation, name, job_of(4.0, compute=HELPERS))
    assert f"{name} would take about" in refusal
    assert refusal.endswith("and may take 1 MiB (job_memory_mib): name fewer columns [job-too-large]")
    assert federation.loaded == []
    assert federation.ledgers["bank"].balance("people").held == 0
