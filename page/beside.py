"""The page of a coordinator and of a party, served as long as the service runs."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from coordinator.server import CoordinatorProcess
from page.coordinator_page import CoordinatorPage
from page.metrics import BudgetCollector, PresentJobs, register_standing
from page.party_page import PartyPage
from page.serving import serving
from party.server import RunningParty


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
    async with serving(CoordinatorPage(process, config).application(), config):
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
