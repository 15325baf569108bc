import datetime
from dataclasses import dataclass

import pytest

from service.identity import Identity, PeerCertificate, Role
from service.watch.callers import MAX_CALLERS, Callers, own_agent

END = datetime.datetime(2027, 1, 1, tzinfo=datetime.UTC)


@dataclass
class Call:
    agent: str

    def invocation_metadata(self):
        return (("user-agent", self.agent),)


def shown(role=Role.PARTY, name="bank"):
    return PeerCertificate(Identity("acme", role, name), 1, END, bytes(32), END)


@pytest.mark.parametrize(
    ("agent", "version"),
    [
        (own_agent() + " grpc-python-asyncio/1.85", own_agent().partition("/")[2]),
        ("grpc-python/1.0", ""),
        ("moiety/<script>", ""),
        ("moiety/" + "9" * 100, ""),
    ],
)
def test_the_last_call_of_a_member_is_kept_with_the_version_that_it_says(agent, version):
    seen = Callers()
    seen.note(shown(), Call("moiety/0.0.1 grpc"))
    seen.note(shown(), Call(agent))
    (one,) = seen.all()
    assert (one.identity.name, one.version, one.not_valid_after) == ("bank", version, END)


def test_devices_and_too_many_others_are_not_kept():
    seen = Callers()
    seen.note(shown(Role.DEVICE), Call(""))
    for number in range(MAX_CALLERS + 5):
        seen.note(shown(Role.ANALYST, f"a{number}"), Call(""))
    assert len(seen.all()) == MAX_CALLERS
