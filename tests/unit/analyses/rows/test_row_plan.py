import numpy as np
import pytest
from moment_jobs import line_tables, plan_for

from analyses.least_squares import protocol as least_squares
from analyses.low_rank import protocol as low_rank


@pytest.mark.parametrize("origin", ["lower", "middle"])
@pytest.mark.parametrize("gamma", [4, 7, 1024, 1 << 20])
def test_no_integer_row_of_the_joint_table_is_longer_than_stated_the_constant_included(origin, gamma):
    tables = line_tables(200)
    parameters = {"label": "bank.label", "gamma": gamma, "origin": origin}
    plan = plan_for(least_squares, tables, parameters)
    blocks = [plan.quantise(o, tables[plan.job.members[o - 1]].values)[0] for o in plan.owners]
    for owner, block, bound in zip(plan.owners, blocks, plan.squared_norm_bounds, strict=True):
        assert block.shape[1] == plan.width_of(owner)
        own = block[:, :-1] if owner == plan.owners[-1] else block
        assert (own**2).sum(axis=1).max() <= bound
    rows = np.hstack(blocks)
    assert (rows**2).sum(axis=1).max() <= plan.total_squared_norm
    assert plan.total_squared_norm - plan.constant**2 <= gamma**2
    assert (rows[:, -1] == plan.constant).all()
    assert rows.shape[1] == plan.n_row_columns == 5


def test_the_default_clips_no_row_and_uses_up_the_norm():
    tables = line_tables(200)
    plan = plan_for(least_squares, tables, {"label": "bank.label", "gamma": 1 << 16})
    for owner in plan.owners:
        assert plan.quantise(owner, tables[plan.job.members[owner - 1]].values)[2] == 0
    assert plan.total_squared_norm > 0.999 * (1 << 32)


def test_a_centred_column_is_as_far_below_zero_as_above():
    tables = line_tables(200)
    plan = plan_for(low_rank, tables, {"rank": 1, "origin": "middle", "gamma": 1 << 16})
    ends, _, _ = plan.quantise(3, np.array([[0.0], [50.0], [100.0]]))
    assert (ends[0], ends[1]) == (-ends[2], 0)
    assert plan.row_norm == pytest.approx(1.0)  # sqrt(4) / 2


def test_norms_of_the_job_are_divided_as_it_says():
    bounds = {"bank": 0.5, "hospital": 0.625, "telco": 0.5}
    plan = plan_for(low_rank, line_tables(10), {"rank": 1, "row_norm": 1.0, "gamma": 1000, "norm_bounds": bounds})
    assert plan.squared_norm_bounds == (250_000, 390_625, 250_000)
    assert plan.constant == 0
