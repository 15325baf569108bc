"""The programs of examples/programs as jobs of all members in one process, each beside the pooled answer."""

from pathlib import Path

import numpy as np
from virtual_time import run_in_virtual_time

from analyses.circuit.reference import reference
from analyses.job.job import Job
from analyses.job.schema import BlockSchema, ColumnSchema, Table
from analyses.run_locally import run_locally
from analyst.recording import record

PROGRAMS = Path(__file__).parents[4] / "examples" / "programs"
N_ROWS = 1000
RNG = np.random.default_rng(4)
AMOUNT = np.clip(RNG.normal(50, 20, N_ROWS).round(), 0, 100)
POOLED = {
    "bank": {"amount": (AMOUNT, 100), "flag": (RNG.integers(0, 2, N_ROWS), 1)},
    "clinic": {
        "group": (RNG.integers(0, 4, N_ROWS), 3),
        "month": (np.minimum(RNG.geometric(0.2, N_ROWS) - 1, 11), 11),
        "weight": (np.clip(AMOUNT + RNG.normal(0, 5, N_ROWS).round(), 0, 100), 100),
    },
    "shop": {
        "spent": (RNG.integers(0, 101, N_ROWS), 100),
        "category": (np.minimum(RNG.geometric(0.3, N_ROWS) - 1, 11), 11),
        "event": (RNG.integers(0, 2, N_ROWS), 1),
    },
}
for owner in POOLED.values():
    owner |= {score: (RNG.integers(0, 54, N_ROWS), 53) for score in ("first", "second")}
POOLED["shop"]["mark"] = (RNG.integers(0, 2, N_ROWS), 1)
COLUMN = {owner: {name: values for name, (values, _) in columns.items()} for owner, columns in POOLED.items()}


def run(name):
    """Return what a program opens, and the standard errors, at epsilon 4 for the coalition; near the exact sums."""
    lines = record((PROGRAMS / f"{name}.py").read_text(encoding="utf-8"), name)
    tables, inputs = {}, []
    for owner, columns in POOLED.items():
        used = [column for column in columns if any(f"{owner}.{column})" in line for line in lines)]
        schema = tuple(ColumnSchema(name=n, lower=0.0, upper=float(columns[n][1])) for n in used)
        values = np.stack([columns[n][0] for n in used], axis=1) if used else np.zeros((N_ROWS, 0))
        if used:
            tables[owner] = Table(BlockSchema(party=owner, columns=schema, rows=(1, 3000)), values.astype(float))
            inputs.append({"party": owner, "table": "rows", "columns": used})
    job = Job.model_validate(
        {
            "analysis": "circuit",
            "inputs": inputs,
            "compute": list(POOLED),
            "order": "trusted",
            "privacy": {"epsilon": 4.0, "delta": 1e-6, "view": "coalition"},
            "parameters": {"program": list(lines)},
        }
    )
    ran = run_in_virtual_time(run_locally(job, tables))
    assert not ran.failures
    exact = reference(list(tables.values()), ran.plan)
    found = dict(zip(ran.result["names"], ran.result["values"], strict=True))
    errors = dict(zip(ran.result["names"], ran.result["standard_errors"], strict=True))
    for opened, value in found.items():
        assert abs(value - exact[opened]) < 6 * errors[opened] + 1, opened
    return found, errors


def test_sums_of_groups_are_near_those_of_the_pooled_tables():
    found, errors = run("group_sums")
    for group in range(4):
        inside = COLUMN["clinic"]["group"] == group
        assert abs(found[f"rows_{group}"] - inside.sum()) < 6 * errors[f"rows_{group}"]
        assert abs(found[f"amount_{group}"] - AMOUNT[inside].sum()) < 6 * errors[f"amount_{group}"]
    assert errors["rows_0"] < 3  # of four groups, two sums each: as of one group


def test_median_quantiles_and_minimum_are_near_those_of_the_pooled_sums():
    found, errors = run("quantiles")
    total = AMOUNT + COLUMN["shop"]["spent"]
    counts = np.array([found[f"step_{value}"] for value in range(26)])
    below = np.cumsum(counts)
    for level in (0.1, 0.25, 0.5, 0.75, 0.9):
        quantile = 8 * int(np.searchsorted(below, level * below[-1])) + 4
        assert abs(quantile - np.quantile(total, level)) <= 9
    surely = counts > 17 * errors["step_0"]
    exact = np.bincount((total // 8).astype(int), minlength=26)
    assert np.argmax(surely) == np.argmax(exact > 17 * errors["step_0"])
    assert errors["step_0"] < 1.5  # 26 counts, as of two that a row changes


def test_the_top_categories_are_those_of_the_pooled_tables():
    found, _ = run("top_categories")
    flagged = COLUMN["shop"]["category"][COLUMN["bank"]["flag"] == 1]
    exact = np.argsort(-np.bincount(flagged, minlength=12), kind="stable")[:3]
    ranked = sorted(found, key=lambda name: -found[name])[:3]
    assert ranked == [f"category_{value}" for value in exact]


def kaplan_meier(cells):
    """Return the share that is left after each month, by group, from counts of shape (months, event, group)."""
    at_risk = cells.sum(1)[::-1].cumsum(0)[::-1]
    return np.cumprod(1 - cells[:, 1] / np.maximum(at_risk, 1), axis=0)


def test_survival_by_group_is_near_that_of_the_pooled_tables():
    found, _ = run("survival")
    ours = np.array([found[f"cell_{value}"] for value in range(48)]).reshape(12, 2, 2)
    cell = 4 * COLUMN["clinic"]["month"] + 2 * COLUMN["shop"]["event"] + COLUMN["bank"]["flag"]
    exact = np.bincount(cell, minlength=48).reshape(12, 2, 2)
    months = slice(0, 6)  # later few are left
    assert np.abs(kaplan_meier(ours) - kaplan_meier(exact))[months].max() < 0.08


def test_the_first_component_is_that_of_the_pooled_table():
    text = (PROGRAMS / "pca.py").read_text(encoding="utf-8")
    assert len(text.partition('"""\n\n\n')[2].splitlines()) <= 8
    found, _ = run("pca")
    columns = np.stack([AMOUNT, COLUMN["clinic"]["weight"], COLUMN["shop"]["spent"]]) - 50
    gram, sums = np.zeros((3, 3)), np.array([found[f"sum_{i}"] for i in range(3)])
    for i in range(3):
        for j in range(i, 3):
            gram[i, j] = gram[j, i] = found[f"product_{i}_{j}"]
    ours = np.linalg.eigh(gram / N_ROWS - np.outer(sums, sums) / N_ROWS**2)[1][:, -1]
    exact = np.linalg.eigh(np.cov(columns))[1][:, -1]
    assert abs(ours @ exact) > 0.9


def test_a_picture_of_two_scores_is_near_that_of_the_pooled_scores_and_a_count_has_the_error_of_one():
    found, errors = run("scores")
    across, up = (sum(own[score] for own in COLUMN.values()) // 16 for score in ("first", "second"))
    for column, row in ((4, 4), (5, 3), (0, 9)):
        here = (across == column) & (up == row)
        assert abs(found[f"marked_{column}_{row}"] - (here & (COLUMN["shop"]["mark"] == 1)).sum()) < 6
        assert abs(found[f"other_{column}_{row}"] - (here & (COLUMN["shop"]["mark"] == 0)).sum()) < 6
    assert max(errors.values()) < 0.8  # 200 counts, as of two that a row changes
