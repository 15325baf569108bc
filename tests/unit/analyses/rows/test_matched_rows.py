"""Jobs on rows that only some owners have: the answer is that of the rows which all have, however many these are."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
from job_builders import PARTIES

from analyses.job.job import Job
from analyses.job.matching import MatchingSchema
from analyses.job.plan import OPENING_STAGE
from analyses.job.row_ids import Persons, digests_of_ids
from analyses.job.schema import BlockSchema, ColumnSchema, OwnMatch, Table
from analyses.registry import ANALYSES
from analyses.rows import meeting
from analyses.run_locally import local_network, run_locally, run_plan
from dp.cost.report import describe
from entropy import InsecureTestEntropy
from mpc.errors import LocalFaultError, PeerError, PeerSilentError
from mpc.protocol.equality import UnequalValuesError
from mpc.protocol.session import COORDINATOR

MOST = {"bank": 64, "hospital": 80, "telco": 96}
OWN = 20
"""Rows that each owner has for itself."""

SKETCHES = {"accept_no_protection_against_parties": True, "sketches": 64}
PROGRAM = [
    *(f"{p} = column({p}.x0)" for p in PARTIES),
    "d = less(bank, hospital)",
    "e = mul(d, telco)",
    "open e = sum(e)",
]
JOBS = [
    ("pca", {"components": 2}),
    ("low-rank", {"rank": 2}),
    ("low-rank", {"rank": 2, "method": "sketch"}),
    ("least-squares", {"label": "bank.x0"}),
    ("least-squares", {"label": "bank.x0", "method": "sketch"}),
    ("logistic-regression", {"label": "telco.x0"}),
    ("logistic-regression", {"label": "telco.x0", "method": "gradient", "iterations": 3}),
    ("pattern-count", {}),
    ("pattern-count", {"method": "randomized-response"}),
    ("pattern-count", {"method": "subsampled", "share": 0.5}),
    ("moments", {}),
    ("moments", {"method": "laplace", "order": 1}),
    ("moments", {"method": "sketch", "sketch_rows": 64}),
    ("moments", {"method": "threshold", "order": 2, "threshold": 12}),
    ("clustering", {"k": 3, "k_local": 2}),
    ("clustering", {"k": 3, "k_local": 2, "counting": "independent"}),
    ("clustering", {"k": 3, "k_local": 2, "counting": "ldp"}),
    ("clustering", {"k": 3, "k_local": 2, "counting": "pattern"}),
    ("clustering", {"k": 3, "k_local": 2, "counting": "fm-sketch", "counting_options": SKETCHES}),
    ("cross-table", {}),
    ("circuit", {"program": PROGRAM}),
    ("joint-count", {}),
    ("joint-mean", {}),
    ("joint-sum", {}),
    ("second-moments", {}),
]
DEADLINE_S = 5.0
HELPERS = ("one", "two", "three")


def tables_of(n_common, *, persons=False):
    """Tables in orders of their own: `n_common` rows are everybody's, and some two parties' or one's."""
    found = {}
    for number, party in enumerate(PARTIES):
        rng = np.random.default_rng([n_common, number])
        names = [f"c{i}" for i in range(n_common)] + [f"{party}{i}" for i in range(OWN)]
        names += [f"two{i}" for i in range(5) if party != "telco"]
        rng.shuffle(names)
        values = np.array([[hash_of(party, name)] for name in names], dtype=float)
        schema = BlockSchema(
            party=party,
            columns=(ColumnSchema(name="x0", lower=0, upper=1),),
            rows=(10, MOST[party]),
            matching=MatchingSchema(recipe=(("trim",),), reveal=True),
        )
        found[party] = Table(schema, values, ids=digests_of_ids([names]))
    return found


def hash_of(party, name):
    """A label of 0 or 1 that follows from party and row."""
    return digests_of_ids([[party + name]])[0, 0] & 1


def common_of(tables):
    """What the owners would pool: the rows that all have, in one order."""
    everybody = set.intersection(*({one.tobytes() for one in table.ids} for table in tables.values()))
    order = sorted(everybody)
    places = {p: {one.tobytes(): row for row, one in enumerate(t.ids)} for p, t in tables.items()}
    return [tables[p].matched(np.array([places[p][one] for one in order], dtype=np.int64)) for p in PARTIES]


def job_of(analysis, parameters, **changes):
    fields = {
        "analysis": analysis,
        "inputs": [{"party": p, "table": "people"} for p in PARTIES],
        "privacy": {"epsilon": 500.0, "delta": 1e-5, "view": "coordinator"},
        "parameters": parameters,
        "deadline_s": 60,
        "matching": {"kind": "revealed"},
    }
    return Job.model_validate(fields | changes)


async def run(job, n_common, **options):
    return await run_locally(job, tables_of(n_common), **options)


def test_every_analysis_that_matches_rows_is_tried_here():
    assert {analysis for analysis, _ in JOBS} == {name for name, one in ANALYSES.items() if one.matching}


def stages_of(ran):
    """What each party tells the coordinator of how far it is. Within a stage a service tells quarters, all of them."""
    told = dict.fromkeys((who, stage) for who, stage, _, _ in ran.network.progress_log if who != COORDINATOR)
    return {party: [stage for who, stage in told if who == party] for party in ran.network.names}


@pytest.mark.parametrize(
    ("analysis", "parameters", "compute"),
    [(*job, ()) for job in JOBS] + [(*job, (*PARTIES, "one", "two")) for job in JOBS if job[1].get("method") is None],
)
async def test_however_many_rows_match_the_job_ends_and_looks_the_same_to_the_coordinator(
    analysis, parameters, compute
):
    """Also where none does: then the answer is of noise alone."""
    seen = []
    for n_common in (0, 1, 30):
        job = job_of(analysis, parameters, compute=compute, colluding=1)
        ran = await run(job, n_common, entropy_of=lambda m: InsecureTestEntropy(f"member {m}"))
        assert ran.result["analysis"] == analysis
        said = (
            "Rows are matched (revealed): each owner learns which of its rows all owners have; epsilon does not cover"
        )
        assert said in "\n".join(describe(ran.result["privacy"]))
        for party in PARTIES:
            report = ran.reports[party]
            assert (report.n_matched, report.n_rows) == (n_common, len(tables_of(n_common)[party].values))
        messages = [(m.sender, m.stage, m.array.shape) for m in ran.network.transcript if m.receiver == COORDINATOR]
        seen.append((sorted(messages), stages_of(ran)))
    assert seen[0] == seen[1] == seen[2]


@pytest.mark.parametrize("helpers", [(), HELPERS])
async def test_the_answer_is_that_of_the_rows_that_all_have(helpers):
    tables = tables_of(35)
    job = job_of("moments", {"order": 2}, compute=helpers)
    ran = await run_locally(job, tables, entropy_of=lambda m: InsecureTestEntropy(f"member {m}"))
    expected = ANALYSES["moments"].reference(common_of(tables), ran.plan)
    error = ran.result["moment"] - expected
    assert abs(error) < 6 * ran.result["standard_error"] + 1e-9
    for helper in helpers:
        assert ran.reports[helper].n_matched is None


async def test_helpers_wait_for_owners_who_match_for_many_deadlines(monkeypatch):
    """Nobody sends a helper anything meanwhile."""
    own = meeting.match_revealed

    async def slow(session, *args, **how):
        if args[1] is not None:
            await asyncio.sleep(5 * DEADLINE_S)
        return await own(session, *args, **how)

    async def patient(session):
        """The coordinator of a service has no deadline while parties give signs of life."""
        await asyncio.sleep(6 * DEADLINE_S)
        return await ANALYSES["moments"].coordinator(session, plan)

    monkeypatch.setattr(meeting, "match_revealed", slow)
    job, tables = job_of("moments", {"order": 2}, compute=HELPERS), tables_of(5)
    plan = ANALYSES["moments"].plan(
        job, [tables[m].schema if m in tables else BlockSchema(party=m) for m in job.members]
    )
    network = local_network(plan, deadline_s=DEADLINE_S)
    ran = await run_plan(plan, tables, network, parts={COORDINATOR: patient})
    assert not ran.failures


async def test_an_owner_who_drops_out_while_matching_ends_the_job_at_everybody_and_is_named(monkeypatch):
    own = meeting.match_revealed

    async def fails(session, *args, **how):
        if session.names[session.me] == "hospital":
            raise PeerSilentError(session.me, "matching/blinded", "hospital has gone")
        return await own(session, *args, **how)

    monkeypatch.setattr(meeting, "match_revealed", fails)
    ran = await run(job_of("moments", {"order": 2}, compute=HELPERS), 5, deadline_s=DEADLINE_S)
    assert all(isinstance(end, PeerError) for end in ran.ends.values())
    assert not [m for m in ran.network.transcript if m.stage.startswith(("row count", OPENING_STAGE))]


async def test_no_number_of_rows_that_matched_is_sent_to_the_coordinator_or_told():
    ran = await run(job_of("moments", {"order": 2}, compute=HELPERS), 30)
    matching = [m for m in ran.network.transcript if m.stage.startswith(("matching", meeting.MATCHED))]
    assert matching
    owners = {ran.plan.job.members.index(p) + 1 for p in PARTIES}
    assert {m.receiver for m in matching if m.stage != meeting.MATCHED} <= owners
    assert {tuple(m.array) for m in matching if m.stage == meeting.MATCHED} == {(0,)}


async def kept_matches(n_common, **changes):
    """Tables with the match that a job has kept of them."""
    tables = {party: replace(table, match=OwnMatch()) for party, table in tables_of(n_common).items()}
    job = job_of("moments", {"order": 2}, **changes, matching={"kind": "revealed", "keep": True})
    assert (await run_locally(job, tables)).result["analysis"] == "moments"
    return tables


@pytest.mark.parametrize(("analysis", "parameters"), JOBS)
async def test_every_analysis_goes_by_a_kept_match_and_sends_nothing_of_a_matching(analysis, parameters):
    job = job_of(analysis, parameters, matching={"kind": "revealed", "match": "job-1"})
    ran = await run_locally(job, await kept_matches(30))
    assert ran.result["analysis"] == analysis
    assert {ran.reports[party].n_matched for party in PARTIES} == {30}
    assert not [m for m in ran.network.transcript if m.stage.startswith(("matching", meeting.MATCHED))]


@pytest.mark.parametrize("helpers", [(), HELPERS])
async def test_what_is_kept_is_of_the_rows_that_all_have_with_the_origin_of_its_job(helpers):
    tables = await kept_matches(35, compute=helpers)
    ids = [table.ids[table.match.rows].tobytes() for table in tables.values()]
    assert ids[0] == ids[1] == ids[2]
    assert len(tables["bank"].match.rows) == 35
    assert len({table.match.origin for table in tables.values()}) == 1
    assert len(tables["bank"].match.origin) == 32
    assert all(" match=" not in repr(table) and "rows" not in repr(table.match) for table in tables.values())
    job = job_of("moments", {"order": 2}, compute=helpers, matching={"kind": "revealed", "match": "job-1"})
    ran = await run_locally(job, tables, entropy_of=lambda m: InsecureTestEntropy(f"member {m}"))
    assert abs(ran.result["moment"] - ANALYSES["moments"].reference(common_of(tables), ran.plan)) < 1


def permuted(match):
    return OwnMatch(match.rows[::-1], match.origin)


def of_another_job(match):
    return OwnMatch(match.rows, bytes(32))


def shorter(match):
    return OwnMatch(match.rows[:-1], match.origin)


@pytest.mark.parametrize("lie", [permuted, of_another_job, shorter])
@pytest.mark.parametrize("helpers", [(), HELPERS])
async def test_owners_with_different_kept_matches_find_that_out_before_a_row_is_dealt(lie, helpers):
    tables = await kept_matches(30)
    tables["telco"] = replace(tables["telco"], match=lie(tables["telco"].match))
    job = job_of("moments", {"order": 2}, compute=helpers, matching={"kind": "revealed", "match": "job-1"})
    ran = await run_locally(job, tables, deadline_s=DEADLINE_S)
    assert any(isinstance(failure, UnequalValuesError) for failure in ran.failures)
    greeted = ("keys", "key confirmation", "row count", "same rows", "hash key same rows")
    assert {m.stage for m in ran.network.transcript if not m.stage.startswith(greeted)} == set()


async def test_without_what_was_kept_nothing_is_sent_that_depends_on_rows():
    job = job_of("moments", {"order": 2}, matching={"kind": "revealed", "match": "job-1"})
    with pytest.raises(LocalFaultError, match="the table comes without one"):
        (await run_locally(job, tables_of(5), deadline_s=DEADLINE_S)).result  # noqa: B018


async def test_persons_follow_their_rows():
    tables = {}
    for party, table in tables_of(30).items():
        persons = [digest_of(row) for row in table.ids]
        tables[party] = with_persons(table, persons)
    job = job_of("moments", {"order": 2, "unit": "person"})
    ran = await run_locally(job, tables)
    assert ran.result["privacy"]["unit"] == "person"
    common = common_of(tables)
    assert [len(set(t.persons.of_rows.tolist())) for t in common] == [len(common[0].persons.ids)] * 3
    n_persons = np.bincount(common[0].persons.of_rows)
    assert ran.reports["bank"].surplus_rows == np.maximum(n_persons - 1, 0).sum() > 0


def digest_of(row):
    """One of ten persons, to whom a row belongs at every party."""
    return str(int(row[0]) % 10)


def with_persons(table, persons):
    schema = table.schema.model_copy(update={"most_rows_per_person": 1})
    return replace(table, schema=schema, persons=Persons.of(persons))


def test_a_table_of_matched_rows_has_their_values_ids_and_no_others():
    table = tables_of(30)["bank"]
    rows = np.array([3, 0])
    matched = table.matched(rows)
    np.testing.assert_array_equal(matched.values, table.values[rows])
    np.testing.assert_array_equal(matched.ids, table.ids[rows])
    assert matched.ids_digest != table.matched(rows[::-1]).ids_digest != b""
    with pytest.raises(ValueError, match="outside the range"):
        replace(matched, is_matched=False)
