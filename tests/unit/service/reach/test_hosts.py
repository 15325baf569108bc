"""Workers of other parties are dialled on the hosts that the owner names, and nowhere else."""

import pytest
from pydantic import ValidationError

from party.engine.config import EngineConfig
from service.reach.hosts import host_of, is_on_hosts

HOSTS = ("bank.example", "10.0.7.0/24", "192.0.2.9", "fd00::/64", "127.0.0.1")


@pytest.mark.parametrize(
    "address",
    ["bank.example:7301", "Bank.Example:1", "10.0.7.255:65535", "192.0.2.9:7301", "[fd00::12]:7301", "127.0.0.1:22"],
)
def test_a_port_on_a_named_host_may_be_dialled(address):
    assert is_on_hosts(address, HOSTS)


@pytest.mark.parametrize(
    "address",
    [
        "",
        ":",
        ":7301",
        "bank.example",
        "bank.example:",
        "bank.example:0",
        "bank.example:65536",
        "bank.example:7301 ",
        "bank.example:7301\n",
        "bank.example:7301,192.0.2.9:7301",
        "bank.example.:7301",
        "evil.bank.example:7301",
        "evil.example:7301",
        "10.0.8.1:7301",
        "192.0.2.8:7301",
        "[fd00:0:0:1::1]:7301",
        "[::ffff:10.0.7.1]:7301",
        "[::1]:7301",
        "localhost:7301",
        "127.1:7301",
        "2130706433:7301",
        "0x7f000001:7301",
        "0:7301",
        "unix:/run/docker.sock",
        "unix:7301",
        "unix-abstract:x",
        "vsock:2:7301",
        "dns:bank.example:7301",
        "dns:///bank.example:7301",
        "dns://192.0.2.1/bank.example:7301",
        "ipv4:10.0.7.1:7301",
        "ipv6:[fd00::12]:7301",
        "xds:///bank.example:7301",
        "https://bank.example:7301",
        "user@bank.example:7301",
        "bank.example/x:7301",
        "\\x",
        "bank.example:" + "7" * 300,
        "bank.example:\u0661",
    ],
)
def test_anything_else_may_not(address):
    assert not is_on_hosts(address, HOSTS)


def test_where_no_host_is_named_nothing_may_be_dialled():
    assert not is_on_hosts("127.0.0.1:7301", ())


@pytest.mark.parametrize("address", ["bank:7101", "[::1]:7101", "10.0.0.1:7101"])
def test_the_host_of_a_peer_may_be_dialled_at_another_port(address):
    assert is_on_hosts(address.replace("7101", "7301"), (host_of(address),))


@pytest.mark.parametrize("host", ["unix:/x", "10.0.0.1/8", "a b", "", "bank:7101", "[::1]"])
def test_an_owner_is_told_what_is_no_host(host):
    with pytest.raises(ValidationError, match="is not a host"):
        EngineConfig.model_validate({"peer_hosts": {"bank": [host]}})
