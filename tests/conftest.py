"""Settings of all tests: none depends on the speed of the machine, and none leaves a process."""

import os
from collections.abc import Iterator

import own_processes
import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("any-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-machine")

for library in ("OPENBLAS", "OMP", "MKL"):  # before NumPy is imported; children inherit it
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

RUN = own_processes.mark_this_run()


@pytest.fixture(autouse=True, scope="module")
def no_process_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Set up first and torn down last: what a file's own fixtures start has been ended by then."""
    yield
    left = own_processes.left_by_tests(RUN)
    own_processes.kill(left)
    assert not left, f"{request.node.nodeid} has left processes, which were killed: {left}"
