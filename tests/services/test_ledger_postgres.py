"""The ledger in PostgreSQL: the same promises as in SQLite."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from ledgers import budget, event, reserve

from dp.cost.composition import composed_epsilon
from ledger.books import BudgetExhaustedError
from ledger.entry import LedgerDamagedError, LedgerError
from ledger.ledger import open_ledger


def ledger_at(url, folder, holder="here"):
    return open_ledger("north", path=folder / "unused", url=url, counter=folder / "counter", holder=holder)


@pytest.fixture
def ledger(url, tmp_path):
    ledger = ledger_at(url, tmp_path)
    ledger.set_budget("visits", budget(1.0), "first")
    yield ledger
    ledger.close()


def execute(url, statement, *, without_triggers=False):
    import psycopg

    with psycopg.connect(url) as database:
        if without_triggers:
            database.execute("DROP TRIGGER entries_stay ON entries")
        database.execute(statement)


def test_jobs_are_reserved_committed_and_there_after_another_start(ledger, url, tmp_path):
    reserve(ledger, "job-1")
    ledger.commit("job-1")
    reserve(ledger, "job-2")
    again = ledger_at(url, tmp_path)
    assert again.release_leftovers("stopped") == ["job-2"]
    assert again.balance("visits").spent == pytest.approx(composed_epsilon(event(), 1e-6).epsilon)
    again.verify()
    again.close()
    assert not (tmp_path / "unused").exists()


def test_the_database_refuses_to_change_or_delete_entries(ledger, url):
    import psycopg

    for statement in ("UPDATE entries SET text = ''", "DELETE FROM entries", "TRUNCATE entries"):
        with pytest.raises(psycopg.errors.RaiseException, match="never changed or deleted"):
            execute(url, statement)


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE entries SET text = replace(text, '1.0', '9.0') WHERE sequence = 1", "edited"),
        ("DELETE FROM entries WHERE sequence = 3", "truncated or restored"),
    ],
)
def test_edits_and_old_copies_are_found(ledger, url, tmp_path, statement, words):
    reserve(ledger, "job-1")
    ledger.commit("job-1")
    execute(url, statement, without_triggers=True)
    with pytest.raises(LedgerDamagedError, match=words):
        ledger_at(url, tmp_path)


def test_a_connection_that_breaks_fails_one_operation_and_the_next_one_works(ledger, url):
    reserve(ledger, "job-1", 0.001)
    execute(url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
    with pytest.raises(LedgerError, match="PostgreSQL database cannot be used"):
        ledger.commit("job-1")
    ledger.commit("job-1")
    assert ledger.balance("visits").n_committed == 1


def test_two_ledgers_on_one_database_together_spend_no_more_than_there_is(ledger, url, tmp_path):
    granted, lock = [], threading.Lock()

    def spend(name):
        own = ledger_at(url, tmp_path, name)
        for i in range(40):
            try:
                reserve(own, f"{name}-{i}", 0.004)
            except BudgetExhaustedError:
                break
            own.commit(f"{name}-{i}")
            with lock:
                granted.append(i)
        own.close()

    threads = [threading.Thread(target=spend, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    balance = ledger.balance("visits")
    assert balance.n_committed == len(granted)
    assert balance.spent <= 1.0 < composed_epsilon([event(0.004)] * (len(granted) + 1), 1e-6).epsilon


CHILD = """
import os, sys
from pathlib import Path
from ledgers import reserve
from ledger.ledger import open_ledger
folder = Path(sys.argv[2])
ledger = open_ledger("north", path=folder / "unused", url=sys.argv[1], counter=folder / "counter", holder="here")
ledger.release_leftovers("restart")
print("ready", flush=True)
for i in range(10**6):
    name = f"{os.getpid()}-{i}"
    reserve(ledger, name, 1e-7)
    ledger.commit(name)
    print(name, flush=True)
"""


def test_a_party_killed_in_a_loop_has_paid_for_everything_that_it_opened(ledger, url, tmp_path):
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([*filter(None, sys.path), str(Path(__file__).parent)])}
    opened = []
    for turn in range(4):
        command = [sys.executable, "-c", CHILD, url, str(tmp_path)]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ)
        try:
            assert child.stdout.readline() == "ready\n"
            for _ in range(5 * turn + 1):  # killed after so many jobs, while it opens more
                opened += child.stdout.readline().split()
        finally:
            child.kill()
            opened += child.stdout.read().split()
            child.wait()
    ledger.verify()
    assert opened
    assert {ledger.charge(job_id).state for job_id in opened} == {"committed"}
