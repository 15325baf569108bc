"""Random programs on shares against Python's integers and fractions, in rosters of 3 to 9 parties with every t.

`python -m bench.circuits.random_programs` runs as many as asked, in one process or over gRPC.
"""

import pytest

from bench.circuits import random_programs
from bench.circuits.random_programs_member import N_STEPS, OPERATIONS, ROSTERS, WrongResultError, counts_of, roster_of


@pytest.mark.parametrize("seed", range(3))
def test_a_random_program_gives_what_python_says(seed):
    random_programs.run_here(seed)


@pytest.mark.slow
def test_many_random_programs_give_what_python_says():
    report = random_programs.measure(3, 28, "process")
    assert report["agree"] == 28
    assert sum(report["by_roster"].values()) == 28


@pytest.mark.slow
def test_random_programs_over_grpc_give_what_python_says():
    assert random_programs.measure(0, 5, "grpc")["agree"] == 5


def test_every_roster_and_every_operation_is_drawn():
    assert {roster_of(seed) for seed in range(400)} == set(ROSTERS)
    counts = counts_of(range(200))
    assert min(counts.values()) > 5
    assert sum(counts.values()) == 200 * N_STEPS


@pytest.mark.parametrize("name", ["floor_shift", "truncate"])
def test_a_step_that_comes_to_something_else_is_found(name, monkeypatch):
    """By one where it is exact; by as much as it is off by less else."""
    exact = OPERATIONS[name].exact
    wrong = lambda x, y: exact(x, y) + OPERATIONS[name].slip(1) * 2 + 1  # noqa: E731
    monkeypatch.setitem(
        OPERATIONS, name, type(OPERATIONS[name])(OPERATIONS[name].call, wrong, slip=OPERATIONS[name].slip)
    )
    monkeypatch.setattr("bench.circuits.random_programs_member.steps_of", lambda seed: [(name, 0, 1)])
    with pytest.raises(WrongResultError, match=f"program 0, .* {name} is off by"):
        random_programs.run_here(0)
