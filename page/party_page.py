"""The page of a party, for its owner: jobs that wait for approval, budgets over time, members."""

import asyncio
import json
from pathlib import Path
from typing import Any

import structlog
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from ledger.standing import lines_of
from page.picture import steps
from page.site import Site
from page.visits import Visit, checked_form
from party.consent import ConsentError
from party.reload import RunningParty
from service.errors import NotAllowedError, NotFoundError
from service.watch.page_config import PageConfig

MAX_REPORTS = 500
"""Number of newest reports that a budget's curve shows."""

_log = structlog.get_logger(__name__)


class PartyPage:
    """The views.

    Args:
        running: the party.
        config: section `[page]`.
    """

    def __init__(self, running: RunningParty, config: PageConfig) -> None:
        self._running = running
        links = [("/", "Requests"), ("/budget", "Budget"), ("/members", "Members")]
        own = running.server.credentials.identity
        self._site = Site(config, own, running.meter, links)

    def application(self) -> ASGIApp:
        """Return the ASGI application."""
        site = self._site
        return site.application(
            [
                Route("/", site.page(self._requests)),
                Route("/requests/{job_id}", site.page(self._decide), methods=["POST"]),
                Route("/budget", site.page(self._budget)),
                Route("/members", site.page(site.members(self._running.server, lambda: self._running.config.dials))),
            ]
        )

    async def _requests(self, request: Request, visit: Visit) -> Response:
        waiting = await asyncio.to_thread(self._running.consent.waiting)
        return self._site.show(request, "requests.html", "Requests that wait for you", visit, requests=waiting)

    async def _decide(self, request: Request, visit: Visit) -> Response:
        """Approve or refuse a job, as `moiety party approve` and `refuse` do."""
        form = await checked_form(request, visit)
        job_id, decision, reason = request.path_params["job_id"], form.get("decision"), form.get("reason", "").strip()
        if decision not in ("approve", "refuse"):
            raise NotAllowedError("the form says neither approve nor refuse")
        try:
            answer = None if decision == "approve" else reason or "the owner gave no reason"
            await asyncio.to_thread(self._running.consent.answer, job_id, answer)
        except ConsentError as error:
            raise NotFoundError(str(error)) from error
        _log.info("the owner decided at the page", job=job_id, decision=decision)
        return RedirectResponse("/", status_code=303)

    async def _budget(self, request: Request, visit: Visit) -> Response:
        budgets = await asyncio.to_thread(self._budgets)
        return self._site.show(request, "budget.html", "Budgets", visit, budgets=budgets)

    def _budgets(self) -> list[dict[str, Any]]:
        courses = course_of(self._running.config.data_dir)
        found = []
        for balance in self._running.ledger.balances():
            standing = balance.as_dict()
            parts = courses.get((balance.dataset, standing["period"]), [])
            picture = steps(parts, "part of the budget that is spent") if parts else None
            found.append(
                {"standing": standing, "lines": [line.strip() for line in lines_of(standing)], "picture": picture}
            )
        return found


def course_of(data_dir: Path) -> dict[tuple[str, str], list[float]]:
    """Return table and period to the part of its budget that was spent after each job, oldest first."""
    paths = sorted((data_dir / "reports").glob("*.json"), key=lambda path: path.stat().st_mtime)[-MAX_REPORTS:]
    course: dict[tuple[str, str], list[float]] = {}
    for path in paths:
        try:
            budget = json.loads(path.read_text(encoding="utf-8")).get("budget")
            key, part = (str(budget["dataset"]), str(budget["period"])), budget["spent_part"]
        except (OSError, ValueError, KeyError, TypeError):
            continue  # one that is being written, or of an earlier version
        if part is not None:
            course.setdefault(key, []).append(float(part))
    return course
