"""How far a row can lie from the origin: exact, reached, and never what privacy rests on."""

from fractions import Fraction
from itertools import product
from math import isclose, sqrt

import numpy as np
import pytest

from analyses.job.job import Job
from analyses.job.schema import BlockSchema, ColumnSchema
from analyses.rows.quantise import BlockQuantiser
from analyses.rows.reach import centres, group_sizes, most_nonzero, squared_reach, zeros_of
from analyses.rows.row_plan import RowParams, plan_rows


def one_hot(name, size):
    return tuple(ColumnSchema(name=f"{name}={i}", lower=0, upper=1, group=name) for i in range(size))


AGE = ColumnSchema(name="age", lower=20, upper=100)
STAY = (
    ColumnSchema(name="stay", lower=-5, upper=5, group="stay"),
    ColumnSchema(name="stay=missing", lower=0, upper=1, group="stay"),
)
BLOCKS = {
    "one column": (AGE,),
    "one indicator": one_hot("a", 1),
    "two": one_hot("a", 2),
    "three": one_hot("a", 3),
    "seven": one_hot("a", 7),
    "a number with gaps": STAY,
    "all of them": (AGE, *one_hot("a", 3), *STAY),
}


def possible_rows(columns):
    """All rows on a grid in which at most one column of each group is away from its lower bound, in [0, 1]."""
    grid = (0.0, 0.5, 1.0)
    for row in product(grid, repeat=len(columns)):
        away = [c.source for c, value in zip(columns, row, strict=True) if value > 0]
        if len(set(away)) == len(away):
            yield np.array(row)


@pytest.mark.parametrize("origin", ["lower", "middle"])
@pytest.mark.parametrize("name", BLOCKS)
def test_the_reach_is_the_longest_possible_row(name, origin):
    columns = BLOCKS[name]
    longest = max(float(np.sum((row - centres(columns, origin)) ** 2)) for row in possible_rows(columns))
    assert isclose(longest, squared_reach(columns, origin), rel_tol=1e-12)


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_no_other_centre_of_a_group_has_a_shorter_reach(size):
    columns = one_hot("a", size)
    best = squared_reach(columns, "middle")
    for centre in np.linspace(0, 1, 101):
        assert max(float(np.sum((row - centre) ** 2)) for row in possible_rows(columns)) >= best - 1e-12


def test_columns_of_one_category_count_as_one_and_others_as_before():
    assert squared_reach((AGE, *one_hot("a", 50)), "lower") == 2
    assert squared_reach((AGE, *one_hot("a", 50)), "middle") == Fraction(1, 4) + Fraction(49, 50)
    assert squared_reach((AGE,) * 7, "middle") == Fraction(7, 4)
    assert squared_reach((), "lower") == 0


def test_a_job_about_some_columns_of_a_category_knows_them_as_a_group_still():
    assert group_sizes((*one_hot("a", 5)[1:4], AGE)) == (3, 3, 3, 1)


def test_zero_is_in_the_units_of_the_columns():
    assert zeros_of((AGE, *STAY), "middle").tolist() == [60.0, 0.0, 0.5]
    assert zeros_of((AGE, *STAY), "lower").tolist() == [20.0, -5.0, 0.0]


def job_of(*parties):
    inputs = [{"party": party, "table": "people"} for party in parties]
    return Job.model_validate({"analysis": "pca", "inputs": inputs, "privacy": {"epsilon": 1.0, "delta": 1e-6}})


@pytest.mark.parametrize("origin", ["lower", "middle"])
def test_default_norms_follow_the_groups_and_clip_no_row_that_an_encoder_makes(origin):
    schemas = [
        BlockSchema(party="a", columns=(AGE, *one_hot("region", 20))),
        BlockSchema(party="b", columns=STAY),
        BlockSchema(party="c", columns=one_hot("kind", 3)),
    ]
    params = RowParams(gamma=1 << 28, max_rows=10, origin=origin)
    bounds = plan_rows(job_of("a", "b", "c"), schemas, params)
    reaches = [squared_reach(schema.columns, origin) for schema in schemas]
    assert isclose(bounds.row_norm, sqrt(sum(reaches)))
    assert bounds.row_norm < sqrt(5)  # and not sqrt(26)
    assert sum(bounds.squared_norm_bounds) <= params.gamma**2
    for schema, bound in zip(schemas, bounds.squared_norm_bounds, strict=True):
        size = len(schema.columns)
        lower = np.array([c.lower for c in schema.columns])
        rows = lower + np.vstack([np.eye(size), np.zeros(size)]) * [c.upper - c.lower for c in schema.columns]
        quantiser = BlockQuantiser(schema, params.gamma, bounds.row_norm, bound, origin)
        integers, outside, n_too_long = quantiser.quantise(rows)
        assert n_too_long == 0
        assert not outside.any()
        assert integers.any()


def test_rows_that_break_a_group_are_shortened_so_that_noise_covers_them():
    columns = one_hot("region", 4)
    schema = BlockSchema(party="a", columns=columns)
    params = RowParams(gamma=1 << 20, max_rows=10)
    bounds = plan_rows(job_of("a"), [schema], params)
    quantiser = BlockQuantiser(schema, params.gamma, bounds.row_norm, bounds.squared_norm_bounds[0])
    integers, _, n_too_long = quantiser.quantise(np.ones((3, 4)))
    assert n_too_long == 3
    assert (integers**2).sum(axis=1).max() <= params.gamma**2


@pytest.mark.parametrize("name", BLOCKS)
def test_as_many_values_differ_from_zero_as_are_counted(name):
    columns = BLOCKS[name]
    lower, width = (np.array([at(c) for c in columns]) for at in (lambda c: c.lower, lambda c: c.upper - c.lower))
    most = max(np.count_nonzero(lower + width * row) for row in possible_rows(columns))
    assert most == most_nonzero(columns)
