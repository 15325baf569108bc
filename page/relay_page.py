"""What a relay shows: who is connected, and what was forwarded. A relay of its own has a page of nothing else."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from page.metrics import RelayStanding, register_standing, short_name
from page.serving import serving
from page.site import Site, View
from page.visits import Visit
from service.identity import Identity
from service.watch.meter import Meter, rounded_up
from service.watch.page_config import PageConfig
from transport.relay.hub import RelayHub

_UNITS = {30: "GiB", 20: "MiB", 10: "KiB"}
"""Exponent of two to the unit."""


def relay_view(site: Site, relay: RelayHub) -> View:
    """Return the view of a relay."""

    async def view(request: Request, visit: Visit) -> Response:
        members = [{"name": short_name(one), "since_s": since_s} for one, since_s in relay.connected().items()]
        return site.show(
            request,
            "relay.html",
            "Relay",
            visit,
            members=sorted(members, key=lambda one: str(one["name"])),
            traffic=pairs_shown(relay.ways.traffic()),
            n_ways=len(relay.ways.present),
        )

    return view


def pairs_shown(traffic: Mapping[tuple[Identity, Identity], int]) -> list[tuple[str, str, str]]:
    """Return caller, called and bytes between them, rounded up to a power of two, as metrics have them."""
    found = []
    for (caller, called), n_bytes in traffic.items():
        exponent = rounded_up(n_bytes).bit_length() - 1
        scale = next(one for one in _UNITS if exponent >= one)
        found.append((short_name(caller), short_name(called), f"{1 << (exponent - scale)} {_UNITS[scale]}"))
    return sorted(found)


@asynccontextmanager
async def beside_relay(relay: RelayHub, config: PageConfig) -> AsyncIterator[None]:
    """Serve the page of a relay of its own.

    Raises:
        PageError: it cannot be served.
    """
    own, meter = relay.credentials.identity, Meter()
    register_standing(meter.registry, own.name, own.role, lambda: relay.credentials)
    meter.registry.register(RelayStanding(relay))
    site = Site(config, own, meter, [("/", "Relay")])
    async with serving(site.application([Route("/", site.page(relay_view(site, relay)))]), config):
        yield
