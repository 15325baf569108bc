"""The page of a coordinator: jobs of all analysts, who is awaited, progress, results. For whoever runs it."""

import datetime
import json
from functools import partial
from typing import Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from analyses.job.job import Job
from coordinator.leading.lease import Lease
from coordinator.server import CoordinatorProcess
from coordinator.state import State
from page.relay_page import relay_view
from page.site import Site
from page.visits import Visit
from results.drawing.chart import PictureError
from results.drawing.svg import elements_of
from results.registry import picture_of, result_of
from service.errors import InvalidRequestError, NotFoundError
from service.identity import Identity, Role
from service.job_id import check_job_id
from service.watch.page_config import PageConfig

MAX_JOBS = 100
MAX_STAGES = 30
MAX_NOTES = 100
MAX_RESULT_CHARACTERS = 200_000


class CoordinatorPage:
    """The views.

    Args:
        process: the coordinator.
        config: section `[page]`.
    """

    def __init__(self, process: CoordinatorProcess, config: PageConfig) -> None:
        self._process = process
        own = process.server.credentials.identity
        links = [("/", "Jobs"), ("/members", "Members"), *([("/relay", "Relay")] if process.relay is not None else [])]
        standing = None if process.lease is None else partial(leads_since, process.lease, process.config.shown_instance)
        self._site = Site(config, own, process.meter, links, standing)

    def application(self) -> ASGIApp:
        """Return the ASGI application."""
        site, relay = self._site, self._process.relay
        return site.application(
            [
                *([Route("/relay", site.page(relay_view(site, relay)))] if relay is not None else []),
                Route("/", site.page(self._jobs)),
                Route("/jobs/{job_id}", site.page(self._job)),
                Route("/members", site.page(site.members(self._process.server, self._configured))),
            ]
        )

    def _configured(self) -> list[Identity]:
        config = self._process.config
        parties = [Identity(config.federation, Role.PARTY, name) for name in config.roster]
        return [*parties, *(Identity(config.federation, Role.ANALYST, name) for name in config.analysts.allowed)]

    def _awaited(self, job_id: str) -> str:
        return ", ".join(f"the owner of {name}" for name in sorted(self._process.scheduler.waiting_parties(job_id)))

    async def _jobs(self, request: Request, visit: Visit) -> Response:
        jobs = self._process.journal.store.records(None, limit=MAX_JOBS)
        awaited = {job.job_id: self._awaited(job.job_id) for job in jobs}
        return self._site.show(request, "jobs.html", "Jobs", visit, jobs=jobs, awaited=awaited)

    async def _job(self, request: Request, visit: Visit) -> Response:
        store = self._process.journal.store
        try:
            job = store.record(check_job_id(request.path_params["job_id"]))
        except InvalidRequestError as error:
            raise NotFoundError("there is no such job") from error
        progress: dict[str, dict[str, int]] = {}
        stages: dict[str, None] = {}
        notes = []
        for event in store.events(job.job_id):
            if event.text:
                notes.append(event)
            elif event.member and event.stage and (event.stage in stages or len(stages) < MAX_STAGES):
                stages[event.stage] = None
                done = progress.setdefault(event.member, {})
                if event.stage not in done:  # which begins when those before it have ended
                    done.update(dict.fromkeys(done, 100))
                done[event.stage] = event.percent
        if job.state is State.DONE:
            progress = {member: dict.fromkeys(done, 100) for member, done in progress.items()}
        pieces = list(store.texts(job.job_id))
        text, asked = ("".join(piece for name, piece in pieces if name == of) for of in ("result_json", "job_json"))
        result: dict[str, Any] = json.loads(text) if text else {}
        shown = json.dumps(result, indent=2) if result else ""
        return self._site.show(
            request,
            "job.html",
            f"Job {job.job_id}",
            visit,
            job=job,
            awaited=self._awaited(job.job_id),
            stages=list(stages),
            progress=progress,
            notes=notes[-MAX_NOTES:],
            lines=lines_shown(result, asked),
            picture=picture_shown(result),
            result=shown if len(shown) <= MAX_RESULT_CHARACTERS else shown[:MAX_RESULT_CHARACTERS] + " ...",
        )


def leads_since(lease: Lease, instance: str) -> str:
    """Say in which term a coordinator leads, and since when."""
    since = datetime.datetime.fromtimestamp(lease.since_s, datetime.UTC)
    return f"{instance} leads, in term {lease.term}, since {since:%Y-%m-%d %H:%M:%S} UTC."


def picture_shown(result: dict[str, Any]) -> dict[str, Any]:
    """Return the elements of a result's picture, and why it has none where that is to be said."""
    if not result:
        return {"panels": [], "why_none": ""}
    try:
        panels = elements_of(picture_of(result))
    except PictureError as error:
        return {"panels": [], "why_none": str(error)}
    return {"panels": [Markup(panel) for panel in panels], "why_none": ""}  # noqa: S704 -- numbers, and escaped names


def lines_shown(result: dict[str, Any], job_json: str) -> str:
    """Return a result as text; empty where an earlier version wrote it and left out what the text says."""
    if not result:
        return ""
    try:
        return "\n".join(result_of(Job.from_json(job_json), result).lines)
    except (LookupError, TypeError, ValueError):
        return ""
