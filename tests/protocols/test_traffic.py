"""What plans say that their jobs send, beside what the real code of all members sends: each pair's bytes, and flights.

Parties send through their gates, as in services. Where the data decide something, plans state the most.
"""

from dataclasses import replace

import numpy as np
import person_tables
import pytest
from overlapping_tables import COUNTS, REALS, overlapping_tables, secret_job
from registry_jobs import HELPERS, N_ROWS, OWNERS, VARIANTS

from analyses.job.distance import distance_of
from analyses.job.job import Job
from analyses.job.matching import MatchingSchema
from analyses.job.row_ids import digests_of_ids
from analyses.job.schema import BlockSchema, ColumnSchema, OwnMatch, Table
from analyses.registry import ANALYSES
from bench.protocols.flights import count
from mpc.traffic import shares
from mpc.traffic.walk import Sent, Traffic
from service.limits import ARRAY_CHUNK_BYTES

COMMON = {"anyway": True, "deadline_s": 80_000.0}
FOUR, SEVEN = (*HELPERS, "four"), (*HELPERS, *OWNERS, "four")
ROSTERS = {
    "owners": (OWNERS, 1),
    "helpers": (HELPERS, 1),
    "one more than needed": (("one", *OWNERS), 1),
    "one more than needed, no owners": (FOUR, 1),
    "two may collude": ((*HELPERS, *OWNERS[:2]), 2),
    "two may collude, one more": (SEVEN, 2),
}
AT_MOST = {"moments, threshold"}
"""Variants of which the data decide how much they send."""


def helped_or_not(variants):
    """Return name and whether parties without tables compute, for each way that an analysis admits."""
    return [(name, helped) for name, v in variants.items() for helped in (False, True) if v.has_helpers or not helped]


def compare(job, tables, n_rows, *, at_most=False):
    """Run a job and hold its plan to what was sent."""
    counted = count(job, tables)
    said = counted.plan.traffic(n_rows)
    assert said is not None
    assert said.flights == counted.flights
    if not at_most:
        assert dict(said.sent) == counted.links
        return
    assert said.not_known
    assert said.sent.keys() >= counted.links.keys()
    assert all(said.sent[pair] >= n_bytes for pair, n_bytes in counted.links.items())


def test_every_analysis_says_what_it_sends():
    assert {variant.analysis for variant in VARIANTS.values()} == ANALYSES.keys()


@pytest.mark.parametrize(("name", "helped"), helped_or_not(VARIANTS))
def test_a_plan_states_the_messages_of_its_job(name, helped):
    variant = VARIANTS[name]
    job = variant.job(compute=HELPERS if helped else (), **COMMON)
    compare(job, variant.tables(), N_ROWS, at_most=name in AT_MOST)


@pytest.mark.parametrize("roster", ROSTERS)
@pytest.mark.parametrize(
    "name",
    ["pca", "pattern-count", "low-rank by sketch", "gradients", "joint-count"],
)
def test_it_does_so_whoever_computes(name, roster):
    variant = VARIANTS["logistic-regression by gradients" if name == "gradients" else name]
    compute, colluding = ROSTERS[roster]
    compare(variant.job(compute=compute, colluding=colluding, **COMMON), variant.tables(), N_ROWS)


@pytest.mark.parametrize("roster", ROSTERS)
@pytest.mark.parametrize("rate", [1.0, 0.5])
def test_it_does_so_for_gradients_of_the_third_order(rate, roster):
    variant = VARIANTS["logistic-regression by gradients"]
    third = {"order": 3, "weight_norm": 2.0, "iterations": 5, "sampling_rate": rate}
    compute, colluding = ROSTERS[roster]
    job = variant.job(compute=compute, colluding=colluding, parameters={**variant.parameters, **third}, **COMMON)
    compare(job, variant.tables(), N_ROWS, at_most=rate < 1)


FUNCTIONS = [
    "a = column(bank.code)",
    "b = column(hospital.code)",
    "c = column(telco.code)",
    "one = add(b, 1)",
    "huge = mul(a, 1152921504606846)",
    "low = low_bits(huge, 2)",
    "high = floor_shift(huge, 50)",
    "quotient = divide(a, one, 4)",
    "root = sqrt(c, 4)",
    "log = log(one, 4)",
    "power = exp(c, 4)",
    "big = mul(c, -1000)",
    "odds = sigmoid(big, 4)",
    "product = mul(root, odds)",
    "fixed = truncate(product, 4)",
    "halved = truncate(fixed, 1)",
    *(f"open {name} = sum({name})" for name in ("low", "high", "quotient", "log", "power", "halved")),
]

OTHERS = {
    "a circuit with functions": ("circuit", {"program": FUNCTIONS}, {}),
    "moments of order 1": ("moments", {"order": 1}, {}),
    "moments of order 4": ("moments", {"order": 4}, {}),
    "clustering by patterns": ("clustering", {"counting": "pattern"}, {}),
    "clustering by sizes": ("clustering", {"counting": "independent"}, {}),
    "clustering by joint counts": ("clustering", {"counting_options": {"cells": "joint"}}, {}),
    "patterns of a sample": ("pattern-count by reports", {"method": "subsampled", "share": 0.5}, {}),
    "rounds of a factorization": ("matrix-factorization", {"rounds": 4}, {}),
    "published items": ("matrix-factorization, vertical", {"publish_items": True}, {}),
    "steps of a descent": ("matrix-factorization, sgd", {"steps": 7}, {}),
    **{
        f"clustering by sketches, {how}": (
            "clustering",
            {
                "counting": "fm-sketch",
                "counting_options": {
                    "accept_no_protection_against_parties": True,
                    "sketches": 64,
                    "estimator": how,
                },
            },
            {"view": "coordinator"},
        )
        for how in ("likelihood", "basic")
    },
}


@pytest.mark.parametrize(("name", "helped"), helped_or_not({name: VARIANTS[of[0]] for name, of in OTHERS.items()}))
def test_it_does_so_for_other_methods(name, helped):
    of, parameters, privacy = OTHERS[name]
    variant = replace(VARIANTS[of], privacy={**VARIANTS[of].privacy, **privacy})
    job = variant.job(compute=HELPERS if helped else (), parameters={**variant.parameters, **parameters}, **COMMON)
    compare(job, variant.tables(), N_ROWS)


N_COMMON = 100
MATCHED = {
    "pca": ({"components": 1}, REALS),
    "moments": ({"order": 3}, COUNTS),
    "pattern-count": ({}, COUNTS),
    "joint-count": ({}, REALS),
    "joint-mean": ({}, REALS),
    "logistic-regression": (
        {"label": "bank.y", "method": "gradient", "iterations": 3, "weight_norm": 4.0},
        REALS,
    ),
}


@pytest.mark.parametrize(
    ("kind", "roster"),
    [
        ("revealed", "owners"),
        ("revealed", "helpers"),
        ("revealed", "one more than needed"),
        ("secret", "owners"),
        ("secret", "one more than needed"),
    ],
)
@pytest.mark.parametrize("name", MATCHED)
def test_it_does_so_where_rows_are_matched(name, kind, roster):
    """In secret the number of slots takes the place of that of rows, so it does not matter how many are stated."""
    compute, colluding = ROSTERS[roster]
    parameters, columns = MATCHED[name]
    job = secret_job(name, parameters, matching={"kind": kind}, compute=compute, colluding=colluding, **COMMON)
    compare(job, overlapping_tables(N_COMMON, columns), N_COMMON)


@pytest.mark.parametrize("roster", ROSTERS)
def test_it_does_so_for_people_counted_by_bins_whatever_rows_are_stated(roster):
    compute, colluding = ROSTERS[roster]
    asked = {"matching": None, "compute": compute, "colluding": colluding, **COMMON}
    job = secret_job("joint-count", {"bins": "auto"}, **asked)
    compare(job, overlapping_tables(N_COMMON, REALS), 1)


@pytest.mark.parametrize("roster", ["owners", "helpers", "one more than needed"])
def test_it_does_so_where_a_kept_match_is_named(roster):
    compute, colluding = ROSTERS[roster]
    parameters, columns = MATCHED["moments"]
    asked = {"compute": compute, "colluding": colluding, **COMMON}
    tables = {p: replace(t, match=OwnMatch()) for p, t in overlapping_tables(N_COMMON, columns).items()}
    compare(secret_job("moments", parameters, matching={"kind": "revealed", "keep": True}, **asked), tables, N_COMMON)
    named = secret_job("moments", parameters, matching={"kind": "revealed", "match": "job-1"}, **asked)
    compare(named, tables, N_COMMON)


@pytest.mark.parametrize(("name", "helped"), helped_or_not(person_tables.JOBS))
def test_it_does_so_where_persons_are_protected(name, helped):
    variant = person_tables.JOBS[name]
    parameters = {**variant.parameters, "unit": "person"}
    job = variant.job(
        compute=HELPERS if helped else (),
        privacy={"epsilon": person_tables.EPSILON, "delta": 1e-6},
        parameters=parameters,
        **COMMON,
    )
    compare(job, person_tables.tables_of_persons(variant), len(person_tables.ORDER))


def large(n_rows, most, *, owners=OWNERS, matched=False):
    """Tables of one column of whole numbers 0 .. most."""
    rng, tables = np.random.default_rng(1), {}
    for owner in owners:
        how = MatchingSchema(recipe=(("trim",),), reveal=True) if matched else None
        columns = (ColumnSchema(name="x", lower=0, upper=most),)
        schema = BlockSchema(party=owner, columns=columns, rows=(1, n_rows), matching=how)
        ids = digests_of_ids([list(map(str, range(n_rows)))]) if matched else None
        tables[owner] = Table(schema, rng.integers(0, most + 1, (n_rows, 1)).astype(np.float64), ids=ids)
    return tables


def job_on(tables, analysis, parameters, compute=(), **changes):
    inputs = [{"party": owner, "table": "t"} for owner in tables]
    privacy = {"epsilon": 100.0, "delta": 1e-6}
    fields = {"analysis": analysis, "inputs": inputs, "privacy": privacy, "parameters": parameters, "compute": compute}
    if len(tables) > 1 and "matching" not in changes:
        fields["order"] = "trusted"
    return Job.model_validate({**fields, **COMMON, **changes})


LARGE = {
    "13 blocks of rows": ("pca", {"components": 1}, 50_000, 3, ()),
    "13 blocks of rows of others": ("pca", {"components": 1}, 50_000, 3, HELPERS),
    "13 blocks of rows of some": ("pca", {"components": 1}, 50_000, 3, ("one", *OWNERS[:2])),
    "13 blocks of rows, one more than needed": ("pca", {"components": 1}, 50_000, 3, ("one", *OWNERS)),
    "5 blocks of powers": ("moments", {"order": 3}, 300_000, 3, ()),
    "5 blocks of powers, one more than needed": ("moments", {"order": 3}, 300_000, 3, ("one", *OWNERS)),
    "segments of products": ("pattern-count", {}, 30_000, 6, ()),
    "segments of products, one more than needed": ("pattern-count", {}, 30_000, 6, ("one", *OWNERS)),
    "blocks of segments": ("pattern-count", {}, 100_000, 6, ()),
    "blocks of segments, one more than needed": ("pattern-count", {}, 100_000, 6, ("one", *OWNERS)),
    "double sharings": ("pattern-count", {}, 30_000, 6, tuple(f"p{i}" for i in range(7))),
}


@pytest.mark.parametrize("name", LARGE)
def test_it_does_so_for_tables_of_many_blocks(name):
    analysis, parameters, n_rows, most, compute = LARGE[name]
    tables = large(n_rows, most)
    compare(job_on(tables, analysis, parameters, compute), tables, n_rows)


@pytest.mark.parametrize("compute", [(), HELPERS, ("one", *OWNERS)], ids=["owners", "helpers", "one more than needed"])
def test_it_does_so_for_rows_that_travel_in_compact_form(compute):
    tables = large(5000, 3)
    job = job_on(tables, "pca", {"components": 1, "gamma": 1 << 25, "max_rows": 1 << 20}, compute)
    assert count(job, tables).plan.n_primes == 4
    compare(job, tables, 5000)


@pytest.mark.parametrize("kind", ["revealed", "secret"])
def test_it_does_so_for_many_rows_that_are_matched(kind):
    tables = large(20_000, 3, matched=True)
    compare(job_on(tables, "pca", {"components": 1}, matching={"kind": kind}), tables, 20_000)


@pytest.mark.parametrize(
    ("owners", "compute"),
    [(OWNERS[:2], ("bank", "one", "telco")), (OWNERS[:1], ("bank", "one", "two")), (OWNERS[:1], HELPERS)],
)
def test_it_does_so_for_one_owner_and_for_two(owners, compute):
    tables = large(100, 3, owners=owners)
    compare(job_on(tables, "pca", {"components": 1}, compute), tables, 100)


def test_seconds_are_waits_and_the_larger_of_line_and_window():
    variant = VARIANTS["pca"]
    distance = distance_of(count(variant.job(compute=(), **COMMON), variant.tables()).plan)
    assert distance is not None
    thin = replace(distance, flights=7, coordinator_flights=8, party_bytes=12_500_000, link_bytes=0)
    assert thin.seconds(100, 100) == pytest.approx(15 * 0.05 + 1.0)
    far = replace(thin, party_bytes=10 * ARRAY_CHUNK_BYTES, link_bytes=10 * ARRAY_CHUNK_BYTES)
    assert far.seconds(100, 1000) == pytest.approx(15 * 0.05 + 10 * 0.1)


def test_a_distance_states_rows_only_where_bytes_depend_on_them():
    plan = count(VARIANTS["pca"].job(compute=(), **COMMON), VARIANTS["pca"].tables()).plan
    rows = distance_of(plan)
    assert rows.rows == 400
    assert rows.party_bytes == max(plan.traffic(400).bytes_of(member) for member in (1, 2, 3))
    assert rows.party_bytes_at_fewest_rows == max(plan.traffic(100).bytes_of(member) for member in (1, 2, 3))
    sums = VARIANTS["secure-sum"]
    alike = distance_of(count(sums.job(**COMMON), sums.tables()).plan)
    assert alike.rows is None
    assert alike.party_bytes_at_fewest_rows is None
    assert "at the first attempt" in "\n".join(alike.lines())


@pytest.mark.parametrize("roster", ROSTERS)
def test_of_many_blocks_a_few_are_walked_through_and_the_end_is_the_same(roster, monkeypatch):
    compute, colluding = ROSTERS[roster]
    job = VARIANTS["pca"].job(compute=compute, colluding=colluding, **COMMON)
    tables = VARIANTS["pca"].tables()
    schemas = [tables[name].schema if name in tables else BlockSchema(party=name) for name in job.members]
    plan = ANALYSES["pca"].plan(job, schemas)
    sizes = [4096 * n_blocks - 5 for n_blocks in (*range(29, 45), 131)]
    few = [plan.traffic(n_rows) for n_rows in sizes]
    monkeypatch.setattr(shares, "MOST_BLOCKS_WALKED", 1000)
    every = [plan.traffic(n_rows) for n_rows in sizes]
    assert [(one.flights, one.sent) for one in few] == [(one.flights, one.sent) for one in every]


@pytest.mark.parametrize("name", ["pca", "pattern-count", "moments", "logistic-regression by gradients"])
def test_tables_that_may_be_larger_than_any_are_stated_at_once(name):
    variant = VARIANTS[name]
    tables = variant.tables()
    job = variant.job(compute=(), parameters={k: v for k, v in variant.parameters.items() if k != "max_rows"}, **COMMON)
    schemas = [tables[name].schema.model_copy(update={"rows": (1, 1 << 40)}) for name in job.members]
    distance = distance_of(ANALYSES[variant.analysis].plan(job, schemas))
    assert distance.party_bytes > 1 << 40
    assert distance.seconds(20, 1000) > 0


def test_what_is_repeated_is_walked_through_as_if_it_were_written_out():
    def around(walk):
        walk.step([Sent(1, 2, 5)])
        walk.step([Sent(2, 1, 3), Sent(2, 3, 1)])

    once, many = Traffic((1, 2, 3)), Traffic((1, 2, 3))
    for _ in range(9):
        around(once)
    many.repeat(9, lambda: around(many))
    assert many.flights == once.flights == 18
    assert many.sent == once.sent


PROVEN = {
    "pca": OWNERS,
    "low-rank": OWNERS,
    "least-squares": OWNERS,
    "logistic-regression": OWNERS,
    "pattern-count of two": ("bank", "telco"),
    "pattern-count": OWNERS,
    "cross-table": ("bank", "telco"),
    "moments of order 2": OWNERS,
    "moments of order 3": OWNERS,
    "moments of order 4": OWNERS,
    "clustering": OWNERS,
    "clustering of joint cells": OWNERS,
    "circuit": OWNERS,
    "circuit of several comparisons": OWNERS,
    "logistic-regression by gradients of order 1, all rows": OWNERS,
    "logistic-regression by gradients of order 3, all rows, label alone": OWNERS,
}
"""Variants whose owners prove rows, and the owners. Three owners, order 4, joint cells, circuits prove products too."""

SEVERAL = [
    *VARIANTS["circuit"].parameters["program"][:-2],
    "same = equal(paid, b)",
    "small = minimum(paid, a)",
    "high = floor_shift(product, 1)",
    "low = low_bits(product, 2)",
    "chosen = select(same, small, high)",
    "open chosen = sum(chosen)",
    "open low = sum(low)",
]


AMONG_OTHERS = ("pattern-count", "moments of order 4")
"""Of these proofs the first are about rows alone, the others about products too."""


@pytest.mark.parametrize(
    ("name", "roster"),
    [(name, roster) for name in PROVEN for roster in (ROSTERS if name in AMONG_OTHERS else ["owners"])],
)
def test_it_states_what_proofs_of_rows_send(name, roster):
    kind, _, case = name.partition(" of ")
    variant, owners = VARIANTS[kind], PROVEN[name]
    if case.endswith("label alone"):
        variant = replace(variant, label_columns=("label",))
    compute, colluding = ROSTERS[roster]
    inputs = [brought for brought in variant.job().inputs if brought.party in owners]
    changes = {
        "order 2": {"order": 2},
        "order 3": {"order": 3},
        "order 4": {"order": 4},
        "order 1, all rows": {"sampling_rate": 1.0},
        "order 3, all rows, label alone": {"order": 3, "weight_norm": 2.0, "sampling_rate": 1.0},
        "joint cells": {"counting_options": {"cells": "joint"}},
        "several comparisons": {"program": SEVERAL},
    }
    parameters = {**variant.parameters, **changes.get(case, {})}
    job = variant.job(
        compute=[p for p in compute if p in owners or p not in OWNERS] if len(owners) == 3 else (*HELPERS, *owners),
        colluding=colluding if len(owners) == 3 else 2,
        security="malicious",
        inputs=inputs,
        parameters=parameters,
        **COMMON,
    )
    compare(job, {owner: variant.tables()[owner] for owner in owners}, N_ROWS)


@pytest.mark.parametrize("name", ["pca", "circuit"])
def test_it_states_combinations_of_rows_where_these_are_dealt(name, monkeypatch):
    monkeypatch.setattr("mpc.proofs.norm_proof.FEW_ROWS", 1)
    compare(VARIANTS[name].job(security="malicious", **COMMON), VARIANTS[name].tables(), N_ROWS)


def test_it_states_proofs_that_are_due_before_the_opening_because_many_products_wait(monkeypatch):
    for module in ("mpc.proofs.products", "mpc.traffic.proofs"):
        monkeypatch.setattr(f"{module}.MOST_PENDING", 10)
    variant = VARIANTS["moments"]
    job = variant.job(security="malicious", parameters={**variant.parameters, "order": 6}, **COMMON)
    compare(job, variant.tables(), N_ROWS)
