"""Counts, sums and means over joined rows: sensitivity, intervals, and what is stated where little is known."""

import json
import re
from itertools import pairwise, product

import numpy as np
import pytest
from registry_jobs import OWNERS, VARIANTS
from virtual_time import run_in_virtual_time

from analyses.job.forecast import NORMAL_95
from analyses.job.job import Job, JobError
from analyses.job.schema import BlockSchema, ColumnSchema, Table
from analyses.joint_sums.estimate import estimates, ratio_intervals
from analyses.joint_sums.plan import UNITS_PER_ROW, sensitivities
from analyses.joint_sums.protocol import ANALYSIS, answer
from analyses.run_locally import run_locally
from results.registry import picture_of, result_of


def column(name, lower, upper, group=None):
    return ColumnSchema(name=name, lower=lower, upper=upper, group=group)


BLOCKS = (
    BlockSchema(party="bank", columns=(column("age", -20.0, 120.0), column("income", 0.0, 1e6)), rows=(1, 5000)),
    BlockSchema(party="clinic", columns=tuple(column(f"c={i}", 0.0, 1.0, "c") for i in range(3)), rows=(1, 5000)),
    BlockSchema(party="shop", columns=(column("visits", 0.0, 0.3),), rows=(1, 5000)),
)


def job_of(analysis="joint-mean", epsilon=1.0, **changes):
    fields = {
        "analysis": analysis,
        "inputs": [{"party": one.party, "table": "people"} for one in BLOCKS],
        "privacy": {"epsilon": epsilon, "delta": 1e-6},
        "order": "trusted",
    }
    return Job.model_validate(fields | changes)


def plan_of(analysis="joint-mean", epsilon=1.0, **changes):
    return ANALYSIS.plan(job_of(analysis, epsilon, **changes), BLOCKS)


def integer_rows(plan, values):
    """Rows (c, x) of tables that hold these rows, each of all owners' columns."""
    widths = list(plan.widths.values())
    blocks = np.split(values, np.cumsum(widths)[:-1], axis=1)
    parts = [
        plan.own_rows(owner, Table(schema, block), None)(slice(0, len(values)))
        for owner, schema, block in zip(plan.owners, BLOCKS, blocks, strict=True)
    ]
    return np.hstack([np.full((len(values), 1), plan.constant), *parts])


def extreme_rows():
    """All corners, the middle, values far outside, and rows of a category that no encoder makes."""
    choices = [(one.lower, one.upper) for block in BLOCKS for one in block.columns]
    corners = np.array(list(product(*choices)))
    far = np.finfo(np.float64).max
    return np.vstack([corners, corners.mean(axis=0), np.full(6, far), np.full(6, -far), np.sign(corners - 0.01) * far])


def test_no_row_moves_the_sums_further_than_is_declared_and_some_row_does_as_far():
    plan = plan_of()
    rows = integer_rows(plan, extreme_rows())
    for view, others in (("coordinator", np.zeros((1, rows.shape[1]), dtype=np.int64)), ("coalition", rows)):
        of = plan.noise.sensitivities[view]
        moved = np.abs(rows[:, None] - others[None]).reshape(-1, rows.shape[1])
        squares, sizes = (moved**2).sum(axis=1).max(), moved.sum(axis=1).max()
        assert 0.9 * of.squared_l2 < squares <= of.squared_l2 or view == "coalition"
        assert squares <= of.squared_l2
        assert sizes <= of.l1
    lost = plan.noise.sensitivities["coalition"]  # a record that loses its match
    assert (rows**2).sum(axis=1).max() <= lost.squared_l2
    assert np.abs(rows).sum(axis=1).max() <= lost.l1


def test_opposite_corners_of_numbers_attain_what_is_declared_for_the_coalition():
    numbers = tuple(one.model_copy(update={"columns": (column("x", 0.0, 1.0),)}) for one in BLOCKS)
    plan = ANALYSIS.plan(job_of(), numbers)
    assert plan.noise.sensitivities["coalition"].squared_l2 == 3 * plan.units**2
    assert sensitivities(1, (100,), (1,))["coalition"].squared_l2 == 400  # where the constant is small
    assert abs(plan.noise.sensitivities["coordinator"].squared_l2 - 3 * plan.units**2) <= 2 * plan.constant


def test_rounding_moves_no_sum_by_more_than_a_quarter_of_the_width_of_its_bounds():
    plan, n = plan_of(), 5000
    assert plan.units >= UNITS_PER_ROW * n
    lower, upper = (np.array([getattr(one, end) for one in plan.summed]) for end in ("lower", "upper"))
    values = lower + (upper - lower) * np.random.default_rng(4).random((n, 6))
    values[:, 2:5] = np.eye(3)[np.arange(n) % 3]
    values[: n // 2, [0, 1, 5]] = (lower + (upper - lower) * 0.123456789)[[0, 1, 5]]
    found = estimates(integer_rows(plan, values).sum(axis=0), plan)
    assert np.all(np.abs(found.sums - values.sum(axis=0)) <= 0.25 * (upper - lower) * (1 + 1e-9))
    assert found.n_rows == n


@pytest.mark.parametrize(("n", "r"), [(5.0, 0.5), (5.0, 0.0), (8.0, -0.3), (1000.0, 0.4)])
def test_intervals_of_ratios_hold_in_95_per_cent_of_normal_noise_however_few_rows_there_are(n, r):
    rng = np.random.default_rng(int(n))
    noisy_n, z = n + rng.normal(size=4000), r * n + 0.7 * rng.normal(size=4000)
    held = []
    for of_n, of_z in zip(noisy_n, z, strict=True):
        if of_n > NORMAL_95:
            low, high = ratio_intervals(np.array([of_z]), 0.7, of_n, 1.0)
            held.append(low[0] <= r <= high[0])
    assert 0.94 < np.mean(held) < 0.96


def with_sums(plan, n_rows, z):
    return np.array([round(n_rows * plan.constant), *(round(one * plan.units) for one in z)])


def test_no_mean_is_stated_where_the_count_is_within_its_noise_and_no_interval_outside_of_the_bounds():
    plan = plan_of()
    none = estimates(with_sums(plan, 3.9 * plan.count_error, [0.0] * 6), plan)
    assert (none.means, none.mean_errors, none.mean_intervals) == (None, None, None)
    few = estimates(with_sums(plan, 1000, [0.0, 900.0, 0, 0, 0, -400.0]), plan)
    assert few.means[1] == 1e6  # not above what it can be
    assert few.mean_intervals[1] is None
    assert few.means[5] == pytest.approx(0.03)
    assert few.mean_intervals[5][0] < few.means[5] < few.mean_intervals[5][1]
    assert few.means[0] == pytest.approx(50.0)
    assert few.sums[0] == pytest.approx(50_000)


def test_a_count_has_whole_ends_and_less_noise_than_beside_sums():
    plan = plan_of("joint-count")
    found = estimates(np.array([7]), plan)
    low, high = found.n_rows_interval
    assert (low, high) == (round(low), round(high))
    assert high - 7 == 7 - low >= NORMAL_95 * found.n_rows_error
    assert 2 * plan.count_error < plan_of().count_error
    assert plan.names == ()


@pytest.mark.parametrize(("bound", "is_answered"), [(1e260, True), (1e306, False)])
def test_sums_that_could_leave_the_range_of_floats_are_refused_before_anything_is_paid(bound, is_answered):
    """The result would be no JSON, and the failure would come after the charge."""
    blocks = (BLOCKS[0].model_copy(update={"columns": (column("age", 0.0, bound),)}), *BLOCKS[1:])
    if not is_answered:
        with pytest.raises(JobError, match=r"bank\.age the answer would leave the range of float64"):
            ANALYSIS.plan(job_of(), blocks)
        return
    plan = ANALYSIS.plan(job_of(), blocks)
    opened = np.array([plan.constant, *[plan.units] * 5], dtype=np.int64) * 5000
    json.dumps(answer(estimates(opened, plan), plan), allow_nan=False)


@pytest.mark.parametrize(("rows", "is_answered"), [(1 << 28, True), ((1 << 28) + 1, False)])
def test_rows_whose_rounding_could_show_in_a_sum_are_refused(rows, is_answered):
    blocks = tuple(block.model_copy(update={"rows": (1, rows)}) for block in BLOCKS)
    if is_answered:
        assert ANALYSIS.plan(job_of(parameters={"max_rows": rows}), blocks).units >= UNITS_PER_ROW * rows
        return
    with pytest.raises(JobError, match=f"the tables declare up to {rows} rows, too many"):
        ANALYSIS.plan(job_of(parameters={"max_rows": rows}), blocks)


def test_what_owners_send_does_not_grow_with_the_rows():
    few, many = (plan_of().traffic(n) for n in (1, 5000))
    assert few.sent == many.sent
    assert not few.has_intermediate_products


@pytest.mark.parametrize("name", ["joint-mean", "joint-sum"])
def test_a_result_says_what_intervals_are_about_and_where_the_means_lie(name):
    variant = VARIANTS[name]
    job = variant.job(privacy=variant.privacy_of(1.0))
    result = run_in_virtual_time(run_locally(job, variant.tables())).result
    text = "\n".join(result_of(job, result).lines)
    assert re.search(r"^column +mean +from +to +sum +\+-$", text, re.MULTILINE)
    assert "by noise alone: about the rows that were counted, not about others like them" in text
    means, sums = picture_of(result).panels
    assert all(0 <= one <= 100 for one in means.values)
    assert all(low <= one <= high for one, (low, high) in zip(means.values, means.intervals, strict=True))
    assert sums.labels == means.labels == tuple(f"{owner}.{name}" for owner in OWNERS for name in ("x0", "x1"))


def test_a_forecast_is_a_range_and_counts_on_no_mean_of_a_handful_of_rows():
    names = [one.name for one in ANALYSIS.forecast(plan_of()).quantities]
    assert names[0] == "number of rows"
    assert [name.split()[0] for name, _ in pairwise(names[1:])] == ["mean"] * 6 + ["sum"] * 5
    mean = ANALYSIS.forecast(plan_of()).quantities[1]
    assert 9 < mean.bad_case / mean.standard_error < 13
    little = ANALYSIS.forecast(plan_of(epsilon=0.02))
    assert "mean" not in " ".join(one.name for one in little.quantities)
    assert "no mean is stated" in little.not_forecast[0]
