"""Addresses host:port, taken apart. Only the standard library is needed."""

import ipaddress

BY_RELAY = "relay"
"""Address in a configuration of a member that is reached by the relays which the configuration names."""

_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104 -- read here, not listened on
"""Addresses that one can listen at but not dial, and where to dial instead."""


def split_address(address: str) -> tuple[str, int]:
    """Return host and port of an address, an IPv6 host without brackets."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def dialled(listen: str) -> str:
    """Return the address at which a service that listens at `listen` is reached from its own machine."""
    host, port = listen.rsplit(":", 1)
    return f"{_EVERYWHERE.get(host, host)}:{port}"


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine itself and nobody else reaches it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
