import numpy as np
import pytest
from moment_jobs import line_tables, plan_for

from analyses.job.job import JobError
from analyses.least_squares import protocol as least_squares
from analyses.low_rank import protocol as low_rank
from analyses.pca import protocol as pca
from analyses.rows.reach import FURTHEST
from analyses.rows.row_plan import MAX_GAMMA, clipped_rows
from analyses.second_moments.noisy_moments import gram_noise_level
from analyses.second_moments.rounding import LEAST_GAMMA, stated_rounding, worst_rounding

ANALYSES = {
    "pca": (pca, {"components": 1}),
    "low-rank": (low_rank, {"rank": 1}),
    "least-squares": (least_squares, {"label": "bank.label"}),
}


def rounded_and_not(plan, tables):
    """X and Y of the bound, without the constant column, in integer units."""
    rounded = np.hstack([plan.quantise(o, t.values)[0] for o, t in zip(plan.owners, tables, strict=True)])
    return clipped_rows(tables, plan) / plan.unit, rounded[:, : len(plan.column_names)].astype(np.float64)


@pytest.mark.parametrize("origin", ["lower", "middle"])
@pytest.mark.parametrize("gamma", [9, 64, 4096])
@pytest.mark.parametrize("analysis", ANALYSES)
def test_rounding_moves_second_moments_by_no_more_than_the_bound_and_the_bound_is_not_idle(analysis, gamma, origin):
    module, parameters = ANALYSES[analysis]
    tables = line_tables(300)
    plan = plan_for(module, tables, {**parameters, "gamma": gamma, "origin": origin})
    tables = {name: type(t)(t.schema, worst_values(t, plan), t.ids_digest) for name, t in tables.items()}
    exact, rounded = rounded_and_not(plan, list(tables.values()))
    moved = np.linalg.norm(exact.T @ exact - rounded.T @ rounded, 2)
    bound = worst_rounding(exact.shape[1], plan.total_squared_norm, len(exact))
    assert moved <= bound
    assert moved <= stated_rounding(plan) / plan.unit**2
    assert moved > 0.15 * bound


def worst_values(table, plan):
    """Long rows whose entries are all rounded down by nearly half a unit."""
    lower, upper = np.array([(c.lower, c.upper) for c in table.schema.columns]).T
    entry = np.floor(FURTHEST[plan.params.origin] / plan.unit) - 1.51
    scaled = entry * plan.unit + (0.5 if plan.params.origin == "middle" else 0)
    return np.tile(lower + (upper - lower) * scaled, (len(table.values), 1))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 16.0])
@pytest.mark.parametrize("origin", ["lower", "middle"])
@pytest.mark.parametrize("analysis", ANALYSES)
def test_the_planned_gamma_is_the_smallest_power_of_two_whose_rounding_is_a_tenth_of_the_noise(
    analysis, origin, epsilon
):
    module, parameters = ANALYSES[analysis]
    parameters = {**parameters, "origin": origin, "max_rows": 200_000}
    privacy = {"epsilon": epsilon, "delta": 1e-6}
    plan = plan_for(module, line_tables(10), parameters, privacy=privacy)

    def share(gamma):
        chosen = plan_for(module, line_tables(10), parameters | {"gamma": gamma}, privacy=privacy)
        return worst_rounding(4, chosen.total_squared_norm, 200_000) / gram_noise_level(chosen)

    assert share(plan.gamma) <= 0.1
    assert plan.gamma > LEAST_GAMMA
    assert share(plan.gamma // 2) > 0.1


def test_a_gamma_of_the_job_is_kept_and_a_sketch_has_its_own():
    assert plan_for(low_rank, line_tables(10), {"rank": 1, "gamma": 100}).gamma == 100
    assert plan_for(low_rank, line_tables(10), {"rank": 1, "method": "sketch"}).gamma == LEAST_GAMMA


def test_few_rows_and_much_noise_need_no_more_than_the_least_units():
    privacy = {"epsilon": 0.1, "delta": 1e-6}
    assert plan_for(low_rank, line_tables(10), {"rank": 1, "max_rows": 200}, privacy=privacy).gamma == LEAST_GAMMA


def test_where_the_field_has_no_room_for_the_units_that_were_wanted_they_are_the_finest_that_it_has_room_for():
    plan = plan_for(low_rank, line_tables(10), {"rank": 1, "max_rows": 1 << 70})
    assert LEAST_GAMMA < plan.gamma < MAX_GAMMA
    with pytest.raises(JobError, match=r"largest field|than the sampler can draw"):
        plan_for(low_rank, line_tables(10), {"rank": 1, "max_rows": 1 << 70, "gamma": 2 * plan.gamma})
