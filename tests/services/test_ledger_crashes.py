"""A party killed with SIGKILL, again and again, at every point: its ledger counts at least what it opened.

The child reserves, commits and then "opens": it writes the job's name to a file, as a service would send its share.
"""

import multiprocessing
import os
import random
import signal
import sqlite3
import time

import pytest
from ledgers import budget, event, ledger_in, reserve

from dp.accounting import epsilon
from party import ledger as ledger_module
from party.books import BudgetExhaustedError

FORK = multiprocessing.get_context("fork")
COST = 0.001


def open_results(folder, first, count):
    """Take jobs from reservation to opening until the budget is spent."""
    ledger = ledger_in(folder)
    ledger.release_leftovers("the service was stopped before anything was opened")
    with (folder / "opened").open("a") as opened:
        for i in range(first, first + count):
            try:
                reserve(ledger, f"job-{i}", COST)
            except BudgetExhaustedError:
                return
            ledger.commit(f"job-{i}")
            opened.write(f"job-{i}\n")
            opened.flush()
            os.fsync(opened.fileno())


def check(folder):
    """The chain is whole, every opened job is paid, nobody overspent. Returns the numbers of opened and paid jobs."""
    ledger = ledger_in(folder)
    ledger.verify()
    opened = (folder / "opened").read_text().split() if (folder / "opened").exists() else []
    assert len(set(opened)) == len(opened)
    states = {job_id: ledger.charge(job_id).state for job_id in opened}
    assert set(states.values()) <= {"committed"}
    balance = ledger.balance("visits")
    assert balance.held <= balance.budget.epsilon
    if opened:
        assert epsilon([event(COST)] * len(opened), 1e-6).epsilon <= balance.spent * (1 + 1e-9)
    ledger.close()
    return len(opened), balance.n_committed


@pytest.fixture
def folder(tmp_path):
    ledger = ledger_in(tmp_path)
    ledger.set_budget("visits", budget(1.0), "first")
    ledger.close()
    return tmp_path


def test_a_party_killed_in_a_loop_never_opens_what_it_did_not_pay_and_spends_its_budget_to_the_end(folder):
    chance = random.Random(20261121)
    for turn in range(40):
        child = FORK.Process(target=open_results, args=(folder, 1000 * turn, 1000))
        child.start()
        time.sleep(chance.uniform(0.0, 0.12))
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        opened, paid = check(folder)
        assert opened <= paid <= opened + turn + 1  # a crash loses at most the job that it hit
    child = FORK.Process(target=open_results, args=(folder, 10**6, 1000))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    _, paid = check(folder)
    assert epsilon([event(COST)] * (paid + 1), 1e-6).epsilon > 1.0


def die_at(step, folder):
    """Run one job and die at the given step of everything that reaches the disk."""
    steps = iter(range(10**9))

    def maybe_die(*ignored):
        if next(steps) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    def dying(function):
        def wrapped(*args):
            maybe_die()
            result = function(*args)
            maybe_die()
            return result

        return wrapped

    connect = sqlite3.connect

    def connect_to_die(*args, **kwargs):
        connection = connect(*args, **kwargs)
        connection.set_progress_handler(maybe_die, 8)  # every eighth instruction of SQLite's machine
        connection.set_trace_callback(maybe_die)
        return connection

    for name in ("pwrite", "fdatasync", "fsync"):
        setattr(os, name, dying(getattr(os, name)))
    sqlite3.connect = connect_to_die
    ledger_module.Ledger._write = dying(ledger_module.Ledger._write)
    open_results(folder, 0, 1)


def test_a_crash_at_every_single_point_leaves_a_ledger_that_serves_on(tmp_path):
    outcomes = set()
    for step in range(10**6):
        folder = tmp_path / str(step)
        folder.mkdir()
        ledger = ledger_in(folder)
        ledger.set_budget("visits", budget(1.0), "first")
        ledger.close()
        child = FORK.Process(target=die_at, args=(step, folder))
        child.start()
        child.join(60)
        opened, paid = check(folder)
        assert opened <= paid <= 1
        outcomes.add((opened, paid))
        again = ledger_in(folder)
        again.release_leftovers("restart")
        assert again.balance("visits").n_reserved == 0
        reserve(again, "another", COST)
        again.commit("another")
        again.close()
        if child.exitcode == 0:
            break
    assert step > 20
    assert outcomes == {(0, 0), (0, 1), (1, 1)}
