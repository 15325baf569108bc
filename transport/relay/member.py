"""A member that only dials out: it stays connected to its relays, and takes from each the ways that others ask for."""

import asyncio
import socket
from collections.abc import Sequence
from functools import partial

import structlog

from service.codes.coded_text import told
from service.reach.addresses import split_address
from service.reach.dial import connect
from service.reach.relays import (
    ASK_S,
    PING_S,
    SILENT_S,
    RelayError,
    RelayNotTrustedError,
    RelayPoint,
    RelayRefusesError,
    ask_relay,
    check_answer,
    check_relay,
    end_outer_tls,
    not_reached,
    outer_context,
)
from service.tls import Credentials
from transport.relay.splice import DIALLERS, Splice, join, keep_alive

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 5.0
"""Seconds before a relay that was lost is dialled again; doubled each time."""

_log = structlog.get_logger(__name__)


class StayConnected:
    """Keeps one connection to each relay, and answers calls, as long as it is open.

    Args:
        serves_at: host:port at which this member's service listens, on this machine.
        endpoint: name by which a worker is asked for; empty for a party.
    """

    def __init__(self, serves_at: str, endpoint: str = "") -> None:
        self._serves_at = serves_at
        self._endpoint = endpoint
        self._stays: list[asyncio.Task[None]] = []
        self._answers: set[asyncio.Task[None]] = set()
        self._splices: set[Splice] = set()
        self.connected: dict[RelayPoint, bool] = {}

    def use(self, relays: Sequence[RelayPoint], credentials: Credentials) -> None:
        """Connect to relays, with a certificate, instead of those before; ways in use go on."""
        for task in self._stays:
            task.cancel()
        self._credentials = credentials
        self.connected = dict.fromkeys(relays, False)
        loop = asyncio.get_running_loop()
        self._stays = [loop.create_task(self._stay_at(relay)) for relay in relays]

    async def close(self) -> None:
        """End all connections."""
        tasks = [*self._stays, *self._answers]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for splice in list(self._splices):
            splice.abort()

    async def _stay_at(self, relay: RelayPoint) -> None:
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                await self._stay_once(relay)
            except RelayError as error:
                if self.connected[relay] or pause_s == FIRST_PAUSE_S:
                    _log.warning("no connection to a relay: nobody reaches this member by it", reason=told(error))
            except OSError as error:
                _log.warning(
                    "the connection to a relay is lost", relay=relay.identity.name, reason=type(error).__name__
                )
            pause_s = FIRST_PAUSE_S if self.connected[relay] else min(2 * pause_s, LONGEST_PAUSE_S)
            self.connected[relay] = False
            await asyncio.sleep(pause_s)

    async def _stay_once(self, relay: RelayPoint) -> None:
        """Be connected to a relay until the connection ends.

        Raises:
            RelayError, OSError: it was not to be had, or has ended.
        """
        loop = asyncio.get_running_loop()
        try:
            plain = await loop.run_in_executor(DIALLERS, connect, relay.address, self._credentials.proxy, ASK_S)
        except OSError as error:
            raise not_reached(relay, error) from error
        keep_alive(plain)
        try:
            async with asyncio.timeout(ASK_S):
                reader, writer = await asyncio.open_connection(
                    sock=plain, ssl=outer_context(self._credentials), server_hostname=relay.identity.dns_name
                )
        except OSError as error:
            plain.close()
            raise RelayNotTrustedError(f"{relay} does not prove to be that relay: {error}") from error
        pinging: asyncio.Task[None] | None = None
        try:
            check_relay(
                writer.get_extra_info("ssl_object").getpeercert(binary_form=True) or b"", relay, self._credentials
            )
            writer.write(f"STAY {self._endpoint}".rstrip().encode() + b"\n")
            async with asyncio.timeout(ASK_S):
                check_answer(await _line(reader, relay), relay)
            self.connected[relay] = True
            _log.info("connected to a relay", relay=relay.identity.name, address=relay.address)
            pinging = loop.create_task(_ping(writer))
            while True:
                async with asyncio.timeout(SILENT_S):
                    word, _, ticket = (await _line(reader, relay)).partition(" ")
                if word == "CALL":
                    task = loop.create_task(self._come(relay, ticket, writer))
                    self._answers.add(task)
                    task.add_done_callback(self._answers.discard)
        finally:
            if pinging is not None:
                pinging.cancel()
            writer.transport.abort()

    async def _come(self, relay: RelayPoint, ticket: str, control: asyncio.StreamWriter) -> None:
        """Answer a call: join a new connection to the relay with one to our own service."""
        loop = asyncio.get_running_loop()
        host, port = split_address(self._serves_at)
        try:
            own = await loop.run_in_executor(DIALLERS, partial(socket.create_connection, (host, port), ASK_S))
        except OSError:
            control.write(f"GONE {ticket}\n".encode())
            return
        try:
            way = await loop.run_in_executor(DIALLERS, self._dial_back, relay, ticket)
        except RelayError as error:
            own.close()
            _log.info("a call of a relay came to nothing", reason=told(error))
            return
        await join(own, way, self._splices)

    def _dial_back(self, relay: RelayPoint, ticket: str) -> socket.socket:
        return end_outer_tls(ask_relay(relay, f"COME {ticket}", self._credentials, ASK_S), relay)


async def _line(reader: asyncio.StreamReader, relay: RelayPoint) -> str:
    try:
        line = await reader.readline()
        if not line.endswith(b"\n"):
            raise ConnectionAbortedError("it closed the connection")
        return line[:-1].decode("ascii")
    except ValueError as error:
        raise RelayRefusesError(f"{relay} does not answer as a relay") from error


async def _ping(writer: asyncio.StreamWriter) -> None:
    while True:
        await asyncio.sleep(PING_S)
        writer.write(b"PING\n")
