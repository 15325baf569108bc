"""Visits of browsers: who has logged in, and whether a form comes from a page of ours."""

import secrets
import time
from dataclasses import dataclass, field
from urllib.parse import parse_qs

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from page.access import same
from service.errors import NotAllowedError

VISIT_S = 12 * 3600.0
"""After so long one has to log in again."""

MAX_VISITS = 32
"""Maximum number of owner log-ins; a new one ends the oldest."""

MAX_FORM_BYTES = 8192


@dataclass(frozen=True)
class Visit:
    """A browser that may look.

    Attributes:
        is_owner: whether it has shown the token, so that it may decide too.
        csrf: what forms must bring back.
        until_s: when it ends, on the monotonic clock.
    """

    is_owner: bool
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    until_s: float = field(default_factory=lambda: time.monotonic() + VISIT_S)


class Visits:
    """The visits of one page, in memory: a restart ends all.

    Args:
        cookie: its name; browsers send a cookie to all ports of a host, so each service has its own.
        is_secure: whether the page is served by HTTPS.
    """

    def __init__(self, cookie: str, *, is_secure: bool) -> None:
        self._cookie = cookie
        self._is_secure = is_secure
        self._visits: dict[str, Visit] = {}

    def begin(self, response: Response) -> None:
        """Let a browser in that has shown the token."""
        while len(self._visits) >= MAX_VISITS:
            del self._visits[next(iter(self._visits))]
        key = secrets.token_urlsafe(32)
        self._visits[key] = Visit(is_owner=True)
        response.set_cookie(
            self._cookie,
            key,
            max_age=int(VISIT_S),
            path="/",
            httponly=True,
            samesite="strict",
            secure=self._is_secure,
        )

    def of(self, request: Request) -> Visit | None:
        """Return the visit that a request belongs to."""
        visit = self._visits.get(request.cookies.get(self._cookie, ""))
        return visit if visit is not None and time.monotonic() < visit.until_s else None

    def end(self, request: Request, response: Response) -> None:
        """Log a browser out."""
        self._visits.pop(request.cookies.get(self._cookie, ""), None)
        response.delete_cookie(self._cookie, path="/", httponly=True, samesite="strict", secure=self._is_secure)


def check_origin(request: Request) -> None:
    """Refuse a form that another site sends; browsers say where it comes from.

    Raises:
        NotAllowedError: it comes from elsewhere, or says nothing.
    """
    own = f"{request.url.scheme}://{request.headers.get('host', '')}"
    if request.headers.get("origin") != own:
        raise NotAllowedError("the form does not come from this page")


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form.

    Raises:
        NotAllowedError: it is too long or no form.
    """
    body = b""
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_FORM_BYTES:
                raise NotAllowedError("the form is too long")
    except ClientDisconnect:
        raise NotAllowedError("the form did not arrive") from None
    try:
        fields = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=10)
    except ValueError as error:
        raise NotAllowedError("the form cannot be read") from error
    return {name: values[0] for name, values in fields.items()}


async def checked_form(request: Request, visit: Visit) -> dict[str, str]:
    """Return the fields of a form that an owner sent from a page of ours.

    Raises:
        NotAllowedError: the visitor has not logged in, or the form comes from elsewhere.
    """
    if not visit.is_owner:
        raise NotAllowedError("log in with the token before you do this")
    check_origin(request)
    form = await read_form(request)
    if not same(form.get("csrf", ""), visit.csrf):
        raise NotAllowedError("the form does not belong to this visit; load the page again")
    return form
