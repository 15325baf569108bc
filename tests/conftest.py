"""Settings of all tests: none depends on the speed of the machine, and none leaves a process."""

import asyncio
import os
from collections.abc import Callable, Iterator
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


@pytest.fixture(autouse=True, scope="module")
def no_process_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Set up first and torn down last: what a file's own fixtures start has been ended by then."""
    yield
    left = own_processes.left_by_tests(RUN)
    own_processes.kill(left)
    assert not left, f"{request.node.nodeid} has left processes, which were killed: {left}"
