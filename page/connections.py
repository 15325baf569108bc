"""HTTP connections that keep no place for who says nothing: a request must arrive in time, and the silent make room."""

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from service.watch.page_config import is_loopback

REQUEST_S = 20.0
"""Seconds in which a request must have arrived, with its body, from the connection or the last answer on."""

MAX_CONNECTIONS, MAX_CONNECTIONS_EACH = 64, 16
"""Connections in all, and of one address of another machine."""


class Connection(H11Protocol):
    """One connection to a page.

    Where there are too many connections, the oldest that waits for a request ends: a new one finds a place as long as
    not all others are being answered.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See `asyncio.Protocol`."""
        super().connection_made(transport)
        self.began_s = self.loop.time()
        self._late = self.loop.call_later(REQUEST_S, self._end_if_silent)
        every: list[Any] = list(self.connections)  # all are of this class
        host = None if self.client is None or is_loopback(self.client[0]) else self.client[0]
        own = [one for one in every if host is not None and one.client is not None and one.client[0] == host]
        if len(every) > MAX_CONNECTIONS:
            self._make_room(every)
        elif len(own) > MAX_CONNECTIONS_EACH:
            self._make_room(own)

    def _make_room(self, among: list[Any]) -> None:
        silent = [one for one in among if one is not self and one.is_silent]
        min(silent, key=lambda one: one.began_s, default=self).end()

    @property
    def is_silent(self) -> bool:
        """Whether it waits for a request, or for the rest of one."""
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY)

    def _end_if_silent(self) -> None:
        if self.is_silent:
            self.end()

    def end(self) -> None:
        """Break it off."""
        self._late.cancel()
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`. A part of a request does not renew its time."""
        super().data_received(data)
        if not self.is_silent:
            self._late.cancel()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._late.cancel()
        self._late = self.loop.call_later(REQUEST_S, self._end_if_silent)

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._late.cancel()
        super().connection_lost(exc)
