import json
import math

import numpy as np
import pytest
from job_builders import PARTIES
from reproducible_runs import run

from analyses.job.job import Job, JobError
from analyses.job.schema import BlockSchema, ColumnSchema, Table, digest_of_ids
from analyses.power_moments import protocol as moments
from bench.datasets.bundled import read
from dp.cost.accounting import Adjacency
from mpc.protocol.equality import UnequalValuesError
from mpc.protocol.session import COORDINATOR


def table(party, values, upper, lower=0.0):
    columns = (ColumnSchema(name="events", lower=lower, upper=float(upper)),)
    schema = BlockSchema(party=party, columns=columns, has_ids=True, rows=(1, len(values)))
    return Table(schema, np.array(values, float)[:, None], digest_of_ids(str(i) for i in range(len(values))))


def tables_of(parties=PARTIES, rows=600, upper=7, seed=3):
    rng = np.random.default_rng(seed)
    return {p: table(p, np.minimum(rng.poisson(1.5, rows), upper), upper) for p in parties}


def plan_for(tables, *, epsilon=4.0, delta=1e-5, view="coalition", compute=(), **parameters):
    job = Job.model_validate(
        {
            "analysis": "moments",
            "inputs": [{"party": p, "table": "people"} for p in tables],
            "compute": compute,
            "privacy": {"epsilon": epsilon, "delta": delta, "view": view},
            "parameters": {"max_rows": 700, **parameters},
        }
    )
    return moments.plan(job, [tables[m].schema if m in tables else BlockSchema(party=m) for m in job.members])


def checked_plan_for(tables, **asked):
    """As services plan: an infeasible job is refused."""
    made = plan_for(tables, **asked)
    return moments.ANALYSIS.plan(made.job, made.schemas)


def exact(plan, tables):
    return moments.reference(list(tables.values()), plan)


METHODS = [
    {"method": "laplace", "order": 1},
    {"method": "sketch", "sketch_rows": 256},
    {"method": "threshold", "order": 2, "threshold": 12},
    {"method": "threshold", "order": 3, "threshold": 30},
]


@pytest.mark.parametrize("order", [1, 2, 3, 4, 5, 6])
async def test_what_is_opened_is_the_exact_moment_plus_noise_within_its_tail_bound(order):
    tables = tables_of()
    plan = plan_for(tables, epsilon=8.0, order=order)
    results, _ = await run(plan, tables)
    noise = results[COORDINATOR]["moment"] - exact(plan, tables)
    assert exact(plan, tables) > 0
    assert 0 < abs(noise) <= plan.noise_bound
    assert abs(noise) < 5 * results[COORDINATOR]["standard_error"]


@pytest.mark.parametrize("parameters", [{"order": 3}, *METHODS])
async def test_every_method_is_unbiased_and_its_standard_error_true(parameters):
    tables = tables_of(rows=200)
    plan = plan_for(tables, epsilon=12.0, **{"max_rows": 220, **parameters})
    found = [(await run(plan, tables, seed=f"run {i}"))[0][COORDINATOR] for i in range(25)]
    errors = np.array([result["moment"] for result in found]) - exact(plan, tables)
    stated = np.sqrt(np.mean([result["standard_error"] ** 2 for result in found]))
    assert abs(errors.mean()) < 4 * errors.std() / math.sqrt(25)
    # Deviations of Laplace noise are estimated within 20 % (one s.d.) from so few runs.
    assert errors.std() < 1.6 * stated
    if plan.params.method != "threshold":  # there it is an upper bound
        assert errors.std() > 0.5 * stated


@pytest.mark.parametrize("parameters", [{}, *METHODS[:2]])
async def test_the_coordinator_receives_messages_whose_sizes_do_not_depend_on_the_rows(parameters):
    sizes = []
    for rows in (600, 90):
        tables = tables_of(rows=rows)
        _, network = await run(plan_for(tables, **parameters), tables)
        inbox = [m for m in network.transcript if m.receiver == COORDINATOR]
        sizes.append(sorted((m.sender, m.stage, m.array.shape) for m in inbox))
    assert sizes[0] == sizes[1]


async def test_with_a_threshold_all_slots_are_released_once_and_large_ones_again():
    tables = tables_of()
    plan = plan_for(tables, epsilon=12.0, **METHODS[2])
    _, network = await run(plan, tables)
    shapes = [m.array.shape[0] for m in network.transcript if m.receiver == COORDINATOR and m.sender == 1]
    n_large = shapes[1]
    assert shapes == [700, n_large, plan.reports.report_bytes(0, 700 - n_large)]
    assert 0 < n_large < 400


async def test_values_are_released_with_noise_and_large_ones_with_fresh_noise():
    tables = tables_of()
    plan = plan_for(tables, epsilon=1.0, method="threshold", threshold=12)
    _, network = await run(plan, tables)
    flags = next(m.array for m in network.transcript if m.sender == COORDINATOR)
    is_large = np.unpackbits(flags, count=700).astype(bool)
    assert 50 < is_large.sum() < 650
    for party in (1, 2, 3):
        first, again, _ = [m.array for m in network.transcript if m.receiver == COORDINATOR and m.sender == party]
        first, again = first.view(np.int64), again.view(np.int64)
        scale = float(plan.reports.scale)
        # No value lies outside 0..7: what does is noise, exp(-3 / scale) / 4 of the values at least on either side.
        for noisy in (first, again):
            assert np.mean(noisy < -2) > 0.5 * math.exp(-3 / scale) / 4
            assert np.mean(noisy > 9) > 0.5 * math.exp(-9 / scale) / 4
        correlation = np.corrcoef(first[is_large], again)[0, 1]
        assert abs(correlation) < 0.3  # the same noise twice would give 1


async def test_no_party_sends_its_clear_sum_or_sketch():
    tables = tables_of()
    plan = plan_for(tables, epsilon=0.5, method="laplace", order=1)
    _, network = await run(plan, tables)
    for party, name in enumerate(PARTIES, start=1):
        (sent,) = [int(m.array.view(np.int64)[0]) for m in network.transcript if m.receiver == 0 and m.sender == party]
        assert 0 < abs(sent - tables[name].values.sum()) < 40 * float(plan.sums.scale)
    plan = plan_for(tables, epsilon=0.5, method="sketch", sketch_rows=256, max_rows=10_000)
    _, network = await run(plan, tables)
    for party, variance in enumerate(plan.sketch.variances, start=1):
        (sent,) = [m.array.view(np.int64) for m in network.transcript if m.receiver == 0 and m.sender == party]
        clear = float((tables[PARTIES[party - 1]].values ** 2).sum())
        assert np.mean(sent.astype(float) ** 2) == pytest.approx(clear + variance, rel=0.4)
        assert variance > clear


async def test_owners_may_be_other_members_than_the_compute_parties():
    tables = tables_of()
    for parameters in ({"order": 3}, *METHODS[:3]):
        plan = plan_for(tables, epsilon=12.0, compute=["one", "two", "three"], **parameters)
        results, _ = await run(plan, tables)
        result = results[COORDINATOR]
        assert abs(result["moment"] - exact(plan, tables)) < 5 * result["standard_error"]


def test_no_row_moves_a_power_sum_by_more_than_the_sensitivity():
    plan = plan_for(tables_of(upper=2), order=3)
    powers = [x**3 for x in range(3 * 2 + 1)]
    most = max(abs(a - b) for a in [0, *powers] for b in powers)
    for view in ("coordinator", "coalition"):
        assert plan.shared_noise.sensitivities[view].l1 == most
        assert plan.shared_noise.sensitivities[view].squared_l2 == most**2


@pytest.mark.parametrize("parameters", [{}, *METHODS])
def test_the_report_states_both_views_and_meets_the_target(parameters):
    plan = plan_for(tables_of(), epsilon=2.0, **parameters)
    report = json.loads(json.dumps(plan.privacy_report()))
    assert 1.9 < report["views"]["coalition"]["epsilon"] <= 2.0
    assert report["views"]["coordinator"]["epsilon"] <= report["views"]["coalition"]["epsilon"]
    assert (
        report["unit"] == plan.privacy_unit == ("event" if "threshold" in parameters else "record of the joint table")
    )
    for view, adjacency in (("coordinator", Adjacency.ADD_OR_REMOVE_ONE), ("coalition", Adjacency.REPLACE_ONE)):
        assert {event.adjacency for event in plan.privacy_events(view)} == {adjacency}


def test_a_sketch_costs_the_composition_over_all_parties():
    tables = tables_of(PARTIES[:2])
    plan = plan_for(tables, compute=PARTIES, method="sketch", largest={"bank": 3})
    (event,) = plan.privacy_events("coalition")
    s, (a, b) = plan.params.sketch_rows, plan.sketch.variances
    assert event.squares == pytest.approx(s * 3**2 / a + s * 7**2 / b)


async def test_what_is_clipped_is_told_to_its_owner_and_what_bits_cannot_tell_too():
    tables = tables_of()
    values = tables["bank"].values
    values[:5, 0] = (9.0, -1.0, 7.0, 3.6, 6.0)
    over = int(np.count_nonzero(np.trunc(values) > 5)) + 1
    for parameters in ({}, *METHODS):
        plan = plan_for(tables, largest={"bank": 5}, **parameters)
        results, _ = await run(plan, tables)
        assert results[1].clipped_values == {"events": over}
        assert results[2].clipped_values == {"events": 0}
    plan = plan_for(tables, epsilon=1.0, method="threshold", threshold=4)
    results, network = await run(plan, tables)
    flags = next(m.array for m in network.transcript if m.sender == COORDINATOR)
    assert 0 < results[2].clipped_rows <= 700 - int(np.unpackbits(flags).sum())


async def test_tables_with_different_numbers_of_rows_are_refused_and_nothing_is_released():
    tables = tables_of()
    tables["telco"] = table("telco", tables["telco"].values[:-1, 0], 7)
    for parameters in ({}, *METHODS[:3]):
        results, network = await run(plan_for(tables, **parameters), tables, with_coordinator=False)
        assert all(isinstance(results[n], UnequalValuesError) for n in (1, 2, 3))
        assert not any(m.receiver == COORDINATOR for m in network.transcript)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"method": "guess"}, "parameters.method"),
        ({"order": 0}, "parameters.order"),
        ({"order": 7}, "parameters.order"),
        ({"method": "laplace", "order": 2}, "order: method 'laplace' does not support order 2"),
        ({"method": "sketch", "order": 3}, "order: method 'sketch'"),
        ({"method": "threshold"}, "threshold: must be given with method 'threshold' and with no other method"),
        ({"threshold": 9}, "and with no other method"),
        ({"method": "sketch", "sketch_rows": 12}, "parameters.sketch_rows"),
        ({"largest": {"bank": 8}}, r"largest\.bank: must not be above the upper bound of the column, 7"),
        ({"largest": {"nobody": 8}}, "nobody does not bring a column"),
        ({"max_rows": 1}, "parameters.max_rows"),
        ({"max_rows": 1 << 50, "method": "sketch"}, "sums of this size are not exact"),
        ({"max_rows": 1 << 26, **METHODS[2]}, "at most 33554432 rows"),
        ({"epsilon": 1e-30}, "privacy: epsilon"),
        ({"epsilon": 1e-3}, "infeasible: the error of the moment is"),
        ({**METHODS[0], "epsilon": 1e-3}, "infeasible: the error of the moment is"),
        ({**METHODS[1], "epsilon": 0.1}, "infeasible: the error of the moment is"),
        ({**METHODS[2], "epsilon": 0.02}, "infeasible: the error of the moment is"),
        ({"method": "laplace", "order": 1, "epsilon": 1e-17, "delta": 1e-300}, "privacy: epsilon"),
        ({**METHODS[2], "epsilon": 1e-7, "delta": 1e-12}, "so small"),
    ],
)
def test_parameters_out_of_range_are_refused_by_name(parameters, words):
    with pytest.raises(JobError, match=words):
        checked_plan_for(tables_of(), **parameters)


def test_owners_that_are_told_which_slots_are_large_count_as_receivers():
    helped = {"compute": ["one", "two", "three"]}
    assert plan_for(tables_of(), **METHODS[2]).receivers == (0, 1, 2, 3)
    assert plan_for(tables_of(("bank", "telco")), **METHODS[2], **helped).receivers == (0, 4, 5)
    assert [plan_for(tables_of(), **p).receivers for p in ({}, *METHODS[:2])] == [(0,)] * 3


def test_powers_that_no_noise_can_take_are_refused():
    with pytest.raises(JobError, match=r"privacy: epsilon .* more noise than the sampler can draw"):
        plan_for(tables_of(upper=10**6), order=6)


def test_a_field_bound_that_cannot_be_met_is_refused():
    with pytest.raises(JobError, match=r"parameters\.max_rows, parameters\.largest: .*the largest field has 126"):
        plan_for(tables_of(upper=2000), order=3, max_rows=1 << 100)


def test_columns_that_may_be_negative_or_are_no_integers_are_refused():
    tables = tables_of()
    with pytest.raises(
        JobError,
        match=r"inputs: the bounds of bank.events allow negative values; moments need counts, which are 0 or more",
    ):
        plan_for({**tables, "bank": table("bank", [0] * 600, 7, lower=-1.0)})
    with pytest.raises(JobError, match="are not integers"):
        plan_for({**tables, "bank": table("bank", [0] * 600, 7.5)})


ACCOUNTS = {"bank": "num_active_debit_accounts", "lender": "num_mort_accounts", "shop": "num_open_cc_accounts"}


@pytest.mark.parametrize("parameters", [{}, {"epsilon": 8.0, "method": "sketch", "sketch_rows": 64}])
async def test_the_second_moment_of_accounts_at_three_institutions_is_found(parameters):
    # Real borrowers; a counter of up to 31 accounts is a round number, more than nearly anybody has.
    loans = read("lending_club")
    tables = {p: table(p, loans[column].to_list(), 31) for p, column in ACCOUNTS.items()}
    plan = plan_for(tables, **{"epsilon": 1.0, "max_rows": 20_000, **parameters})
    results, _ = await run(plan, tables)
    result = results[COORDINATOR]
    assert abs(result["moment"] - exact(plan, tables)) < 4 * result["standard_error"]
    assert result["standard_error"] < (0.4 if parameters else 0.05) * exact(plan, tables)


@pytest.mark.parametrize(
    ("upper", "parameters"),
    [(1e60, {"order": 6}), (1e28, {"order": 6}), (1e100, {}), (1e300, {"order": 1}), (1e300, {"order": 6})],
)
def test_values_too_large_for_any_noise_are_refused_and_the_text_says_what_to_change(upper, parameters):
    with pytest.raises(JobError, match=r"needs more noise than the sampler can draw.*coarser units"):
        plan_for(tables_of(upper=upper), **parameters)


@pytest.mark.parametrize("upper", [1e60, 1e300])
def test_values_too_large_for_the_noise_of_any_sketch_are_refused_by_name(upper):
    with pytest.raises(JobError, match=r"values up to 1e\+\d+ needs more noise than .*parameters.largest"):
        plan_for(tables_of(upper=upper), method="sketch")


def test_a_largest_value_above_wide_bounds_is_refused_in_few_words():
    with pytest.raises(
        JobError, match=r"parameters.largest.bank: must not be above the upper bound of the column, 1e\+300"
    ):
        plan_for(tables_of(upper=1e300), largest={"bank": 10**301})


async def test_an_error_by_threshold_is_not_small_where_few_rows_or_bits_show_little_of_the_noise():
    tables = {party: table(party, [1], 3) for party in PARTIES}
    plan = plan_for(tables, epsilon=50.0, method="threshold", order=2, threshold=6, max_rows=100)
    for seed in range(12):
        result = (await run(plan, tables, seed=f"few rows {seed}"))[0][COORDINATOR]
        assert abs(result["moment"] - exact(plan, tables)) < 3 * result["standard_error"]


@pytest.mark.parametrize("parameters", [{"order": 2}, {"method": "laplace", "order": 1}])
async def test_an_error_that_depends_on_noise_alone_is_what_was_forecast(parameters):
    tables = tables_of(rows=20)
    for epsilon in (0.5, 50.0):
        plan = plan_for(tables, epsilon=epsilon, **parameters)
        (forecast,) = moments.ANALYSIS.forecast(plan).quantities
        assert forecast.standard_error == (await run(plan, tables))[0][COORDINATOR]["standard_error"]
