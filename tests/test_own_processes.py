"""The promises of the tests' own processes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from child_processes import (
    PROCESSES,
    child_environ,
    child_process,
    end_of,
    sleep_for_ever,
    tell_about_the_parent,
)
from deadlines import GENEROUS_S
from own_processes import MARK, kept, left_by_tests, marked

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's /proc")


def test_children_are_forked_from_a_process_with_one_thread():
    pipe, childs_end = PROCESSES.Pipe(duplex=False)
    with pipe, child_process(tell_about_the_parent, childs_end) as child:
        parent, n_threads, modules = pipe.recv()
        assert end_of(child) == 0
    assert parent != os.getpid()
    assert n_threads == 1
    assert {"ledger_children", "mesh_processes"} <= set(modules)  # imported by the fork server, once


def test_a_service_starts_without_the_libraries_that_take_longest_to_import():
    pipe, childs_end = PROCESSES.Pipe(duplex=False)
    with pipe, child_process(tell_about_the_parent, childs_end) as child:
        *_, modules = pipe.recv()
        assert end_of(child) == 0
    assert {"coordinator.server", "party.server"} <= set(modules)  # of `forked_services`
    slow = {"dp_accounting", "matplotlib", "polars", "scipy.optimize", "scipy.signal", "scipy.sparse", "scipy.stats"}
    assert not slow & set(modules)


def test_a_child_is_killed_and_gone_when_the_test_fails():
    pids = []

    def fail():
        with child_process(sleep_for_ever) as child:
            pids.append(child.pid)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not Path(f"/proc/{pids[0]}").exists()


SLEEP = "import time; time.sleep(10**6)"
KILLED_RUN = f"""
import os, subprocess, sys, time
from own_processes import kept_until_the_run_ends, mark_this_run
print(mark_this_run(), flush=True)
print(subprocess.Popen([sys.executable, "-c", {SLEEP!r}], start_new_session=True).pid, flush=True)
with kept_until_the_run_ends():
    print(subprocess.Popen([sys.executable, "-c", {SLEEP!r}], start_new_session=True).pid, flush=True)
time.sleep(10**6)
"""


def test_what_a_test_leaves_is_found():
    mark = "f" * 32
    process = subprocess.Popen([sys.executable, "-c", SLEEP], env={**child_environ(), MARK: mark})
    try:
        assert list(left_by_tests(mark, within_s=0.0)) == [process.pid]
    finally:
        process.kill()
        process.wait()
    assert left_by_tests(mark) == {}


def test_a_run_that_is_killed_leaves_nothing():
    run = subprocess.Popen([sys.executable, "-c", KILLED_RUN], stdout=subprocess.PIPE, text=True, env=child_environ())
    mark, pid, kept_pid = run.stdout.readline().strip(), int(run.stdout.readline()), int(run.stdout.readline())
    try:
        time.sleep(0.5)  # a watcher that acts too early has done so by then
        assert list(marked(mark)) == [pid]
        assert list(marked(kept(mark))) == [kept_pid]  # no file of tests has to end it
    finally:
        run.send_signal(signal.SIGKILL)
        run.wait()
        run.stdout.close()
    latest_s = time.monotonic() + GENEROUS_S
    while marked(mark) | marked(kept(mark)):
        assert time.monotonic() < latest_s
        time.sleep(0.05)
