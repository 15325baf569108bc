"""The page of a coordinator and of a party, served as long as the service runs."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from coordinator.config import CoordinatorConfig
from coordinator.leading.standby import Standby
from coordinator.server import CoordinatorProcess
from page.coordinator_page import CoordinatorPage
from page.metrics import BudgetCollector, Leading, PresentJobs, RelayStanding, register_standing
from page.party_page import PartyPage
from page.serving import serving
from page.standby_page import StandbyPage
from party.reload import RunningParty
from service.watch.meter import Meter


@asynccontextmanager
async def beside_coordinator(process: CoordinatorProcess) -> AsyncIterator[None]:
    """Serve a coordinator's page, if it has one.

    Raises:
        PageError: it cannot be served.
    """
    if (config := process.config.page) is None:
        yield
        return
    registry = process.meter.registry
    register_standing(registry, process.config.name, "coordinator", lambda: process.server.credentials)
    registry.register(PresentJobs(process.scheduler.counts))
    if process.relay is not None:
        registry.register(RelayStanding(process.relay))
    if (lease := process.lease) is not None:
        registry.register(Leading(lambda: True, lambda: lease.term, lambda: lease.since_s))
    async with serving(CoordinatorPage(process, config).application(), config):
        yield


@asynccontextmanager
async def beside_standby(standby: Standby, config: CoordinatorConfig) -> AsyncIterator[None]:
    """Serve the page of a coordinator that stands by, if it has one; raises as `beside_coordinator`."""
    if config.page is None:
        yield
        return
    meter = Meter()
    register_standing(meter.registry, config.name, "coordinator", lambda: standby.server.credentials)
    meter.registry.register(Leading(lambda: False, lambda: standby.leader.term, lambda: 0.0))
    async with serving(StandbyPage(standby, config.shown_instance, config.page, meter).application(), config.page):
        yield


@asynccontextmanager
async def beside_party(running: RunningParty) -> AsyncIterator[None]:
    """Serve a party's page, if it has one; raises as `beside_coordinator`."""
    if (config := running.config.page) is None:
        yield
        return
    registry = running.meter.registry
    register_standing(registry, running.config.name, "party", lambda: running.server.credentials)
    registry.register(BudgetCollector(running.ledger))
    async with serving(PartyPage(running, config).application(), config):
        yield
