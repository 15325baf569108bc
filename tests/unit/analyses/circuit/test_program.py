"""Lines of programs: what they say, what they are refused for, and that no value leaves its range."""

import itertools

import numpy as np
import pytest

from analyses.circuit.plan import sensitivities, weights_of
from analyses.circuit.program import MAX_MASKED, MAX_STEPS, RANGES, program_of, ranges_of
from analyses.circuit.reference import OPERATIONS
from analyses.job.job import JobError

LINES = [
    "a = column(bank.age)",
    "d = column(shop.debt)",
    "poor = less(d, 3)",
    "x = mul(a, poor)",
    "open ages = sum(x)",
    "open poor = sum(poor)",
]
BOUNDS = {"bank.age": (-2, 3), "shop.debt": (0, 5)}


def test_lines_become_steps_and_openings():
    program = program_of(LINES)
    assert [step.name for step in program.steps] == ["a", "d", "poor", "x"]
    assert [step.name for step in program.opened] == ["ages", "poor"]
    assert program.columns == ("bank.age", "shop.debt")
    assert program.lines == tuple(LINES)
    assert program.n_masked == 1


def test_the_digest_names_the_text():
    assert program_of(LINES).digest == program_of(tuple(LINES)).digest
    others = [line.replace("less", "equal") for line in LINES]
    assert program_of(others).digest != program_of(LINES).digest
    assert program_of(LINES[:5]).digest != program_of(LINES).digest


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("import os", "a line is"),
        ("x = open(bank.age)", "there is no operation open"),
        ("y = mul(a, later)", "no step above"),
        ("a = column(shop.debt)", "stands above already"),
        ("y = mul(a)", "takes 2 operands, not 1"),
        ("y = mul(a, a, a)", "takes 2 operands, not 3"),
        ("y = mul(a,a)", "takes 2 operands, not 1"),
        ("y = add(1, 2)", "nothing here depends on a column"),
        ("y = sum(a)", "only way to open"),
        ("open y = add(a, 1)", "only way to open"),
        ("open y = sum(3)", "what is added up is a step"),
        ("y = column(age)", "a column is named as in"),
        ("Y = add(a, 1)", "a line is"),
        ("y = add(a, 1.5)", "no step above this line, and no integer"),
        ("y = add(a, 01)", "no step above this line, and no integer"),
        ("y  = add(a, 1)", "a line is"),
        ("", "a line is"),
    ],
)
def test_a_line_that_is_none_is_refused_with_its_number(line, why):
    with pytest.raises(JobError, match=r"parameters.program: line 2") as refused:
        program_of([LINES[0], line, "open total = sum(a)"])
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("y = select(a, a, d)", "select takes a bit first"),
        ("y = floor_shift(a, d)", "a plain integer from 1 to 60"),
        ("y = low_bits(a, 0)", "a plain integer from 1 to 60"),
        ("y = mul(a, 1000000000000000000)", "more than 61 bits"),
    ],
)
def test_a_step_without_a_range_is_refused_with_its_line(line, why):
    program = program_of([*LINES[:2], line, "open total = sum(y)"])
    with pytest.raises(JobError, match=r"line 3") as refused:
        ranges_of(program, BOUNDS, t=1)
    assert why in str(refused.value)


def test_a_column_that_the_job_does_not_bring_is_refused():
    with pytest.raises(JobError, match=r"brings no column shop\.debt"):
        ranges_of(program_of(LINES), {"bank.age": (0, 1)}, t=1)


def test_programs_that_open_nothing_or_are_too_long_are_refused():
    for lines, why in (
        (LINES[:4], "nothing is opened"),
        ([], "1 to 1000 lines"),
        ([LINES[0]] + [f"x{i} = add(a, {i})" for i in range(MAX_STEPS)], "1 to 1000 lines"),
        ([LINES[0]] + [f"open x{i} = sum(a)" for i in range(201)], "201 sums are opened"),
        ([LINES[0]] + [LINES[1]] * 1_000_000, "1 to 1000 lines, not 1000001"),
    ):
        with pytest.raises(JobError, match=why):
            program_of(lines)
    assert MAX_MASKED == MAX_STEPS


@pytest.mark.parametrize("operation", RANGES)
def test_no_value_leaves_the_range_of_its_operation(operation):
    """Over all values of all small ranges of the operands."""
    ends = [(-2, -1), (-1, 2), (0, 1), (0, 3), (2, 3)]
    seconds = [(k, k) for k in (1, 2, 3)] if operation in ("low_bits", "floor_shift") else ends
    for one, other in itertools.product(ends, seconds):
        operands = [(0, 1), one, other] if operation == "select" else [one, other]
        low, high = RANGES[operation](*operands)
        for values in itertools.product(*(range(a, b + 1) for a, b in operands)):
            got = int(OPERATIONS[operation](*(np.array([v], dtype=object) for v in values))[0])
            assert low <= got <= high


def test_a_square_is_not_below_zero():
    lines = [LINES[0], "s = mul(a, a)", "open total = sum(s)"]
    assert ranges_of(program_of(lines), BOUNDS, t=1)["s"] == (0, 9)
    for bounds, expected in (((-5, -2), (4, 25)), ((2, 3), (4, 9)), ((0, 0), (0, 0))):
        assert ranges_of(program_of(lines), {"bank.age": bounds}, t=1)["s"] == expected


def test_one_record_moves_the_sums_by_no_more_than_is_stated():
    """Over all rows of a small domain: added, removed, replaced."""
    program = program_of([*LINES, "gap = sub(a, d)", "open gap = sum(gap)"])
    ranges = ranges_of(program, BOUNDS, t=1)
    opened = [ranges[str(step.operands[0])] for step in program.opened]
    weights = weights_of(opened)

    def of(age, debt):
        poor = int(debt < 3)
        return np.array([age * poor, poor, age - debt]) * weights

    rows = list(itertools.product(range(-2, 4), range(6)))
    stated = sensitivities(opened, weights, (None,) * len(opened))
    moves = {
        "coordinator": [of(*row) for row in rows],
        "coalition": [of(*one) - of(*other) for one, other in itertools.product(rows, rows)],
    }
    for view, each in moves.items():
        assert max(int(np.abs(move).sum()) for move in each) <= stated[view].l1
        assert max(int((move**2).sum()) for move in each) <= stated[view].squared_l2


def test_weights_bring_small_sums_near_the_largest():
    assert weights_of([(0, 1), (-2, 3), (0, 100)]) == (100, 33, 1)
