"""A party killed with SIGKILL, again and again, at every point: its ledger counts at least what it opened.

The child reserves, commits and then "opens": it writes the job's name to a file, as a service would send its share.
"""

import os
import random
import signal

import pytest
from child_processes import PROCESSES, child_process, end_of
from ledger_children import COST, REPORT, die_at, open_and_report, open_results
from ledgers import budget, event, ledger_in, reserve

from dp.cost.composition import composed_epsilon
from dp.cost.events.record import rdp_of
from dp.cost.renyi_filter import RenyiFilter

MAX_STEPS = 150
"""A child is killed after fewer steps: 28 until its first job, and 40 for each."""


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
        assert composed_epsilon([event(COST)] * len(opened), 1e-6).epsilon <= balance.spent * (1 + 1e-9)
    ledger.close()
    return len(opened), balance.n_committed


@pytest.fixture
def folder(tmp_path):
    ledger = ledger_in(tmp_path)
    ledger.set_budget("visits", budget(1.0), "first")
    ledger.close()
    return tmp_path


def read_steps(pipe, n_steps):
    """Wait until a child has made so many steps, or has ended; return how many it made."""
    n_bytes = 0
    while n_bytes < n_steps * len(REPORT):
        got = len(os.read(pipe.fileno(), n_steps * len(REPORT) - n_bytes))
        if got == 0:
            break
        n_bytes += got
    return n_bytes // len(REPORT)


def test_a_party_killed_in_a_loop_never_opens_what_it_did_not_pay_and_spends_its_budget_to_the_end(folder):
    chance = random.Random(20261121)
    for turn in range(40):
        n_steps = chance.randrange(MAX_STEPS)
        pipe, childs_end = PROCESSES.Pipe(duplex=False)
        with pipe, child_process(open_and_report, folder, 1000 * turn, 1000, childs_end):
            childs_end.close()
            assert read_steps(pipe, n_steps) == n_steps  # it had work left when it was killed
        opened, paid = check(folder)
        assert opened <= paid <= opened + turn + 1  # a crash loses at most the job that it hit
    with child_process(open_results, folder, 10**6, 1000) as child:
        assert end_of(child) == 0
    _, paid = check(folder)
    admits = RenyiFilter.of_budget(1.0, 1e-6)
    assert admits.covers(paid * rdp_of(event(COST)), paid)
    assert not admits.covers((paid + 1) * rdp_of(event(COST)), paid + 1)


def test_a_crash_at_every_single_point_leaves_a_ledger_that_serves_on(tmp_path):
    outcomes = set()
    for step in range(10**6):
        folder = tmp_path / str(step)
        folder.mkdir()
        ledger = ledger_in(folder)
        ledger.set_budget("visits", budget(1.0), "first")
        ledger.close()
        with child_process(die_at, step, folder) as child:
            exit_code = end_of(child)
        assert exit_code in (0, -signal.SIGKILL)
        opened, paid = check(folder)
        assert opened <= paid <= 1
        outcomes.add((opened, paid))
        again = ledger_in(folder)
        again.release_leftovers("restart")
        assert again.balance("visits").n_reserved == 0
        reserve(again, "another", COST)
        again.commit("another")
        again.close()
        if exit_code == 0:
            break
    assert step > 20
    assert outcomes == {(0, 0), (0, 1), (1, 1)}
