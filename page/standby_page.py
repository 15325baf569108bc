"""The page of a coordinator that stands by: who leads. Jobs are shown by that one."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from coordinator.leading.standby import Standby
from page.site import Site
from page.visits import Visit
from service.watch.meter import Meter
from service.watch.page_config import PageConfig


class StandbyPage:
    """The view.

    Args:
        standby: the coordinator.
        instance: what others are told of it.
        config: section `[page]`.
        meter: metrics of the process.
    """

    def __init__(self, standby: Standby, instance: str, config: PageConfig, meter: Meter) -> None:
        self._standby = standby
        self._instance = instance
        own = standby.server.credentials.identity
        self._site = Site(config, own, meter, [("/", "Stands by")], self._standing)

    def application(self) -> ASGIApp:
        """Return the ASGI application."""
        return self._site.application([Route("/", self._site.page(self._show))])

    def _standing(self) -> str:
        leader = self._standby.leader
        if not leader.leads:
            led = f"; {leader.holder} led last, in term {leader.term}" if leader.holder else ""
            return f"{self._instance} stands by, and nobody leads now{led}."
        return f"{self._instance} stands by: {leader.holder} leads, in term {leader.term}."

    async def _show(self, request: Request, visit: Visit) -> Response:
        text = "It takes no calls until it leads itself. The page of the coordinator that leads shows jobs and members."
        return self._site.show(request, "message.html", "Stands by", visit, text=text)
