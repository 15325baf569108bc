"""A device killed with SIGKILL at the steps of a series of rounds: no vector leaves unpaid, and it goes on then."""

import signal
from collections import Counter

import pytest
from child_processes import child_process, end_of
from factor_children import ROUNDS, factor_device_in, go_through, go_through_and_die_at

from ledger.books import JobState

K = 2
"""Vectors that a device of the form sgd pays for, of three."""


def charges(folder):
    """Round to how many of its charges were committed; and how many reservations are left after a start."""
    with factor_device_in(folder) as device:
        books = device.budget._ledger._chain.submit(lambda books, append: dict(books.charges))
    committed = Counter(
        name.split(":")[2].split("-")[0] for name, charge in books.items() if charge.state is JobState.COMMITTED
    )
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


@pytest.mark.parametrize(
    "steps",
    [pytest.param((420,), id="one"), pytest.param(range(0, 10**6, 75), id="many", marks=pytest.mark.slow)],
)
def test_a_device_killed_at_any_step_throws_no_coin_twice_and_has_paid_for_what_left(tmp_path, steps):
    outcomes = set()
    for step in steps:
        folder = tmp_path / str(step)
        folder.mkdir()
        with child_process(go_through_and_die_at, step, folder, "sgd") as child:
            exit_code = end_of(child)
        assert exit_code in (0, -signal.SIGKILL)
        n_sent = len((folder / "sent").read_text().splitlines()) if (folder / "sent").exists() else 0
        committed, reserved = charges(folder)
        assert reserved == 0
        assert min(n_sent, K) <= sum(committed.values()) <= min(n_sent + 1, K)
        outcomes.add(n_sent)
        go_through(folder, "sgd")
        sent = [line.split() for line in (folder / "sent").read_text().splitlines()]
        assert [int(number) for number, _, _ in sent] == list(range(ROUNDS))
        coins = [int(coin) for _, coin, _ in sent]
        assert coins == sorted(set(coins))
        assert coins[-1] <= ROUNDS  # of at most one coin the vector did not leave
        assert len({key for _, _, key in sent}) == 1
        # K charges at least, whichever coins were thrown; one more where it was killed between charge and coin.
        committed, _ = charges(folder)
        assert set(committed) == {str(coin) for coin in range(K)}
        assert K <= sum(committed.values()) <= K + 1
        if exit_code == 0:
            break
    assert len(steps) == 1 or {0, ROUNDS} <= outcomes
