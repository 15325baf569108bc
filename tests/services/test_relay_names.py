"""Relays by names: name servers that answer late, fail for a while, or give another address after a move."""

import socket
import time

import pytest
from deadlines import until
from relayed import Relayed, call, reach

from service.reach.addresses import split_address
from service.reach.relays import RelayPoint


class Names:
    """A name server of the test, in the place of the system's.

    Attributes:
        hosts: name to address; None where it does not know the name now.
        late_s: name to the seconds before it answers.
        asked: names asked for so far.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.hosts: dict[str, str | None] = {}
        self.late_s: dict[str, float] = {}
        self.asked: list[str] = []
        self._system = socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", self._answer)

    def _answer(self, host, *arguments, **options):
        if host not in self.hosts:
            return self._system(host, *arguments, **options)
        self.asked.append(host)
        time.sleep(self.late_s.get(host, 0.0))  # as the system's call does, in the caller's thread
        if (address := self.hosts[host]) is None:
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return self._system(address, *arguments, **options)


@pytest.fixture
def names(monkeypatch):
    return Names(monkeypatch)


def named(relay, host):
    return RelayPoint(relay.identity, f"{host}:{split_address(relay.address)[1]}")


async def test_a_name_that_is_answered_late_holds_up_no_other_relay_and_is_used_then(tmp_path, names):
    names.hosts, names.late_s = {"north.example": "127.0.0.1"}, {"north.example": 1.0}
    async with Relayed(tmp_path) as federation:
        north, at_north = await federation.relay("north")
        south, at_south = await federation.relay("south")
        late = named(at_north, "north.example")
        bank, stay = await federation.party("bank", late, at_south, is_awaited=False)
        await until(lambda: stay.connected[at_south])
        assert not stay.connected[late]
        clinic = federation.issue_to(bank.identity.role, "clinic")
        await reach(federation.channel(clinic, bank.identity, at_south), bank.identity, at_south)
        await until(lambda: stay.connected[late])
        await reach(federation.channel(clinic, bank.identity, late), bank.identity, late)
        assert north.ways.present
        assert south.ways.present


async def test_a_name_that_cannot_be_resolved_for_a_while_is_asked_for_again(tmp_path, names):
    names.hosts = {"north.example": None}
    async with Relayed(tmp_path) as federation:
        hub, relay = await federation.relay()
        point = named(relay, "north.example")
        bank, stay = await federation.party("bank", point, is_awaited=False)
        await until(lambda: len(names.asked) > 1)
        assert not hub.stays
        names.hosts = {"north.example": "127.0.0.1"}
        await until(lambda: stay.connected[point])
        clinic = federation.issue_to(bank.identity.role, "clinic")
        await reach(federation.channel(clinic, bank.identity, point), bank.identity, point)


async def test_a_relay_that_has_moved_is_found_at_its_new_address_over_channels_that_stand(tmp_path, names):
    names.hosts = {"north.example": "127.0.0.1"}
    async with Relayed(tmp_path) as federation:
        before, relay = await federation.relay()
        point = named(relay, "north.example")
        bank, stay = await federation.party("bank", point)
        channel = federation.channel(federation.issue_to(bank.identity.role, "clinic"), bank.identity, point)
        await reach(channel, bank.identity, point)
        await before.stop()
        await until(lambda: not stay.connected[point])
        federation.host = "127.0.0.2"
        after, _ = await federation.relay("north", port=split_address(relay.address)[1])
        names.hosts = {"north.example": "127.0.0.2"}
        await until(lambda: stay.connected[point])
        await reach(channel, bank.identity, point)
        await call(channel, bank.identity)
        assert after.ways.present
