"""Channels to other members: whom a service does not know any more is refused by name."""

import datetime

import grpc
import pytest

from service.identity import Identity, Role
from service.pki import create_authority, issue
from service.tls import load_credentials
from transport.calls import peers
from transport.calls.peers import NoWayError, PeerChannels


@pytest.fixture
def credentials(tmp_path):
    now = datetime.datetime.now(datetime.UTC)
    authority = create_authority("acme", days=10, now=now)
    bank = issue(authority, Role.PARTY, "bank", days=10, now=now)
    files = {"authority": authority.certificate_pem, "certificate": bank.certificate_pem, "key": bank.key_pem}
    for name, pem in files.items():
        (tmp_path / name).write_bytes(pem)
        (tmp_path / name).chmod(0o600)
    return load_credentials(**{name: tmp_path / name for name in files})


async def test_a_peer_that_a_reload_has_taken_away_is_named_where_a_job_waited_for_it(credentials):
    channels = PeerChannels()
    channels.open({Identity("acme", Role.PARTY, "clinic"): ["127.0.0.1:1"]}, credentials)
    channels.open({}, credentials)
    with pytest.raises(NoWayError, match="bank: clinic is not among the peers of bank any more") as caught:
        await channels.reach({"clinic"}, 1.0)
    assert caught.value.code == "not-reachable"
    await channels.close()


async def test_a_way_to_a_party_that_was_just_tried_is_not_tried_again_and_that_to_the_coordinator_is(
    credentials, monkeypatch
):
    """Nobody greets over the way to the coordinator before a job is paid for: a loss must show first."""
    tried = []

    async def try_it(channel, *, peer, address, deadline_s):
        tried.append(peer)

    monkeypatch.setattr(peers, "wait_until_reachable", try_it)
    monkeypatch.setattr(peers, "_CONNECTED", grpc.ChannelConnectivity.IDLE)  # of channels that nobody has used
    channels = PeerChannels()
    hub, clinic = Identity("acme", Role.COORDINATOR, "hub"), Identity("acme", Role.PARTY, "clinic")
    channels.open({hub: ["127.0.0.1:1"], clinic: ["127.0.0.1:3"]}, credentials)
    await channels.reach({"hub", "clinic"}, 1.0)
    assert sorted(tried) == ["clinic", "hub"]
    tried.clear()
    await channels.reach({"hub", "clinic"}, 1.0)
    assert tried == ["hub"]
    await channels.close()
