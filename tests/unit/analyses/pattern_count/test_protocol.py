import json
from itertools import product

import numpy as np
import pytest
from job_builders import PARTIES
from reproducible_runs import run

from analyses.job.job import Job, JobError
from analyses.job.schema import BlockSchema, ColumnSchema, Table, digest_of_ids
from analyses.pattern_count import products as pattern_products
from analyses.pattern_count import protocol as pattern_count
from analyses.pattern_count.plan import CELL_SENSITIVITY
from bench.datasets.bundled import read
from dp.cost.accounting import Adjacency
from dp.cost.events.sampled_bits import SampledBitsDpEvent
from mpc.protocol.equality import UnequalValuesError
from mpc.protocol.session import COORDINATOR

SIZES = (3, 2, 4)


def table(party, categories, n_categories, ids=None):
    columns = (ColumnSchema(name="code", lower=0.0, upper=float(n_categories - 1)),)
    ids = [str(i) for i in range(len(categories))] if ids is None else ids
    return Table(
        BlockSchema(party=party, columns=columns, has_ids=True, rows=(1, len(categories))),
        np.array(categories, float)[:, None],
        digest_of_ids(ids),
    )


def tables_of(sizes=SIZES, rows=80, seed=3):
    rng = np.random.default_rng(seed)
    names = PARTIES if len(sizes) <= 3 else [f"p{i}" for i in range(len(sizes))]
    return {p: table(p, np.minimum(rng.geometric(0.6, rows) - 1, n - 1), n) for p, n in zip(names, sizes, strict=False)}


def plan_for(tables, *, epsilon=4.0, delta=1e-5, view="coalition", compute=(), **parameters):
    job = Job.model_validate(
        {
            "analysis": "pattern-count",
            "inputs": [{"party": p, "table": "people"} for p in tables],
            "compute": compute,
            "privacy": {"epsilon": epsilon, "delta": delta, "view": view},
            "parameters": {"max_rows": 100, **parameters},
        }
    )
    schemas = [tables[m].schema if m in tables else BlockSchema(party=m) for m in job.members]
    return pattern_count.plan(job, schemas)


def checked_plan_for(tables, **asked):
    """As services plan: an infeasible job is refused."""
    made = plan_for(tables, **asked)
    return pattern_count.ANALYSIS.plan(made.job, made.schemas)


def exact(plan, tables):
    return pattern_count.reference(list(tables.values()), plan)


@pytest.mark.parametrize(("sizes", "compute"), [((3, 2), ["a", "b", "c"]), (SIZES, ()), ((2,) * 8, ())])
async def test_sums_are_opened_as_the_exact_counts_plus_the_noise_of_one_cell(sizes, compute):
    tables = tables_of(sizes, rows=400)
    plan = plan_for(tables, epsilon=2.0, compute=compute, max_rows=500, counted="sums")
    results, _ = await run(plan, tables)
    result = results[COORDINATOR]
    values = np.sum([table.values[:, 0] for table in tables.values()], axis=0).astype(int)
    assert exact(plan, tables).tolist() == np.bincount(values, minlength=sum(sizes) - len(sizes) + 1).tolist()
    assert np.abs(np.array(result["counts"]) - exact(plan, tables)).max() <= plan.noise.noise_tail_bound(-40)
    assert exact(plan, tables).max() > 2 * plan.noise.noise_tail_bound(-40)  # a wrong count would show
    (name,) = result["columns"]
    assert result["categories"][name] == [0, sum(sizes) - len(sizes)]
    assert plan.noise.standard_deviation("coordinator") == pytest.approx(
        plan_for(tables, epsilon=2.0, compute=compute, max_rows=500).noise.standard_deviation("coordinator"), rel=0.02
    )


async def test_a_sum_has_all_columns_of_an_owner_who_adds_them_up_before_anything_is_shared():
    tables, rng = tables_of(rows=400), np.random.default_rng(7)
    own = np.column_stack([rng.integers(-1, 3, 400), rng.integers(0, 2, 400)]).astype(float)
    columns = (ColumnSchema(name="debts", lower=-1, upper=2), ColumnSchema(name="ill", lower=0, upper=1))
    schema = tables["bank"].schema.model_copy(update={"columns": columns})
    several = {**tables, "bank": Table(schema, own, tables["bank"].ids_digest)}
    plan = plan_for(several, epsilon=2.0, max_rows=500, counted="sums")
    result = (await run(plan, several))[0][COORDINATOR]
    values = own.sum(axis=1) + sum(of.values[:, 0] for name, of in tables.items() if name != "bank")
    assert plan.shape == (5, *SIZES[1:])
    (name,) = result["columns"]
    assert name.startswith("bank.debts + bank.ill + ")
    assert result["categories"][name] == [-1, 2 + 1 + sum(SIZES[1:]) - 2]
    counts = np.bincount(values.astype(int) + 1, minlength=len(result["counts"]))
    assert exact(plan, several).tolist() == counts.tolist()
    assert np.abs(np.array(result["counts"]) - counts).max() <= plan.noise.noise_tail_bound(-40) < counts.max() / 2


def test_sums_move_as_cells_do():
    """Every row, present or replaced by another: one count of a sum by 1, or two."""
    rows = list(product(*(range(n) for n in SIZES)))
    n_sums = sum(SIZES) - len(SIZES) + 1
    counts = {row: np.eye(n_sums, dtype=int)[sum(row)] for row in rows}
    moved = {"coordinator": counts.values(), "coalition": [counts[a] - counts[b] for a in rows for b in rows]}
    for view, stated in CELL_SENSITIVITY.items():
        assert stated.squared_l2 == max((d**2).sum() for d in moved[view])
        assert stated.l1 == max(np.abs(d).sum() for d in moved[view])


def test_the_field_of_sums_is_absent_from_other_plans():
    assert "counted" not in plan_for(tables_of()).model_dump_json()
    with pytest.raises(JobError, match="counted: sums are counted by method 'mpc'"):
        plan_for(tables_of(), counted="sums", method="randomized-response")


@pytest.mark.parametrize(
    ("sizes", "compute"),
    [((3, 2), ["a", "b", "c"]), (SIZES, ()), ((2, 3, 2, 2), ()), ((2, 3, 2, 2, 3), ()), ((2,) * 7, ())],
)
async def test_what_is_opened_is_the_exact_counts_plus_noise_within_its_tail_bound(sizes, compute):
    tables = tables_of(sizes, rows=4000)
    plan = plan_for(tables, epsilon=2.0, compute=compute, max_rows=5000)
    results, _ = await run(plan, tables)
    noise = np.array(results[COORDINATOR]["counts"]) - exact(plan, tables)
    assert noise.shape == sizes
    assert exact(plan, tables).max() > 2 * plan.noise.noise_tail_bound(-40)  # a wrong count would show
    assert np.array_equal(noise, np.rint(noise))
    assert 0 < np.abs(noise).max() <= plan.noise.noise_tail_bound(-40)


@pytest.mark.parametrize("parameters", [{}, {"method": "randomized-response", "max_rows": 400}])
async def test_columns_of_one_owner_are_axes_of_their_own_and_cost_what_one_column_of_their_values_costs(parameters):
    tables, rng = tables_of(rows=400), np.random.default_rng(7)
    size, ill = rng.integers(1, 4, 400), rng.integers(0, 2, 400)
    columns = (ColumnSchema(name="size", lower=1, upper=3), ColumnSchema(name="ill", lower=0, upper=1))
    schema = tables["bank"].schema.model_copy(update={"columns": columns})
    values = np.column_stack([size, ill]).astype(float)
    several = {**tables, "bank": Table(schema, values, tables["bank"].ids_digest)}
    single = {**tables, "bank": table("bank", 2 * (size - 1) + ill, 6)}
    asked = {"epsilon": 2.0, "max_rows": 500, **parameters}
    plans = [plan_for(of, **asked) for of in (several, single)]
    results = [(await run(plan, of))[0][COORDINATOR] for plan, of in zip(plans, (several, single), strict=True)]
    assert results[0]["columns"] == ["bank.size", "bank.ill", *results[1]["columns"][1:]]
    assert np.array(results[0]["counts"]).shape == (3, 2, *SIZES[1:])
    assert np.ravel(results[0]["counts"]).tolist() == np.ravel(results[1]["counts"]).tolist()  # with the same noise
    assert results[0]["privacy"] == results[1]["privacy"]
    exact_counts = exact(plans[0], several)
    assert exact_counts.ravel().tolist() == exact(plans[1], single).ravel().tolist()
    assert exact_counts.sum(axis=(1, 2, 3)).tolist() == [int((size == one).sum()) for one in (1, 2, 3)]
    errors = np.array(results[0]["standard_errors"])
    assert (np.abs(results[0]["counts"] - exact_counts) < 6 * errors).all()


async def test_blocks_of_rows_add_up(monkeypatch):
    monkeypatch.setattr(pattern_products, "MAX_PRODUCTS", 5000)
    tables = tables_of(rows=4000)
    plan = plan_for(tables, max_rows=5000)
    results, _ = await run(plan, tables)
    noise = np.array(results[COORDINATOR]["counts"]) - exact(plan, tables)
    assert np.abs(noise).max() <= plan.noise.noise_tail_bound(-40)


@pytest.mark.parametrize("parameters", [{"method": "randomized-response"}, {"method": "subsampled", "share": 0.7}])
async def test_estimates_from_reports_are_unbiased_and_their_standard_errors_true(parameters):
    tables = tables_of()
    plan = plan_for(tables, epsilon=24.0, **parameters)
    errors, stated = [], []
    for seed in range(30):
        results, _ = await run(plan, tables, seed=f"run {seed}")
        errors.append(np.array(results[COORDINATOR]["counts"]) - exact(plan, tables))
        stated.append(np.array(results[COORDINATOR]["standard_errors"]))
    z = np.mean(errors, axis=0) / (np.std(errors, axis=0) / np.sqrt(30))
    assert np.abs(z).max() < 4.5  # 24 cells, Student's t of 29 degrees
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(np.sqrt(np.mean(np.square(stated))), rel=0.1)


@pytest.mark.parametrize("parameters", [{}, {"method": "randomized-response"}, {"method": "subsampled", "share": 0.5}])
async def test_the_coordinator_receives_messages_whose_sizes_do_not_depend_on_the_rows(parameters):
    sizes = []
    for rows in (80, 33):
        tables = tables_of(rows=rows)
        _, network = await run(plan_for(tables, **parameters), tables)
        inbox = [m for m in network.transcript if m.receiver == COORDINATOR]
        sizes.append(sorted((m.sender, m.stage, m.array.shape) for m in inbox))
    assert sizes[0] == sizes[1]
    assert {s[0] for s in sizes[0]} == {1, 2, 3}


async def test_the_coordinator_cannot_tell_which_slots_hold_rows_but_the_owners_agree_on_them():
    # Truthful reports show what randomized ones hide: one bit in each slot that holds a row, at the same places.
    tables = tables_of()
    plan = plan_for(tables, epsilon=250.0, method="randomized-response")
    _, network = await run(plan, tables)
    full = []
    for number, size in enumerate(SIZES, 1):
        (message,) = [m.array for m in network.transcript if m.receiver == COORDINATOR and m.sender == number]
        full.append(np.unpackbits(message, count=100 * size).reshape(100, size).sum(axis=1))
    assert all(np.array_equal(f > 0, full[0] > 0) for f in full)
    assert 60 < full[0].sum() < 90
    assert (full[0] > 0).tolist() != sorted((full[0] > 0).tolist(), reverse=True)


async def test_owners_may_be_other_members_than_the_compute_parties():
    tables = tables_of(rows=4000)
    for parameters in ({}, {"method": "randomized-response"}):
        plan = plan_for(tables, epsilon=60.0, compute=["one", "two", "three"], max_rows=5000, **parameters)
        results, network = await run(plan, tables)
        assert np.abs(np.array(results[COORDINATOR]["counts"]) - exact(plan, tables)).max() < 30
        assert not any(m.receiver > 3 and m.stage.startswith("patterns") for m in network.transcript)


async def test_four_parties_with_one_to_spare_count_alike():
    tables = tables_of((2, 3, 2, 2), rows=4000)
    plan = plan_for(tables, max_rows=5000)
    assert plan.n_parties == 4
    assert plan.job.t == 1
    results, _ = await run(plan, tables)
    noise = np.array(results[COORDINATOR]["counts"]) - exact(plan, tables)
    assert np.abs(noise).max() <= plan.noise.noise_tail_bound(-40)


def test_an_exhaustive_search_finds_no_neighbours_beyond_the_sensitivity_of_the_counts():
    cells = [np.eye(6, dtype=int)[i] for i in range(6)]
    moved = [a - b for a, b in product(cells, cells)]
    for view, differences in (("coordinator", cells), ("coalition", moved)):
        bound = CELL_SENSITIVITY[view]
        assert max(int((d**2).sum()) for d in differences) == bound.squared_l2
        assert max(int(np.abs(d).sum()) for d in differences) == bound.l1


def test_reports_cost_what_all_parties_tell_of_one_record():
    tables = tables_of()
    plan = plan_for(tables, epsilon=2.0, method="randomized-response", max_rows=5000)
    views = plan.privacy_report()["views"]
    alone = plan.privacy_report()["parameters"]["epsilon_of_one_party_alone"]
    assert 1.99 < views["coalition"]["epsilon"] <= 2.0
    assert views["coalition"]["epsilon"] == pytest.approx(3 * alone, rel=0.01)
    assert views["coordinator"]["epsilon"] == pytest.approx(1.5 * alone, rel=0.01)
    assert len(plan.privacy_events("coalition")) == 6


def test_a_secret_sample_amplifies_for_the_coordinator_only():
    tables = tables_of()
    budget = {"epsilon": 2.0, "max_rows": 50_000}
    plan = plan_for(tables, method="subsampled", share=0.1, **budget)
    assert [type(e) for e in plan.privacy_events("coordinator")] == [SampledBitsDpEvent]
    assert {e.adjacency for e in plan.privacy_events("coalition")} == {Adjacency.REPLACE_ONE}
    views = plan.privacy_report()["views"]
    assert views["coordinator"]["epsilon"] < 0.4 < 1.99 < views["coalition"]["epsilon"] <= 2.0
    more = plan_for(tables, view="coordinator", method="subsampled", share=0.1, **budget)
    assert more.bias_units > 2 * plan.bias_units


async def test_the_result_is_json_with_raw_and_clipped_counts():
    tables = tables_of()
    plan = plan_for(tables, epsilon=1.0, method="randomized-response", max_rows=50_000)
    results, _ = await run(plan, tables)
    result = json.loads(json.dumps(results[COORDINATOR]))
    raw, clipped = np.array(result["counts"]), np.array(result["clipped_counts"])
    assert raw.min() < 0
    assert np.array_equal(clipped, np.maximum(raw, 0))
    assert result["categories"] == {"bank.code": [0, 2], "hospital.code": [0, 1], "telco.code": [0, 3]}


@pytest.mark.parametrize(("bad", "becomes"), [(3.0, 2.0), (-1.0, 0.0), (0.5, 0.0), (1.7, 2.0)])
async def test_a_value_that_is_no_category_counts_as_the_nearest_and_only_its_owner_hears_of_it(bad, becomes):
    tables, seen = tables_of(), []
    plan = plan_for(tables)
    for value in (becomes, bad):
        tables["bank"].values[7, 0] = value
        results, _ = await run(plan, tables)
        seen.append((results[COORDINATOR], exact(plan, tables).tolist()))
    assert seen[0] == seen[1]  # the entropy is the same
    assert [results[n].mapped_values for n in (1, 2, 3)] == [{"code": 1}, {"code": 0}, {"code": 0}]


async def test_parties_that_disagree_about_ids_are_named_and_nothing_is_opened():
    tables = tables_of()
    ids = [str(i) for i in range(80)]
    ids[3], ids[4] = ids[4], ids[3]
    tables["telco"] = table("telco", tables["telco"].values[:, 0], 4, ids)
    for parameters in ({}, {"method": "randomized-response"}):
        results, network = await run(plan_for(tables, **parameters), tables, with_coordinator=False)
        assert all(isinstance(results[n], UnequalValuesError) for n in (1, 2, 3))
        assert not any(m.receiver == COORDINATOR for m in network.transcript)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"method": "guess"}, "parameters.method"),
        ({"max_rows": 0}, "parameters.max_rows"),
        ({"method": "subsampled"}, "share: must be given with method 'subsampled' and with no other method"),
        ({"share": 0.5}, "share: must be given with method 'subsampled' and with no other method"),
        ({"method": "subsampled", "share": 1.5}, "parameters.share"),
        ({"method": "randomized-response", "max_rows": 1 << 26}, "at most 33554432 rows"),
        ({"method": "randomized-response", "epsilon": 1e-7, "delta": 1e-12}, "privacy: epsilon 1e-07 is so small"),
        ({"epsilon": 1e-30}, "privacy: epsilon"),
        (
            {"epsilon": 0.01},
            r"privacy.epsilon: .* infeasible: the error of a count is .* rows, while the largest number of rows is 80 ",
        ),
        (
            {"method": "randomized-response", "epsilon": 1.0},
            "privacy.epsilon: .* infeasible: the error of a count is .* or method 'mpc' would leave something to see",
        ),
        (
            {"method": "subsampled", "share": 0.1, "epsilon": 2.0},
            "privacy.epsilon: .* infeasible: the error of a count is",
        ),
        ({"max_rows": 1 << 101}, "parameters.max_rows"),
    ],
)
def test_parameters_out_of_range_are_refused_by_name(parameters, words):
    with pytest.raises(JobError, match=words):
        checked_plan_for(tables_of(), **parameters)


def test_too_many_patterns_or_parties_or_columns_are_refused():
    with pytest.raises(JobError, match="1000000 patterns; at most 32768"):
        plan_for({p: table(p, [0, 1], 100) for p in PARTIES})
    with pytest.raises(JobError, match=r"inputs: the columns have some 2\^2989 patterns; at most 32768 can be counted"):
        plan_for({p: table(p, [0, 1], 10**300) for p in PARTIES})
    with pytest.raises(JobError, match=r"7 parties bring columns; method 'subsampled' counts .* at most 6; use"):
        plan_for(tables_of((2,) * 7), method="subsampled", share=0.5)
    wide = tables_of()
    columns = tuple(ColumnSchema(name=f"c{i}", lower=0, upper=1) for i in range(13))
    schema = wide["bank"].schema.model_copy(update={"columns": columns})
    with pytest.raises(
        JobError, match=r"65536 patterns; at most 32768 can be counted\. Use coarser .* name fewer columns"
    ):
        plan_for({**wide, "bank": Table(schema, np.zeros((80, 13)))})
    schema = schema.model_copy(update={"columns": (ColumnSchema(name="code", lower=0, upper=1.5),)})
    with pytest.raises(
        JobError,
        match=r"inputs: the bounds 0..1.5 of bank.code are not integers, but this analysis needs a column of integers",
    ):
        plan_for({**wide, "bank": Table(schema, np.zeros((80, 1)))})
    with pytest.raises(JobError, match="at least two parties"):
        plan_for({"bank": wide["bank"]}, compute=list(PARTIES))


def test_every_member_computes_the_same_plan():
    plans = [plan_for(tables_of(), method="randomized-response") for _ in range(2)]
    assert plans[0].digest() == plans[1].digest()
    assert plans[0].digest() != plan_for(tables_of(), method="randomized-response", epsilon=3.9).digest()


NETWORK_COLUMNS = {"carrier": ("protocol_type", ["icmp", "tcp", "udp"]), "host": ("logged_in", [0, 1])}


async def test_real_patterns_of_network_connections_are_counted():
    connections = read("nsl_kdd_train20pct").head(3000)
    attacks = [int(label != "normal") for label in connections["label"]]
    tables = {"monitor": table("monitor", attacks, 2)}
    for party, (column, values) in NETWORK_COLUMNS.items():
        tables[party] = table(party, [values.index(value) for value in connections[column]], len(values))
    plan = plan_for(tables, epsilon=1.0, max_rows=5000)
    results, _ = await run(plan, tables)
    found = np.array(results[COORDINATOR]["counts"])
    assert found.shape == (2, 3, 2)
    assert np.abs(found - exact(plan, tables)).max() < 6 * results[COORDINATOR]["standard_errors"][0][0][0]
    assert exact(plan, tables).sum() == 3000
