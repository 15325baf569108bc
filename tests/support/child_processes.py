"""Python programs and functions that tests run in processes of their own.

Functions run in children of a fork server, a process that has never had a thread: a child that is forked from a process
with threads of gRPC or of BLAS may wait for ever for a lock that a thread held.
"""

import ctypes
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from typing import Any

PROCESSES = multiprocessing.get_context("forkserver")
"""Locks, pipes and barriers between a test and its children come from here."""

PRELOADED = [
    "pytest",
    "shaken_tasks",
    "child_processes",
    "commands",
    "ledger_children",
    "answering_children",
    "survey_store_children",
    "mesh_processes",
    "forked_services",
    "imported_to_stay",
]
"""Imported once, by the fork server, and not again by every child."""

END_S = 300.0
"""Limit for a child that ends by itself; a machine that does much else takes its time."""

DIE_WITH_THE_PARENT = 1  # PR_SET_PDEATHSIG of prctl(2)


def child_environ() -> dict[str, str]:
    """The environment in which a Python program finds all that this process can import."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


@contextmanager
def child_process(function: Callable[..., None], *args: Any) -> Iterator[BaseProcess]:
    """Run a function of an importable module in a process; kill it and wait for its end, whatever happens."""
    start_the_fork_server()
    child = PROCESSES.Process(target=run_child, args=(function, args))
    child.start()
    try:
        yield child
    finally:
        child.kill()
        child.join()
        child.close()


def end_of(child: BaseProcess) -> int:
    """Wait until a child has ended by itself or by a signal that it sent to itself; return its exit code."""
    child.join(END_S)
    assert child.exitcode is not None, f"the child {child.name} has not ended within {END_S:g} s"
    return child.exitcode


def sleep_for_ever() -> None:
    """A child that does not end by itself."""
    while True:
        signal.pause()


def tell_about_the_parent(pipe: Any) -> None:
    """Send process id and number of threads of the process that forked this one, and the modules that it had."""
    parent = os.getppid()
    pipe.send((parent, len(os.listdir(f"/proc/{parent}/task")), list(sys.modules)))


def run_child(function: Callable[..., None], args: tuple[Any, ...]) -> None:
    if sys.platform == "linux":  # also where the test's process is killed, and the fork server ends with it
        ctypes.CDLL(None).prctl(DIE_WITH_THE_PARENT, signal.SIGKILL)
    function(*args)


def start_the_fork_server() -> None:
    """Start it with our search path, without which Python 3.11 leaves out silently what it shall import first."""
    forkserver.set_forkserver_preload(PRELOADED)
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = child_environ()["PYTHONPATH"]
    try:
        forkserver.ensure_running()
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
