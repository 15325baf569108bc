"""Logistic regression by one release of second moments, all members in one process."""

import json
from dataclasses import replace

import numpy as np
import pytest
from labelled_tables import PARTIES, labelled_tables, moments_job

from analyses.job.job import JobError
from analyses.job.plan import OPENING_STAGE
from analyses.job.schema import BlockSchema
from analyses.logistic_regression import protocol as logistic_regression
from analyses.logistic_regression.moments_plan import LabelledMomentsPlan, rounding_of
from analyses.logistic_regression.reference import exact_moments, scaled_rows
from analyses.logistic_regression.weights import labelled_moments
from analyses.run_locally import local_network, run_plan
from dp.cost.views import VIEWS
from entropy import InsecureTestEntropy
from mpc.protocol.equality import UnequalValuesError
from mpc.protocol.session import COORDINATOR

GENEROUS = {"epsilon": 1e6, "delta": 1e-5}


def plan_for(tables, job):
    return logistic_regression.ANALYSIS.plan(
        job, [tables[m].schema if m in tables else BlockSchema(party=m) for m in job.members]
    )


async def run(plan, tables, **options):
    network = local_network(plan, **{"entropy_of": lambda m: InsecureTestEntropy(f"member {m}"), **options})
    return (await run_plan(plan, tables, network, analysis=logistic_regression.ANALYSIS)).ends, network


def integer_rows(plan, tables):
    """Every integer row that the parties share, side by side."""
    blocks = []
    for owner in plan.owners:
        table = tables[plan.job.members[owner - 1]]
        names = [c.name for c in table.schema.columns]
        columns = [names.index(c.name) for c in plan.features_of(owner).columns]
        blocks.append(plan.quantiser_of(owner).quantise(table.values[:, columns])[0])
        if table.schema.party == plan.params.label_party:
            blocks.append((2 * table.values[:, [names.index("left")]].astype(int) - 1) * plan.constant)
    return np.hstack([*blocks, np.full((len(blocks[0]), 1), plan.constant)])


@pytest.mark.parametrize("gamma", [64, 4096])
def test_rounding_moves_second_moments_by_no_more_than_is_stated(gamma):
    tables = labelled_tables(400)
    plan = plan_for(tables, moments_job({"max_rows": 400, "gamma": gamma}, privacy=GENEROUS))
    rows = integer_rows(plan, tables).astype(np.float64)
    rounded = labelled_moments(plan, rows.T @ rows * plan.unit**2).matrix
    exact = exact_moments(*scaled_rows([tables[p] for p in PARTIES], plan)).matrix
    moved = np.linalg.norm(rounded - exact, 2)
    assert 1e-4 * rounding_of(plan) < moved <= rounding_of(plan)


@pytest.mark.parametrize(
    ("parameters", "label_at"), [({}, 0), ({"origin": "lower"}, 1), ({"row_norm": 3.0}, 0)], ids=str
)
async def test_with_a_generous_epsilon_the_weights_are_those_of_the_reference(parameters, label_at):
    tables = labelled_tables(400, label_at=label_at)
    plan = plan_for(tables, moments_job({"max_rows": 400, **parameters}, privacy=GENEROUS))
    assert isinstance(plan, LabelledMomentsPlan)
    results, _ = await run(plan, tables)
    weights, intercept = logistic_regression.reference([tables[p] for p in PARTIES], plan)
    found = results[COORDINATOR]
    assert found["columns"] == ["bank.x0", "bank.x1", "hospital.x0", "hospital.x1", "hospital.x2", "telco.x0"]
    assert found["weights"] == pytest.approx(weights, abs=0.02)
    assert found["intercept"] == pytest.approx(intercept, abs=0.02)
    assert found["bounds"] == [[-1, 3]] * 6
    rows = np.hstack([tables["bank"].values, tables["hospital"].values, np.delete(tables["telco"].values, label_at, 1)])
    scores = rows @ np.array(found["weights"]) + found["intercept"]
    label = tables["telco"].values[:, label_at]
    assert ((scores > 0) == label).mean() > 0.85
    if "row_norm" not in parameters:
        assert found["log_odds"]["mean"] == pytest.approx(scores.mean(), abs=0.02)
        assert found["log_odds"]["deviation"] == pytest.approx(scores.std(), rel=0.1)
    assert found["mean_label"] == pytest.approx(label.mean(), abs=0.01)
    assert len(found["standard_errors"]) == 6
    assert 0 < min(found["standard_errors"]) < max(found["standard_errors"]) < 2
    assert found["intercept_standard_error"] > 0
    assert json.loads(json.dumps(found))["method"] == "moments"


async def test_what_is_opened_are_the_moments_of_the_integer_rows_and_everybodys_noise():
    tables = labelled_tables()
    plan = plan_for(tables, moments_job())
    results, network = await run(plan, tables)
    rows = integer_rows(plan, tables)
    assert (rows**2).sum(axis=1).max() <= plan.total_squared_norm == plan.mechanism.squared_norm_bound
    assert {(m.stage, m.array.shape[1:]) for m in network.transcript if m.receiver == COORDINATOR} == {
        (OPENING_STAGE, (plan.n_row_columns * (plan.n_row_columns + 1) // 2,))
    }
    assert results[COORDINATOR]["privacy"]["parameters"]["party_mu"] == plan.party_mu


async def test_a_row_that_is_as_long_as_can_be_reaches_the_sensitivity_and_its_label_is_not_shortened():
    tables = labelled_tables()
    values = np.full_like(tables["bank"].values, 3.0)
    tables["bank"] = replace(tables["bank"], values=values)
    plan = plan_for(tables, moments_job({"row_norm": 1.5, "origin": "lower"}))
    rows = integer_rows(plan, tables)
    squared = (rows[:, plan.order[:-2]] ** 2).sum(axis=1)
    assert squared.max() <= sum(plan.squared_norm_bounds) <= plan.params.gamma**2
    assert (np.abs(rows[:, plan.order[-2]]) == plan.constant).all()
    squares = (np.outer(row, row) for row in rows)
    reached = max(float(np.linalg.norm(product)) for product in squares)
    assert 0.8 * plan.total_squared_norm < reached <= plan.total_squared_norm
    assert plan.mechanism.sensitivity("coordinator").squares == plan.total_squared_norm**2


@pytest.mark.parametrize("view", VIEWS)
def test_the_target_is_met_in_the_view_that_the_job_names_by_one_release(view):
    tables = labelled_tables()
    plan = plan_for(tables, moments_job(privacy={"epsilon": 20.0, "delta": 1e-5, "view": view}))
    assert 19.9 < plan.privacy_report()["views"][view]["epsilon"] <= 20.0
    assert [planned.times for planned in plan.releases] == [1]
    assert plan.receivers == (0,)


async def test_a_little_noise_changes_the_weights_a_little_and_much_noise_is_said_to_be_noise():
    tables = labelled_tables(400)
    exact, _ = logistic_regression.reference(
        [tables[p] for p in PARTIES], plan_for(tables, moments_job({"max_rows": 400}))
    )
    errors = []
    for epsilon in (1e4, 100.0):
        job = moments_job({"max_rows": 400}, privacy={"epsilon": epsilon, "delta": 1e-5})
        results, _ = await run(plan_for(tables, job), tables)
        errors.append(float(np.linalg.norm(np.array(results[COORDINATOR]["weights"]) - exact)))
    assert 0 < errors[0] < errors[1]
    results, _ = await run(
        plan_for(tables, moments_job({"max_rows": 400}, privacy={"epsilon": 0.1, "delta": 1e-5})), tables
    )
    assert "there is only noise" in results[COORDINATOR]["note"]


@pytest.mark.parametrize(("bad", "becomes"), [(0.5, 0.0), (1e300, 1.0)])
async def test_labels_that_are_not_0_or_1_become_the_nearer_one_and_only_their_owner_hears_of_it(bad, becomes):
    tables, seen = labelled_tables(), []
    for label in (becomes, bad):
        values = tables["telco"].values.copy()
        values[7, 0] = label
        tables["telco"] = replace(tables["telco"], values=values)
        results, _ = await run(plan_for(tables, moments_job()), tables)
        seen.append(results[COORDINATOR])
    assert seen[0] == seen[1]  # the entropy is the same
    assert [results[n].mapped_values for n in (1, 2, 3)] == [{}, {}, {"left": 1}]


async def test_tables_with_different_numbers_of_rows_are_refused_by_name_and_nothing_is_shared():
    tables = labelled_tables()
    tables["hospital"] = labelled_tables(59)["hospital"]
    results, network = await run(plan_for(tables, moments_job()), tables, deadline_s=0.5)
    assert all(isinstance(results[number], UnequalValuesError) for number in (1, 2, 3))
    assert not any(m.stage in ("table", OPENING_STAGE) for m in network.transcript)


async def test_owners_may_be_other_members_than_the_compute_parties():
    tables = labelled_tables()
    plan = plan_for(tables, moments_job(compute=["one", "two", "three"], privacy=GENEROUS))
    results, network = await run(plan, tables)
    weights, _ = logistic_regression.reference([tables[p] for p in PARTIES], plan)
    assert results[COORDINATOR]["weights"] == pytest.approx(weights, abs=0.05)
    assert not any(m.receiver > 3 and m.stage == "table" for m in network.transcript)


def test_a_party_may_bring_the_label_and_nothing_else():
    tables = labelled_tables()
    label = tables["telco"].schema.columns[:1]
    schemas = [t.schema for t in tables.values()]
    schemas[2] = schemas[2].model_copy(update={"columns": label})
    found = logistic_regression.ANALYSIS.plan(moments_job(), schemas)
    assert found.squared_norm_bounds[2] == 0
    assert found.n_row_columns == 7
    assert found.order == [0, 1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"iterations": 30}, "iterations: can only be given with method 'gradient'"),
        ({"intercept": False}, "intercept: can only be given with method 'gradient'"),
        ({"method": "newton"}, "parameters.method"),
        ({"gamma": 2}, "parameters.gamma: with 2 every"),
        ({"gamma": 2, "row_norm": 2.0, "norm_bounds": dict.fromkeys(PARTIES, 1.15)}, "with 2 every label would be"),
        ({"row_norm": 1.7, "norm_bounds": dict.fromkeys(PARTIES, 1.0)}, "is larger than the square of row_norm"),
    ],
)
def test_parameters_that_do_not_fit_are_refused_by_name(parameters, words):
    with pytest.raises(JobError, match=words):
        plan_for(labelled_tables(), moments_job(parameters))


def test_an_epsilon_in_whose_noise_no_answer_could_be_seen_is_refused():
    with pytest.raises(JobError, match=r"privacy.epsilon: with 0.001 this job is infeasible"):
        plan_for(labelled_tables(), moments_job(privacy={"epsilon": 1e-3, "delta": 1e-5}))
