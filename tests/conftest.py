"""Settings of all tests: none depends on the speed of the machine, and none leaves a process."""

import asyncio
import gc
import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import own_processes
import pytest
import shaken_tasks  # noqa: F401 - which shakes where it is asked to
import structlog
from hypothesis import HealthCheck, settings
from long_tests import SLOW_FILES, dealt, place
from postgres import schema_of_its_own, throwaway_cluster
from slow_cases import MISFITS, SLOW_CASES, TESTS, fits
from virtual_time import VirtualTimeLoop

settings.register_profile("any-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-machine")

for library in ("OPENBLAS", "OMP", "MKL"):  # before NumPy is imported; children inherit it
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

gc.disable()  # until all tests are collected
structlog.dev.ConsoleRenderer.get_active().exception_formatter = structlog.dev.plain_traceback
"""Of services that a test runs in its own process, where the default draws the local variables of every frame."""

COLLECT_AFTER = 20_000
"""So many new objects begin a collection of the youngest ones: few of ours are in circles."""

REAL_SOCKETS = (TESTS / "services", TESTS / "compose")
"""Where asynchronous tests need the machine's clock. Elsewhere time stands still while anybody can go on."""

READERS_FORKED = (TESTS / "unit", TESTS / "security", TESTS / "services")
"""Where readers of tables' files are forked (`forked_readers.py`)."""

RUN = own_processes.mark_this_run()


def pytest_asyncio_loop_factories(item: pytest.Item) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    if item.get_closest_marker("real_time") or any(folder in item.path.parents for folder in REAL_SOCKETS):
        return {"real time": asyncio.new_event_loop}
    return {"virtual time": VirtualTimeLoop}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out tests of containers where they are not asked for, and files without slow tests where only these are."""
    if collection_path == TESTS / "compose" and "not compose" in config.option.markexpr:
        return True
    if not config.option.markexpr.startswith("slow and") or collection_path.suffix != ".py":
        return None
    has_slow_cases = any(test.startswith(f"{_name_of(collection_path)}::") for test in SLOW_CASES)
    return None if has_slow_cases or "mark.slow" in collection_path.read_text(encoding="utf-8") else True


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the cases of `slow_cases.toml`."""
    test, parameters = _case_of(item)
    case = SLOW_CASES.get(test)
    if case is not None and fits(parameters, case.get("slow", case.get("quick", ()))) == ("slow" in case):
        item.add_marker(pytest.mark.slow)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Leave the modules and collected tests, millions of objects, out of what the garbage collector looks through."""
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER, 10, 20)
    gc.enable()


@pytest.hookimpl(wrapper=True, tryfirst=True)  # around the one that deselects
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Put long files first; note the names in `slow_cases.toml` that fit no case of a file that was collected whole."""
    if not any("::" in argument for argument in config.args):
        items.sort(key=lambda item: place(_name_of(item.path)))  # keeps the order within a file
    _note_misfits(config, items)
    yield
    if config.option.markexpr.startswith("slow and") and hasattr(config, "workerinput"):
        n_processes = config.workerinput["workercount"]
        items[:] = dealt(items, lambda item: _name_of(item.path), n_processes, SLOW_FILES)


def _note_misfits(config: pytest.Config, items: list[pytest.Item]) -> None:
    misfits = config.stash[MISFITS] = []
    if any("::" in argument for argument in config.args):
        return
    found: dict[str, list[str]] = {}
    for item in items:
        test, parameters = _case_of(item)
        found.setdefault(test, []).append(parameters)
    files = {test.partition("::")[0] for test in found}
    for test, case in SLOW_CASES.items():
        if test.partition("::")[0] in files:
            names = case.get("slow", case.get("quick", ()))
            misfits += [f"{test}[{name}]" for name in names if not any(fits(p, [name]) for p in found.get(test, ()))]
            misfits += [test] * (test not in found)


@cache
def _name_of(file: Path) -> str:
    return file.relative_to(TESTS).as_posix()


def _case_of(item: pytest.Item) -> tuple[str, str]:
    test, _, parameters = item.name.partition("[")
    return f"{_name_of(item.path)}::{test}", parameters.removesuffix("]")


@pytest.fixture(autouse=True, scope="module")
def no_process_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Set up first and torn down last: what a file's own fixtures start has been ended by then."""
    yield
    left = own_processes.left_by_tests(RUN)
    own_processes.kill(left)
    assert not left, f"{request.node.nodeid} has left processes, which were killed: {left}"


@pytest.fixture(autouse=True, scope="module")
def readers_are_forked(request: pytest.FixtureRequest) -> Iterator[None]:
    """Readers of tables' files that tests start in their own process, and services that they fork; others start theirs
    as anywhere."""
    if any(folder in request.path.parents for folder in READERS_FORKED):
        from forked_readers import fork_readers

        from party.tables.sources import apart

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(apart, "subprocess", apart.subprocess)  # restored at the end
            fork_readers()
            yield
    else:
        yield


@pytest.fixture(scope="session")
def cluster() -> Iterator[str]:
    """The URL of a PostgreSQL server of all tests of this process; its users `keeper` and `reader` need a password."""
    with throwaway_cluster("host all keeper,reader 127.0.0.1/32 scram-sha-256\n", kept=True) as url:
        yield url


@pytest.fixture
def url(cluster: str, tmp_path: Path) -> str:
    """The URL of an empty schema on that server."""
    return schema_of_its_own(cluster, str(tmp_path))
