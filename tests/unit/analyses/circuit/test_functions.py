"""Functions in programs: what they are refused for, ranges and errors that are stated, jobs beside exact sums."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from virtual_time import run_in_virtual_time

from analyses.circuit.errors import errors_of
from analyses.circuit.functions import FUNCTIONS
from analyses.circuit.plan import ColumnRows
from analyses.circuit.program import program_of, ranges_of
from analyses.circuit.reference import OPERATIONS, reference, values_of
from analyses.job.job import Job, JobError
from analyses.job.schema import BlockSchema, ColumnSchema, Table
from analyses.registry import ANALYSES
from analyses.run_locally import run_locally

OWNERS = ("bank", "clinic", "shop")
BOUNDS = {"bank.x": (-6, 9), "clinic.x": (1, 16), "shop.x": (0, 300)}
COLUMNS = ["x = column(bank.x)", "y = column(clinic.x)", "z = column(shop.x)"]
N_ROWS = 40
EVERYTHING = [
    *COLUMNS,
    "quotient = divide(x, y, 8)",
    "inverse = reciprocal(y, 8)",
    "root = sqrt(z, 6)",
    "inverse_root = reciprocal_sqrt(y, 6)",
    "logarithm = log(y, 6)",
    "x6 = mul(x, 8)",
    "power = exp(x6, 6)",
    "x9 = mul(z, -20)",
    "odds = sigmoid(x9, 9)",
    "product = mul(quotient, odds)",
    "fixed = truncate(product, 9)",
    "above = less(3, fixed)",
    "chosen = select(above, fixed, 7)",
    "whole = floor_shift(fixed, 2)",
]
OPENED = [
    "quotient", "inverse", "root", "inverse_root", "logarithm", "power", "odds", "fixed", "above", "chosen", "whole",
]  # fmt: skip


def opens(lines, *names):
    return [*lines, *(f"open {name} = sum({name})" for name in names)]


def tables():
    rng = np.random.default_rng(5)
    found = []
    for owner in OWNERS:
        low, high = BOUNDS[f"{owner}.x"]
        schema = BlockSchema(party=owner, columns=(ColumnSchema(name="x", lower=low, upper=high),), rows=(1, 100))
        found.append(Table(schema, rng.integers(low, high + 1, (N_ROWS, 1)).astype(float)))
    return found


def job(lines, **changes):
    fields = {
        "analysis": "circuit",
        "inputs": [{"party": owner, "table": "rows"} for owner in OWNERS],
        "order": "trusted",
        "privacy": {"epsilon": 1e8, "delta": 1e-6},
        "parameters": {"program": lines},
        "anyway": True,
    }
    return Job.model_validate({**fields, **changes})


def plan_of(lines, **changes):
    return ANALYSES["circuit"].plan(job(lines, **changes), [table.schema for table in tables()])


def checked(lines, compute):
    run = run_in_virtual_time(run_locally(job(lines, compute=compute), dict(zip(OWNERS, tables(), strict=True))))
    assert not run.failures
    exact = reference(tables(), run.plan)
    for name, value, error, rounding in zip(
        run.result["names"],
        run.result["values"],
        run.plan.standard_errors,
        run.result["roundings_per_row"],
        strict=True,
    ):
        assert rounding > 0
        assert abs(value - exact[name]) <= N_ROWS * rounding + 8 * error + 1e-3, name
    return run


def test_a_quotient_and_a_root_come_out_within_the_error_that_is_stated():
    checked(opens([*COLUMNS, "q = divide(x, y, 5)", "r = sqrt(z, 2)"], "q", "r"), ())


@pytest.mark.slow
@pytest.mark.parametrize("compute", [(), (*OWNERS, "helper"), (*OWNERS, "helper", "other")])
def test_every_function_comes_out_within_the_error_that_is_stated(compute):
    run = checked(opens(EVERYTHING, *OPENED), compute)
    assert {step.operation for step in run.plan.program.steps} >= FUNCTIONS.keys()
    assert max(run.plan.roundings[:4]) < 6  # tight enough to see a wrong row


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (
            "f = divide(x, z, 4)",
            "line 4, 'f = divide(x, z, 4)': what must not be below 1 may be anything from 0 to 300",
        ),
        ("f = divide(x, x, 4)", "take maximum(x, 1) first"),
        ("f = divide(x, 0, 4)", "what must not be below 1 may be anything from 0 to 0"),
        ("f = reciprocal(z, 4)", "take maximum(x, 1) first"),
        ("f = log(z, 4)", "take maximum(x, 1) first"),
        ("f = reciprocal_sqrt(z, 4)", "take maximum(x, 1) first"),
        ("f = sqrt(x, 4)", "take maximum(x, 0) first"),
        ("f = exp(z, 0)", "what must not be above 45 may be anything from 0 to 300: take minimum(x, 45) first"),
        ("f = exp(z, 1)", "above 90"),
        ("f = divide(x, y, z)", "the scale is a plain integer from 0 to 40"),
        ("f = divide(x, y, 41)", "the scale is a plain integer from 0 to 40"),
        ("f = truncate(x, 0)", "the scale is a plain integer from 1 to 60"),
        ("f = divide(0, y, 4)", "an operand is always 0"),
    ],
)
def test_what_a_function_may_not_take_is_refused_with_its_line(line, why):
    with pytest.raises(JobError, match=r"^parameters.program: line 4") as refused:
        plan_of(opens([*COLUMNS, line], "f", "z"))
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("lines", "number", "why"),
    [
        (["s = mul(z, 1000000)", "f = sqrt(s, 40)"], 5, "bits more do not fit into a field of 126 bits"),
        (["f = sigmoid(z, 40)"], 4, "points do not suffice for the function"),
        (["s = mul(x, 100)", "f = exp(s, 3)"], 5, "above 360"),
        (["s = mul(x, -100)", "f = exp(s, 3)"], 5, "above 360"),
    ],
)
def test_a_scale_too_fine_for_every_field_is_refused_with_its_line(lines, number, why):
    with pytest.raises(JobError, match=rf"^parameters.program: line {number}, ") as refused:
        plan_of(opens([*COLUMNS, *lines], "f", "z", "x", "y"))
    assert why in str(refused.value)


def test_low_bits_of_what_is_rounded_are_refused_with_their_line():
    with pytest.raises(JobError, match=r"line 5, 'b = low_bits\(f, 2\)': f is rounded"):
        plan_of(opens([*COLUMNS, "f = sqrt(z, 4)", "b = low_bits(f, 2)"], "b", "x", "y"))


def test_masked_openings_of_functions_are_counted_and_take_their_part_of_delta():
    few, many = ([*COLUMNS, *(f"s{i} = sigmoid(z, 10)" for i in range(n))] for n in (1, 30))
    report = plan_of(opens(few, "s0", "x", "y")).privacy_report()["program"]
    assert report["masked_openings_per_row"] > 40
    assert report["delta_of_masked_openings"] == report["masked_openings_per_row"] * 2.0**-39
    assert [one.get("rounding_per_row", 0) for one in report["openings"]] == [3, 0, 0]
    with pytest.raises(JobError, match="values per row are opened under masks, more than 1000"):
        plan_of(opens(many, "s0", "x", "y"))


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))])
def test_no_value_leaves_the_range_and_no_error_is_larger_than_is_stated(seed, monkeypatch):
    """All rows of a small domain, each function off by whatever it may be, beside exact arithmetic."""
    rng = np.random.default_rng(seed)
    bounds = {"bank.x": (-3, 4), "clinic.x": (1, 5), "shop.x": (0, 6)}
    lines = [
        *COLUMNS, "q = divide(x, y, 3)", "r = sqrt(z, 4)", "m = mul(q, r)", "c = less(m, 5)", "s = select(c, q, m)",
        "a = maximum(r, 2)", "d = divide(m, a, 2)", "l = log(a, 3)", "e = sub(d, l)", "f = floor_shift(m, 1)",
        "p = maximum(q, -9)", "g = sigmoid(p, 2)", "h = minimum(g, p)", "i = reciprocal(a, 5)",
        "j = reciprocal_sqrt(a, 5)", "k = truncate(m, 2)", "n = add(k, j)", "o = exp(g, 3)", "u = mul(i, n)",
    ]  # fmt: skip
    program = program_of(opens(lines, "u"))
    ranges = ranges_of(program, bounds, t=1)
    errors = errors_of(program, ranges, t=1)
    rows = list(itertools.product(*(range(low, high + 1) for low, high in bounds.values())))
    columns = dict(zip(bounds, np.array(rows, dtype=object).T, strict=True))
    exact = values_of(program, columns)
    for name, function in FUNCTIONS.items():

        def rounded(*operands, function=function):
            off = function.slip(1) * Fraction(int(rng.choice([-999, 0, 999])), 1000)
            value = function.exact(*operands) + off
            nearest = round(value)
            return nearest if abs(nearest - function.exact(*operands)) < function.slip(1) else round(value - off)

        monkeypatch.setitem(OPERATIONS, name, np.frompyfunc(rounded, function.n_operands, 1))
    found = values_of(program, columns)
    for name, (low, high) in ranges.items():
        assert low <= min(found[name]) <= max(found[name]) <= high, name
        largest = max(abs(a - b) for a, b in zip(found[name], exact[name], strict=True))
        assert largest <= errors[name] + Fraction(1, 99), name


def test_rows_that_do_not_count_hold_values_within_the_bounds():
    """Masks are as long as ranges ask for: a 0 beside values around a million would be hidden less well."""
    columns = (ColumnSchema(name="x", lower=1_000_000, upper=1_000_003),)
    schemas = [BlockSchema(party=owner, columns=columns, rows=(1, 100)) for owner in OWNERS]
    lines = ["a = column(bank.x)", "b = column(clinic.x)", "c = column(shop.x)"]
    plan = ANALYSES["circuit"].plan(job(opens(lines, "a", "b", "c")), schemas)
    table = Table(schemas[0], np.full((3, 1), 1_000_002.0))
    rows = ColumnRows(plan, 1, table, np.array([True, False, True]))(slice(0, 3))
    assert rows.tolist() == [[1_000_002], [1_000_000], [1_000_002]]
