"""Openings that exclude each other: never stated wrongly, and one record moves no more than follows from it."""

import itertools

import numpy as np
import pytest

from analyses.circuit.exclusion import conditions_of, exclusive_values
from analyses.circuit.plan import sensitivities, weights_of
from analyses.circuit.program import N_OPERANDS, RANGES, program_of, ranges_of
from analyses.circuit.reference import values_of
from analyses.job.job import JobError

BOUNDS = {"bank.key": (0, 3), "shop.bit": (0, 1), "shop.amount": (-2, 2)}
COLUMNS = ["key = column(bank.key)", "bit = column(shop.bit)", "amount = column(shop.amount)"]
ROWS = list(itertools.product(*(range(low, high + 1) for low, high in BOUNDS.values())))
VALUES = {name: np.array(of, dtype=object) for name, of in zip(BOUNDS, zip(*ROWS, strict=True), strict=True)}


def checked(lines):
    """Return what is stated of a program, after everything has been tried on all rows."""
    program = program_of(lines)
    ranges = ranges_of(program, BOUNDS, t=1)
    values = values_of(program, VALUES)
    for name, conditions in conditions_of(program, ranges).items():
        outside = np.zeros(len(ROWS), dtype=bool)
        for step, value in conditions or ():
            outside |= values[step] != value
        assert not values[name][outside if conditions is not None else slice(None)].any(), name
    opened = [ranges[str(step.operands[0])] for step in program.opened]
    weights = weights_of(opened)
    moved = np.stack([values[str(s.operands[0])] * w for s, w in zip(program.opened, weights, strict=True)], axis=1)
    changes = {"coordinator": moved, "coalition": (moved[:, None] - moved[None]).reshape(-1, len(opened))}
    only = exclusive_values(program, ranges)
    stated = sensitivities(opened, weights, only)
    for view, each in changes.items():
        assert np.abs(each).sum(1).max() <= stated[view].l1
        assert (each**2).sum(1).max() <= stated[view].squared_l2
    return only, stated


GROUPS = [
    *COLUMNS,
    *(f"in_{g} = equal(key, {g})" for g in range(4)),
    *(f"sum_{g} = mul(in_{g}, amount)" for g in range(4)),
    *(f"open sum_{g} = sum(sum_{g})" for g in range(4)),
]


def test_sums_by_a_key_cost_as_much_as_one_sum():
    only, stated = checked(GROUPS)
    assert only == tuple((("key", g),) for g in range(4))
    assert (stated["coordinator"].l1, stated["coordinator"].squared_l2) == (2, 4)
    assert (stated["coalition"].l1, stated["coalition"].squared_l2) == (4, 16)  # -2 becomes 2 in one group
    _, counts = checked([*GROUPS[:7], *(f"open n_{g} = sum(in_{g})" for g in range(4))])
    assert (counts["coordinator"].l1, counts["coalition"].l1, counts["coalition"].squared_l2) == (1, 2, 2)


TWO_KEYS = [
    *GROUPS[:7],
    *(f"has_{b} = equal(bit, {b})" for b in range(2)),
    *(f"cell_{g}_{b} = mul(in_{g}, has_{b})" for g in range(4) for b in range(2)),
]


def test_a_table_of_two_keys_costs_as_much_as_one_cell():
    cells = [f"open cell_{g}_{b} = sum(cell_{g}_{b})" for g in range(4) for b in range(2)]
    only, stated = checked([*TWO_KEYS, *cells])
    assert only == tuple((("key", g), ("bit", b)) for g in range(4) for b in range(2))
    assert (stated["coordinator"].l1, stated["coalition"].squared_l2) == (1, 2)


def test_a_key_that_one_opening_does_not_ask_for_parts_none():
    only, stated = checked([*TWO_KEYS, "open a = sum(cell_1_0)", "open b = sum(cell_1_1)", "open c = sum(in_2)"])
    assert {case[0][0] for case in only} == {"key"}
    assert {len(case) for case in only} == {1}
    assert stated["coordinator"].l1 == 2


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["no = sub(1, bit)", "x = mul(bit, key)", "y = mul(no, key)"], ("bit", "bit")),
        (["a = equal(key, 1)", "x = select(a, amount, 0)", "b = equal(2, key)", "y = select(b, 3, 0)"], ("key", "key")),
        (["a = equal(key, 1)", "x = select(a, amount, 1)", "b = equal(key, 2)", "y = mul(b, 3)"], (None, "b")),
        (["a = equal(key, 1)", "x = add(a, 1)", "b = equal(key, 2)", "y = sub(b, a)"], (None, None)),
        (["a = equal(key, 1)", "c = mul(a, bit)", "x = add(a, c)", "b = equal(key, 2)", "y = mul(2, b)"], ("key",) * 2),
        (["a = equal(key, bit)", "x = mul(a, amount)", "y = equal(key, 1)"], ("a", None)),
        (["a = equal(key, 1)", "b = equal(key, 2)", "x = mul(a, b)", "y = mul(b, amount)"], ("b", "b")),
    ],
)  # fmt: skip
def test_what_a_step_asks_for_follows_from_its_operands(lines, expected):
    only, _ = checked([*COLUMNS, *lines, "open x = sum(x)", "open y = sum(y)"])
    assert tuple(case and case[0][0] for case in only) == expected


@pytest.mark.parametrize("seed", range(40))
def test_nothing_wrong_is_stated_of_any_program(seed):
    """Random steps, all rows: what is stated to be 0 is 0, and no record moves the sums by more than is stated."""
    rng = np.random.default_rng(seed)
    lines, names = [*COLUMNS], ["key", "bit", "amount"]
    while len(lines) < 14:
        operation = str(rng.choice(["equal", "mul", "sub", "select", "add", *RANGES]))
        operands = [str(rng.choice([*names, "0", "1", "2"])) for _ in range(N_OPERANDS[operation])]
        line = f"s{len(lines)} = {operation}({', '.join(operands)})"
        try:
            ranges_of(program_of([*lines, line, f"open o = sum(s{len(lines)})"]), BOUNDS, t=1)
        except JobError:
            continue
        names.append(f"s{len(lines)}")
        lines.append(line)
    ranges = ranges_of(program_of([*lines, "open o = sum(key)"]), BOUNDS, t=1)
    opened = [name for name in names if ranges[name] != (0, 0)]
    checked([*lines, *(f"open {name} = sum({name})" for name in opened)])
