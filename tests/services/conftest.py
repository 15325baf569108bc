import pytest
from deadlines import GENEROUS_S

from coordinator import final_messages, proposal
from transport.calls import coordinator_client


@pytest.fixture(autouse=True)
def patient_services(monkeypatch: pytest.MonkeyPatch) -> None:
    """Services in the test's own process have as long as a slow machine takes for what comes."""
    monkeypatch.setattr(proposal, "REACH_S", GENEROUS_S)
    monkeypatch.setattr(final_messages, "CANCEL_S", GENEROUS_S)
    monkeypatch.setattr(coordinator_client, "CALL_TIMEOUT_S", GENEROUS_S)
