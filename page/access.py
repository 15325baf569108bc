"""Who may look: tokens, hosts and the session of a browser.

A token is compared in constant time. Names of hosts are checked so that a web page of somebody else, whose name
resolves to this machine (DNS rebinding), reads nothing where no token is needed.
"""

import asyncio
import hashlib
import hmac
import stat
from pathlib import Path

from starlette.requests import Request

from service.errors import ServiceError
from service.watch.page_config import PageConfig

MIN_TOKEN_CHARACTERS = 16

WRONG_TOKEN_S = 1.0
"""Pause after a wrong token."""

MAX_WAITING = 16
"""Wrong tokens whose answers wait at a time."""

LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})


class PageError(ServiceError):
    """The page cannot be served; the text says why."""

    code = "page-unusable"


def read_token(path: Path | None) -> str | None:
    """Return the token of a file, without the line's end; None where there is no file.

    Raises:
        PageError: it cannot be read, others may read it, or it is short.
    """
    if path is None:
        return None
    try:
        mode = path.stat().st_mode
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise PageError(f"the token {path} cannot be read: {getattr(error, 'strerror', 'it is not UTF-8')}") from error
    if stat.S_IMODE(mode) & (stat.S_IRWXG | stat.S_IRWXO):
        raise PageError(f"the token {path} is open to other users; run: chmod 600 {path}")
    if len(token) < MIN_TOKEN_CHARACTERS:
        raise PageError(f"the token {path} must have at least {MIN_TOKEN_CHARACTERS} characters")
    return token


class WrongTokens:
    """The pause after a wrong token. Who shows the right one never waits for those who show a wrong one."""

    def __init__(self) -> None:
        self._n_waiting = 0

    async def pause(self) -> None:
        """Wait before a wrong token is answered; not where many wait already, each of whom keeps a connection."""
        if self._n_waiting >= MAX_WAITING:
            return
        self._n_waiting += 1
        try:
            await asyncio.sleep(WRONG_TOKEN_S)
        finally:
            self._n_waiting -= 1


def same(given: str, expected: str) -> bool:
    """Compare two secrets in a time that depends on neither."""
    digests = (hashlib.sha256(text.encode("utf-8", "replace")).digest() for text in (given, expected))
    return hmac.compare_digest(*digests)


def is_local(config: PageConfig, request: Request) -> bool:
    """Return whether a request comes from this machine and was meant for it.

    Where the page is on a loopback address, nobody else can reach it; the name of the host that the browser asked for
    tells whether another page sent it here.
    """
    host = request.headers.get("host", "").rpartition(":")[0] or request.headers.get("host", "")
    return config.is_on_loopback and host in LOOPBACK_HOSTS


def bears(request: Request, token: str) -> bool:
    """Return whether a request bears a token in its header `Authorization`."""
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    return scheme.lower() == "bearer" and same(given.strip(), token)
