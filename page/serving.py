"""HTTP in the process of a service: on its event loop, without signals and logs of its own."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import structlog
import uvicorn
from starlette.types import ASGIApp

from page.access import PageError
from page.connections import REQUEST_S, Connection
from service.watch.page_config import PageConfig

GRACE_S = 1

_log = structlog.get_logger(__name__)


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the service."""
        yield


@asynccontextmanager
async def serving(app: ASGIApp, config: PageConfig) -> AsyncIterator[str]:
    """Serve an application as long as the context lasts; yields its URL.

    Raises:
        PageError: the address is taken, or the certificate cannot be used.
    """
    host, _, port = config.listen.rpartition(":")
    host = host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    logging.getLogger("uvicorn.error").disabled = True  # errors are answered and logged by the application
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, int(port)))
        listening.listen()
        options = uvicorn.Config(
            app,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            http=Connection,
            ws="none",
            timeout_keep_alive=int(REQUEST_S),
            timeout_graceful_shutdown=GRACE_S,
            ssl_certfile=None if config.certificate is None else str(config.certificate),
            ssl_keyfile=None if config.key is None else str(config.key),
        )
        options.load()
        server = _Server(options)
    except OSError as error:
        listening.close()
        raise PageError(f"the page cannot be served at {config.listen}: {error.strerror or error}") from error
    serve = asyncio.create_task(server.serve(sockets=[listening]))
    scheme = "http" if config.certificate is None else "https"
    shown = f"[{host}]" if family == socket.AF_INET6 else host
    url = f"{scheme}://{shown}:{listening.getsockname()[1]}/"
    _log.info("page is served", url=url)
    if scheme == "http" and not config.is_on_loopback:
        _log.warning("the page is served without TLS: whoever can listen in between learns its token", url=url)
    try:
        yield url
    finally:
        server.should_exit = True
        await asyncio.wait((serve,))
        listening.close()
