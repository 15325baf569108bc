"""Runs tests in forks of a process that has imported the libraries already, and none of our modules.

A start of Python with all libraries takes several processor seconds, more than most of our tests. The libraries are
loaded once; each run then imports our modules anew, from the tree that is tested. No library that is loaded here starts
threads at import: BLAS is held to one, and gRPC and polars, which do, are left to the runs.
"""

import contextlib
import importlib
import os
import resource
import signal
import sys
import time
from enum import StrEnum
from pathlib import Path

LIMIT_PROCESSOR_S = 120
"""Processor time of a run: a change that makes its tests loop ends by it, however busy the machine is."""

LIMIT_S = 1800.0
"""Time of a run whose processes wait for each other."""

LIBRARIES = (
    *("pytest", "_pytest.assertion.rewrite", "pytest_asyncio.plugin", "hypothesis", "hypothesis.extra.numpy"),
    *("_hypothesis_pytestplugin", "numpy", "numba", "scipy.stats", "scipy.special", "mpmath", "attr", "pydantic"),
    *("dp_accounting", "structlog", "cryptography.hazmat.primitives.ciphers", "cryptography.x509"),
)


class Outcome(StrEnum):
    """What became of a change."""

    FAILED = "failed"
    """A test failed."""

    BROKEN = "broken"
    """The tests could not even be collected, or Python ended: importing the module fails."""

    ENDLESS = "endless"
    """The tests ran into a limit."""

    UNNOTICED = "unnoticed"


def warm_up() -> None:
    """Import the libraries."""
    for library in ("OPENBLAS", "OMP", "MKL"):
        os.environ[f"{library}_NUM_THREADS"] = "1"
    for library in LIBRARIES:
        importlib.import_module(library)


def run_tests(root: Path, test: str, *, keeps_bytecode: bool = False) -> Outcome:
    """Run a test file of a tree until the first failure.

    Args:
        root: of the tree.
        test: the file, relative.
        keeps_bytecode: whether compiled modules may be written: not while a module is changed.
    """
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        _become_a_run(root, test, keeps_bytecode)
    status = _wait(child)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # what the tests have left
    if status is None or (os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL)):
        return Outcome.ENDLESS
    if os.WIFSIGNALED(status):
        return Outcome.BROKEN
    return {0: Outcome.UNNOTICED, 1: Outcome.FAILED}.get(os.WEXITSTATUS(status), Outcome.BROKEN)


def _become_a_run(root: Path, test: str, keeps_bytecode: bool) -> None:
    status = 3
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_PROCESSOR_S, LIMIT_PROCESSOR_S + 5))
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        os.chdir(root)
        sys.dont_write_bytecode = not keeps_bytecode
        if not keeps_bytecode:
            os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        sys.path[0] = str(root)
        import pytest

        options = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not slow and not compose"]
        status = int(pytest.main([*options, "--rootdir", str(root), test]))
    finally:
        os._exit(status)


def _wait(child: int) -> int | None:
    deadline_s = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline_s:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None
