"""Settings of all tests: none depends on the speed of the machine, and none leaves a process."""

import asyncio
import fnmatch
import os
import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import own_processes
import pytest
from hypothesis import HealthCheck, settings
from virtual_time import VirtualTimeLoop

settings.register_profile("any-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-machine")

for library in ("OPENBLAS", "OMP", "MKL"):  # before NumPy is imported; children inherit it
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

TESTS = Path(__file__).parent
REAL_SOCKETS = (TESTS / "services", TESTS / "compose")
"""Where asynchronous tests need the machine's clock. Elsewhere time stands still while anybody can go on."""

RUN = own_processes.mark_this_run()


def pytest_asyncio_loop_factories(item: pytest.Item) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    if item.get_closest_marker("real_time") or any(folder in item.path.parents for folder in REAL_SOCKETS):
        return {"real time": asyncio.new_event_loop}
    return {"virtual time": VirtualTimeLoop}


SLOW_CASES = {case["test"]: case for case in tomllib.loads((TESTS / "slow_cases.toml").read_text())["cases"]}


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the cases of `slow_cases.toml`."""
    test, parameters = _case_of(item)
    case = SLOW_CASES.get(test)
    if case is not None and _fits(parameters, case.get("slow", case.get("quick", ()))) == ("slow" in case):
        item.add_marker(pytest.mark.slow)


@pytest.hookimpl(tryfirst=True)  # before any are deselected
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse a name in `slow_cases.toml` that fits no case, where all cases of its file were collected."""
    if any("::" in argument for argument in config.args):
        return
    found: dict[str, list[str]] = {}
    for item in items:
        test, parameters = _case_of(item)
        found.setdefault(test, []).append(parameters)
    files = {test.partition("::")[0] for test in found}
    for test, case in SLOW_CASES.items():
        if test.partition("::")[0] not in files:
            continue
        for name in case.get("slow", case.get("quick", ())):
            if not any(_fits(parameters, [name]) for parameters in found.get(test, ())):
                raise pytest.UsageError(f"slow_cases.toml: {name!r} fits no case of {test}")
        if test not in found:
            raise pytest.UsageError(f"slow_cases.toml: there is no {test}")


def _case_of(item: pytest.Item) -> tuple[str, str]:
    test, _, parameters = item.name.partition("[")
    return f"{item.path.relative_to(TESTS).as_posix()}::{test}", parameters.removesuffix("]")


def _fits(parameters: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(parameters, pattern) for pattern in patterns)


@pytest.fixture(autouse=True, scope="module")
def no_process_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Set up first and torn down last: what a file's own fixtures start has been ended by then."""
    yield
    left = own_processes.left_by_tests(RUN)
    own_processes.kill(left)
    assert not left, f"{request.node.nodeid} has left processes, which were killed: {left}"
