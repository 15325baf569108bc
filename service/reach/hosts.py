"""Hosts that a configuration names, and whether an address is on one of them."""

import ipaddress
import re
from collections.abc import Iterable
from typing import Annotated

from pydantic import AfterValidator, TypeAdapter, ValidationError

from service.settings import Address

_NAME = r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?"
_ADDRESS: TypeAdapter[str] = TypeAdapter(Address)


def _check_host(text: str) -> str:
    if _network_of(text) is None and not re.fullmatch(_NAME, text):
        raise ValueError(f"{text!r} is not a host: give a name, an address, or a network such as 10.0.7.0/24")
    return text


Host = Annotated[str, AfterValidator(_check_host)]
"""A host name, an IP address, or a network of addresses."""


def host_of(address: str) -> str:
    """Return the host of an address, `host:port`, without brackets."""
    return address.rpartition(":")[0].strip("[]")


def is_on_hosts(address: str, hosts: Iterable[str]) -> bool:
    """Say whether an address is `host:port` on one of some hosts; what is no address is on none.

    Nothing is resolved: a name is the same name, an address is in the network that is given.
    """
    try:
        host = host_of(_ADDRESS.validate_python(address, strict=True))
    except ValidationError:
        return False
    if not int(address.rpartition(":")[2]):
        return False
    found = _network_of(host)
    if found is None:
        return host.lower() in {one.lower() for one in hosts}
    return any(found.network_address in one for one in map(_network_of, hosts) if one is not None)


def _network_of(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        return None
