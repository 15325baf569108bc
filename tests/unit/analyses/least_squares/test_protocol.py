import json

import numpy as np
import pytest
from moment_jobs import checked_plan_for, line_tables, plan_for, run, table_of

from analyses.job.job import JobError
from analyses.least_squares import protocol as least_squares
from bench.datasets.vertical_tables import EARNINGS_LABEL, HOUSING_LABEL, earnings, housing
from mpc.protocol.session import COORDINATOR

METHODS = {"mpc": {}, "gaussian": {"method": "sketch"}, "signs": {"method": "sketch", "sketch_entries": "signs"}}
LABEL = {"label": "bank.label"}


async def answer(tables, parameters, epsilon=1e5):
    plan = plan_for(least_squares, tables, {**LABEL, **parameters}, privacy={"epsilon": epsilon, "delta": 1e-6})
    results, _ = await run(least_squares, plan, tables)
    return plan, results[COORDINATOR]


def ordinary(tables):
    """Coefficients and intercept in the units of the columns, from the raw table."""
    features = np.hstack([tables["hospital"].values, tables["telco"].values])
    design = np.column_stack([features, np.ones(len(features))])
    return np.linalg.lstsq(design, tables["bank"].values[:, 0])[0]


async def test_counted_under_shares_it_is_least_squares_in_the_units_of_the_columns():
    tables = line_tables()
    plan, result = await answer(tables, {"gamma": 1 << 16})
    exact = ordinary(tables)
    assert result["features"] == ["hospital.a", "hospital.c", "telco.b"]
    assert [*result["coefficients"], result["intercept"]] == pytest.approx(exact, rel=0.02, abs=0.05)
    assert result["r_squared"] == pytest.approx(0.99, abs=0.01)
    assert result["note"] == ""
    line = least_squares.reference(list(tables.values()), plan)
    assert [*line.coefficients, line.intercept] == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("origin", ["lower", "middle"])
@pytest.mark.parametrize("label", ["bank.label", "hospital.a", "telco.b"])
async def test_any_column_of_any_party_may_be_the_label_and_any_origin_gives_the_same_line(label, origin):
    tables = line_tables()
    plan, result = await answer(tables, {"gamma": 1 << 16, "label": label, "origin": origin})
    line = least_squares.reference(list(tables.values()), plan)
    assert [*result["coefficients"], result["intercept"]] == pytest.approx(
        [*line.coefficients, line.intercept], rel=0.05, abs=0.3
    )


@pytest.mark.parametrize("method", ["gaussian", "signs"])
async def test_a_sketch_with_little_noise_comes_close(method):
    tables = line_tables()
    _, result = await answer(tables, {"gamma": 1 << 16, "sketch_rows": 200, **METHODS[method]}, 1e7)
    found = [*result["coefficients"], result["intercept"]]
    assert found == pytest.approx(ordinary(tables), rel=0.1, abs=1.0)


async def test_under_shares_the_line_is_closer_than_from_a_sketch_at_the_same_epsilon():
    tables, errors = line_tables(), {}
    features = np.hstack([tables["hospital"].values, tables["telco"].values])
    for name, method in METHODS.items():
        _, result = await answer(tables, method, 50.0)
        line = least_squares.Line(np.array(result["coefficients"]), result["intercept"])
        errors[name] = float(np.mean((line.predict(features) - tables["bank"].values[:, 0]) ** 2))
    assert errors["mpc"] < 0.2 * min(errors["signs"], errors["gaussian"])


@pytest.mark.parametrize("method", METHODS)
async def test_the_result_is_json_with_the_names_of_the_label_and_both_epsilons(method):
    _, result = await answer(line_tables(), METHODS[method], 4.0)
    result = json.loads(json.dumps(result))
    assert result["label"] == "bank.label"
    assert (result["standard_errors"] is None) == (method != "mpc")
    assert result["method"] == METHODS[method].get("method", "mpc")
    views = result["privacy"]["views"]
    assert views["coordinator"]["epsilon"] < views["coalition"]["epsilon"] <= 4.0


async def test_what_a_line_is_said_to_explain_is_what_it_explains_and_less_than_it_seems_to():
    """The noisy moments flatter the line that was made of them: at epsilon 4 they say 1 where it explains far less."""
    tables, said, true, held = line_tables(2000), [], [], []
    plan = plan_for(least_squares, tables, {**LABEL, "max_rows": 2000}, privacy={"epsilon": 4.0, "delta": 1e-6})
    features = np.hstack([tables["hospital"].values, tables["telco"].values])
    label = tables["bank"].values[:, 0]
    for seed in range(12):
        result = (await run(least_squares, plan, tables, seed=f"{seed}"))[0][COORDINATOR]
        line = least_squares.Line(np.array(result["coefficients"]), result["intercept"])
        true.append(1 - np.var(label - line.predict(features)) / np.var(label))
        said.append(result["r_squared"])
        low, high = result["r_squared_interval"]
        held.append(low <= true[-1] <= high)
    assert sum(held) >= 9
    assert abs(np.mean(said) - np.mean(true)) < 0.1


async def test_a_line_that_explains_nothing_is_said_to_be_noise():
    tables = line_tables()
    rng = np.random.default_rng(9)
    tables["bank"] = table_of("bank", {"label": (-50, 50, rng.uniform(-50, 50, 400))})
    _, result = await answer(tables, {}, 4.0)
    assert result["r_squared_interval"][0] <= 0
    assert result["note"].endswith("what the line explains is not distinguishable from noise")


async def test_a_sketch_has_no_interval():
    _, result = await answer(line_tables(), METHODS["signs"])
    assert result["r_squared_interval"] is None
    assert result["standard_errors"] is None


async def test_a_singular_design_matrix_is_said_and_the_ridge_gives_an_answer():
    tables = line_tables()
    a = tables["hospital"].values[:, 0]
    tables["telco"] = table_of("telco", {"b": (-2, 8, a)})  # the same column again
    _, result = await answer(tables, {"gamma": 1 << 16})
    assert result["note"].startswith("singular up to noise")
    assert result["ridge"] > 0
    twins = result["coefficients"][0], result["coefficients"][2]
    exact = np.linalg.lstsq(np.column_stack([a, np.ones(len(a))]), tables["bank"].values[:, 0])[0]
    assert sum(twins) == pytest.approx(exact[0], abs=0.5)  # what they say together is determined
    assert max(map(abs, twins)) < 10


async def test_too_few_rows_for_the_epsilon_is_said_in_the_result():
    _, result = await answer(line_tables(20), {"max_rows": 100_000}, 0.05)
    assert result["coefficients"] is None
    assert result["note"].startswith(("too few rows", "singular"))


async def test_the_ridge_of_the_job_is_the_one_that_is_used():
    tables = line_tables()
    plan, result = await answer(tables, {"gamma": 1 << 16, "ridge": 20.0})
    line = least_squares.reference(list(tables.values()), plan)
    assert result["ridge"] == 20.0
    assert result["coefficients"] == pytest.approx(line.coefficients, rel=0.02, abs=0.02)
    assert abs(result["coefficients"][0]) < 2.5  # shrunk from 3


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({}, "parameters.label"),
        ({"label": "label"}, "parameters.label: 'label' is not of the form party.column"),
        (
            {"label": "school.label"},
            ("parameters.label: party 'school' of the label is not among the inputs of this job"),
        ),
        ({"label": "bank.salary"}, "parameters.label: the input of bank has no column 'salary"),
        ({**LABEL, "ridge": -1.0}, "parameters.ridge"),
        ({**LABEL, "ridge": 0.0}, "cannot determine 4 coefficients"),
        (
            {**LABEL, "method": "sketch", "row_norm": 0.5},
            "leaves no room for other columns beside the constant column, which is",
        ),
        (
            {**LABEL, "method": "sketch", "sketch_rows": 4},
            ("parameters.sketch_rows: a sketch of 4 rows cannot determine 5 columns"),
        ),
        (
            {
                **LABEL,
                "method": "sketch",
                "row_norm": 1.0,
                "norm_bounds": {"bank": 0.6, "hospital": 0.6, "telco": 0.5},
            },
            "the square of row_norm less the constant column",
        ),
        (
            {**LABEL, "row_norm": 1.0, "norm_bounds": {"bank": 0.6, "hospital": 0.6, "telco": 0.6}},
            "the sum of their squares is larger than the square of row_norm",
        ),
    ],
)
def test_parameters_out_of_range_are_refused_by_name(parameters, words):
    with pytest.raises(JobError, match=words):
        plan_for(least_squares, line_tables(3), {"max_rows": 3, **parameters})


@pytest.mark.parametrize(
    ("label", "feature"),
    [((0, 1e300), (0, 1e-300)), ((-1e300, 1e300), (0, 1)), ((0, 1), (0, 1e-300)), ((1e300, 1.1e300), (0, 1))],
)
def test_bounds_with_which_the_line_may_leave_floating_point_are_refused_before_anything_is_spent(label, feature):
    tables = line_tables()
    tables["bank"] = table_of("bank", {"label": (*label, np.zeros(400))})
    tables["telco"] = table_of("telco", {"b": (*feature, np.zeros(400))})
    with pytest.raises(JobError, match="would leave the range of float64"):
        plan_for(least_squares, tables, LABEL)


@pytest.mark.parametrize(("label", "feature"), [((0, 1e90), (0, 1e-90)), ((0, 1e-300), (-1e300, 1e300))])
async def test_a_line_between_columns_of_very_different_units_is_finite(label, feature):
    tables = line_tables()
    tables["bank"] = table_of("bank", {"label": (*label, np.linspace(*label, 400))})
    tables["telco"] = table_of("telco", {"b": (*feature, np.linspace(*feature, 400))})
    _, result = await answer(tables, {})
    json.dumps(result, allow_nan=False)
    assert result["coefficients"][2] == pytest.approx((label[1] - label[0]) / (feature[1] - feature[0]), rel=0.05)


def test_a_label_without_features_is_refused():
    tables = {"bank": line_tables(10)["bank"]}
    with pytest.raises(JobError, match="inputs: there must be at least one column besides the label"):
        plan_for(least_squares, tables, LABEL, compute=["one", "two", "three"])


@pytest.mark.parametrize("method", METHODS)
def test_an_epsilon_too_small_for_any_answer_is_refused_before_anything_is_spent(method):
    privacy = {"epsilon": 1e-3, "delta": 1e-6}
    with pytest.raises(JobError, match=r"privacy.epsilon: .*no answer could be seen"):
        checked_plan_for(least_squares, line_tables(10), {**LABEL, **METHODS[method]}, privacy=privacy)


@pytest.mark.parametrize(("read", "label", "exact"), [(housing, HOUSING_LABEL, 0.64), (earnings, EARNINGS_LABEL, 0.25)])
async def test_on_real_tables_of_three_parties_little_is_lost_at_epsilon_4(read, label, exact):
    tables = {t.schema.party: t for t in read()}
    parameters = {"label": label, "max_rows": 100_000}
    plan = plan_for(least_squares, tables, parameters, privacy={"epsilon": 4.0, "delta": 1e-6})
    results, _ = await run(least_squares, plan, tables)
    found = least_squares.Line(np.array(results[COORDINATOR]["coefficients"]), results[COORDINATOR]["intercept"])
    best = least_squares.reference(list(tables.values()), plan)
    joint = np.hstack([t.values for t in tables.values()])
    is_label = np.array(plan.column_names) == label
    errors = [joint[:, is_label][:, 0] - line.predict(joint[:, ~is_label]) for line in (found, best)]
    unexplained = [np.var(e) / np.var(joint[:, is_label]) for e in errors]
    assert unexplained[1] == pytest.approx(1 - exact, abs=0.02)
    assert unexplained[0] < unexplained[1] + 0.03
