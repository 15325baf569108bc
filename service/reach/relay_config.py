"""Relays in configuration files: which there are, who is reached by them, and where one listens."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import AfterValidator, StringConstraints

from service.identity import NAME_PATTERN, Identity, Role
from service.reach.relays import BY_RELAY, ByRelays, RelayPoint, Way
from service.settings import Address, Settings, check_address


class RelayEntry(Settings):
    """A relay that members dial.

    Attributes:
        name: name in its certificate.
        role: role in its certificate: `relay`, or `coordinator` where a coordinator relays.
        address: where it listens as a relay.
    """

    name: Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
    role: Literal["relay", "coordinator"] = "relay"
    address: Address

    def point(self, federation: str) -> RelayPoint:
        """Return the relay as it is dialled."""
        return RelayPoint(Identity(federation, Role(self.role), self.name), self.address)


class RelaySection(Settings):
    """Section `[relay]` of a coordinator that relays.

    Attributes:
        listen: host:port to listen on as a relay; port 0 lets the system choose.
    """

    listen: Address


def _check_member_address(address: str) -> str:
    return address if address == BY_RELAY else check_address(address)


MemberAddress = Annotated[str, AfterValidator(_check_member_address)]
"""`host:port` of a member that is dialled directly, or `relay` for one that is reached by the relays of the file."""


def check_relays(addresses: Mapping[str, str], relays: Sequence[RelayEntry], *, has_own: bool = False) -> None:
    """Refuse members that are reached by relays where none is named, and a relay that is named twice.

    Args:
        addresses: member to its `MemberAddress`.
        relays: relays of the file.
        has_own: whether the file's own member relays.

    Raises:
        ValueError: says which.
    """
    relayed = sorted(name for name, address in addresses.items() if address == BY_RELAY)
    if relayed and not relays and not has_own:
        raise ValueError(f"{relayed[0]!r} is reached by a relay, and no relay is named: add one under [[relays]]")
    places = [relay.address for relay in relays]
    if repeated := sorted({place for place in places if places.count(place) > 1}):
        raise ValueError(f"relays: {repeated[0]} appears twice")


def directly(addresses: Mapping[str, str]) -> dict[str, str]:
    """Return the members that have an address of their own."""
    return {name: address for name, address in addresses.items() if address != BY_RELAY}


def way_to(address: str, relays: Sequence[RelayPoint]) -> Way:
    """Return the way to a member, by its `MemberAddress`."""
    return ByRelays(tuple(relays)) if address == BY_RELAY else address
