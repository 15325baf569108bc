"""What the pages of coordinator and party share: templates, log-in, headers, who is where."""

import datetime
import json
import time
from collections.abc import Awaitable, Callable, Iterable
from importlib.metadata import version
from importlib.resources import files
from typing import Any

import structlog
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from analyses.job.forecast import lines_of_forecast
from dp.cost.report import ceil_to_digits
from page.access import LOOPBACK_HOSTS, WrongTokens, read_token, same
from page.metrics import MetricsPage
from page.visits import Visit, Visits, check_origin, checked_form, read_form
from service.errors import NotAllowedError, NotFoundError
from service.identity import Identity
from service.server import Server
from service.tls import days_left
from service.watch.meter import Meter
from service.watch.page_config import PageConfig

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src data:; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}

View = Callable[[Request, Visit], Awaitable[Response]]

_log = structlog.get_logger(__name__)


class Site:
    """The pages of one service.

    Args:
        config: section `[page]`.
        own: who serves.
        meter: metrics of the service.
        links: path and text of each page.
        standing: role of the service among others of its name, in one sentence; None where there are no others.

    Raises:
        PageError: a token cannot be used.
    """

    def __init__(
        self,
        config: PageConfig,
        own: Identity,
        meter: Meter,
        links: Iterable[tuple[str, str]],
        standing: Callable[[], str] | None = None,
    ) -> None:
        self._config = config
        self._own = own
        self._links = tuple(links)
        self._standing = standing
        self._token = read_token(config.token_file)
        self._wrong = WrongTokens()
        self._metrics = MetricsPage(config, read_token(config.metrics_token_file), meter, self._wrong)
        self._visits = Visits(f"moiety-{own.role}-{own.name}", is_secure=config.certificate is not None)
        self._style = (files("page") / "static" / "style.css").read_text(encoding="utf-8")
        self._templates = Environment(
            loader=PackageLoader("page"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
        )
        self._templates.filters |= {
            "time": lambda at_s: f"{datetime.datetime.fromtimestamp(at_s, datetime.UTC):%Y-%m-%d %H:%M:%S}",
            "day": lambda moment: f"{moment:%Y-%m-%d}",
            "up": ceil_to_digits,
            "left": lambda part: f"{max(0.0, 1 - part) * 100 // 0.01 / 100:g}",
            "tojson_text": json.dumps,
        }
        self._templates.filters["forecast"] = lines_of_forecast

    def application(self, routes: Iterable[Route]) -> ASGIApp:
        """Return the application of these routes and of what all sites have."""
        shared = [
            Route("/metrics", self._metrics.answer),
            Route("/style.css", self._answer_style),
            Route("/login", self._answer_login, methods=["GET", "POST"]),
            Route("/logout", self.page(self._log_out), methods=["POST"]),
        ]
        handlers: dict[Any, Any] = {
            Exception: self._failed,
            NotAllowedError: self._refused,
            NotFoundError: self._not_found,
            404: self._not_found,
        }
        return _WithHeaders(Starlette(routes=[*shared, *routes], exception_handlers=handlers))

    def page(self, view: View) -> Callable[[Request], Awaitable[Response]]:
        """Return an endpoint that shows a view to who may look, and asks others to log in."""

        async def endpoint(request: Request) -> Response:
            self._check_host(request)
            visit = self._visits.of(request) or (Visit(is_owner=False) if self._token is None else None)
            if visit is None:
                return RedirectResponse("/login", status_code=303)
            return await view(request, visit)

        return endpoint

    def show(
        self,
        request: Request,
        template: str,
        title: str,
        visit: Visit | None,
        *,
        status: int = 200,
        **context: object,
    ) -> Response:
        """Return a page."""
        text = self._templates.get_template(template).render(
            title=title,
            name=self._own.name,
            role=self._own.role,
            federation=self._own.federation,
            links=self._links if visit is not None else (),
            standing=self._standing() if self._standing is not None and visit is not None else "",
            here=request.url.path,
            visit=visit,
            version=version("moiety"),
            now=time.time(),
            **context,
        )
        return HTMLResponse(text, status_code=status)

    def members(self, server: Server, configured: Callable[[], Iterable[Identity]]) -> View:
        """Return the view of the members that are configured or have called a server."""

        async def view(request: Request, visit: Visit) -> Response:
            seen = {one.identity: one for one in server.seen.all()}
            known = sorted({*configured(), *seen}, key=lambda one: (one.role, one.name))
            credentials = server.credentials
            revoked = credentials.revoked
            return self.show(
                request,
                "members.html",
                "Members",
                visit,
                members=[{"name": one.name, "role": one.role, "seen": seen.get(one)} for one in known],
                own_until=credentials.not_valid_after,
                own_days=days_left(credentials.not_valid_after),
                list_until=None if revoked is None else revoked.not_valid_after,
                n_revoked=0 if revoked is None else len(revoked.serials),
            )

        return view

    def _check_host(self, request: Request) -> None:
        host = request.headers.get("host", "")
        if self._config.is_on_loopback and (host.rpartition(":")[0] or host) not in LOOPBACK_HOSTS:
            raise NotAllowedError("this page is served under the names of this machine only, such as localhost")

    async def _answer_style(self, request: Request) -> Response:
        return Response(self._style, media_type="text/css", headers={"Cache-Control": "max-age=3600"})

    async def _answer_login(self, request: Request) -> Response:
        self._check_host(request)
        if self._token is None:
            return RedirectResponse("/", status_code=303)
        if request.method != "POST":
            return self.show(request, "login.html", "Log in", None, wrong=False)
        check_origin(request)
        form = await read_form(request)
        if not same(form.get("token", ""), self._token):
            _log.warning("a wrong token was given at the page")
            await self._wrong.pause()
            return self.show(request, "login.html", "Log in", None, wrong=True, status=403)
        response = RedirectResponse("/", status_code=303)
        self._visits.begin(response)
        return response

    async def _log_out(self, request: Request, visit: Visit) -> Response:
        await checked_form(request, visit)
        response = RedirectResponse("/login", status_code=303)
        self._visits.end(request, response)
        return response

    async def _refused(self, request: Request, error: Exception) -> Response:
        return self.show(request, "message.html", "Refused", None, text=str(error), status=403)

    async def _not_found(self, request: Request, error: Exception) -> Response:
        return self.show(request, "message.html", "Not found", None, text="There is no such page.", status=404)

    async def _failed(self, request: Request, error: Exception) -> Response:
        """Answer an error that nobody foresaw; its text may quote data, so only the log has it."""
        _log.error("a page failed", path=request.url.path, exc_info=error)
        return PlainTextResponse("internal error; the log of this service has the details\n", status_code=500)


class _WithHeaders:
    """Adds `HEADERS` to all answers that do not have them."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_with_headers)
