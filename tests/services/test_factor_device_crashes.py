"""A device killed with SIGKILL at the steps of a series of rounds: no vector leaves unpaid, and it goes on then."""

import signal
from collections import Counter

import pytest
from child_processes import child_process, end_of
from factor_children import ROUNDS, factor_device_in, go_through, go_through_and_die_at

from party.ledger.books import JobState


def charges(folder):
    """Round to how many of its charges were committed; and how many reservations are left after a start."""
    with factor_device_in(folder) as device:
        books = device.budget._ledger._chain.submit(lambda books, append: dict(books.charges))
    committed = Counter(name.split("-")[2] for name, charge in books.items() if charge.state is JobState.COMMITTED)
    return committed, sum(charge.state is JobState.RESERVED for charge in books.values())


@pytest.mark.parametrize(
    "steps",
    [pytest.param((300,), id="one"), pytest.param(range(0, 10**6, 75), id="many", marks=pytest.mark.slow)],
)
def test_a_device_killed_at_any_step_has_paid_for_what_left_and_goes_on_with_the_rest(tmp_path, steps):
    outcomes = set()
    for step in steps:
        folder = tmp_path / str(step)
        folder.mkdir()
        with child_process(go_through_and_die_at, step, folder) as child:
            exit_code = end_of(child)
        assert exit_code in (0, -signal.SIGKILL)
        sent = (folder / "sent").read_text().split() if (folder / "sent").exists() else []
        committed, reserved = charges(folder)
        assert reserved == 0  # given back at the start
        assert all(committed[number] == 1 for number in sent)
        assert sum(committed.values()) - len(sent) in (0, 1)  # killed between the commit and the vector
        outcomes.add(len(sent))
        go_through(folder)
        committed, _ = charges(folder)
        assert set(committed) == {str(number) for number in range(ROUNDS)}
        assert sum(committed.values()) - ROUNDS in (0, 1)
        if exit_code == 0:
            break
    assert len(steps) == 1 or {0, ROUNDS} <= outcomes
