from collections.abc import Iterator
from pathlib import Path

import pytest
from deadlines import GENEROUS_S

from coordinator import final_messages, proposal
from transport.calls import coordinator_client

KERNELS = Path(__file__).parents[2] / "build" / "kernels"
"""Libraries of kernels that `make` has compiled, as an image has them."""


@pytest.fixture(autouse=True, scope="module")
def services_load_no_compiler() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if KERNELS.is_dir():
            patch.setenv("LD_LIBRARY_PATH", str(KERNELS))
        yield


@pytest.fixture(autouse=True)
def patient_services(monkeypatch: pytest.MonkeyPatch) -> None:
    """Services in the test's own process have as long as a slow machine takes for what comes."""
    monkeypatch.setattr(proposal, "REACH_S", GENEROUS_S)
    monkeypatch.setattr(final_messages, "CANCEL_S", GENEROUS_S)
    monkeypatch.setattr(coordinator_client, "CALL_TIMEOUT_S", GENEROUS_S)
