"""A coordinator that stands by: it listens, says who leads, and waits until the lease is free."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

import grpc
import structlog

from coordinator.leading.database import DatabaseAwayError, Leader
from coordinator.leading.lease import Lease
from service.authorization import Permissions
from service.errors import UnreachableError
from service.identity import Identity, Role
from service.server import Server
from service.tls import Credentials

LOOKS_PER_LEASE = 5

_log = structlog.get_logger(__name__)


class StandsByError(UnreachableError):
    """This coordinator takes no calls, because another one leads."""

    code = "coordinator-stands-by"


class Standby:
    """Answers every call with who leads, and to a health check that it does not serve, until it leads itself.

    Args:
        lease: lease to take when it is free.
        lease_s: how long that takes at most.
        credentials: credentials of the coordinator.
        federation: federation whose members may ask.
        permitted: full method name to the roles that may call it, of a coordinator that leads.

    Attributes:
        leader: who leads, as the database told last.
    """

    def __init__(
        self,
        lease: Lease,
        *,
        lease_s: float,
        credentials: Credentials,
        federation: str,
        permitted: Mapping[str, frozenset[Role]],
    ) -> None:
        self._lease = lease
        self._pause_s = lease_s / LOOKS_PER_LEASE
        self.leader = Leader("", leads=False, term=0)
        self._permitted = permitted
        permissions = Permissions(federation, permitted, dict.fromkeys(permitted, self._refuse))
        self.server = Server(credentials, permissions, [self._add_to])

    async def until_leading(
        self,
        address: str,
        reload: Callable[[], None],
        beside: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
    ) -> bool:
        """Stand by until this coordinator leads, or until SIGTERM or SIGINT.

        Args:
            address: address to listen at.
            reload: called at SIGHUP, see `Server.serve_until_signal`.
            beside: what else runs as long as it stands by.

        Returns:
            Whether it leads; then nothing listens at the address any more.

        Raises:
            ListenError: the address cannot be had.
            DatabaseError: the database cannot be used.
        """
        if await self._takes_it():
            return True
        await self.server.stand_by()
        await self.server.start(address)
        async with beside():
            return await self._until_taken_or_told(reload)

    async def _until_taken_or_told(self, reload: Callable[[], None]) -> bool:
        serving = asyncio.create_task(self.server.serve_until_signal(0.0, reload=reload))
        leading = asyncio.create_task(self._until_taken())
        try:
            await asyncio.wait({serving, leading}, return_when=asyncio.FIRST_COMPLETED)
            if leading.done():
                await leading
                if not self.server.is_told_to_stop:
                    await self.server.stop(0.0)
                    return True
                await asyncio.to_thread(self._lease.release)  # it became free while the signal came
            return False
        finally:
            for task in (serving, leading):
                task.cancel()
            await asyncio.wait({serving, leading})

    async def _until_taken(self) -> None:
        while not await self._takes_it():  # noqa: ASYNC110 -- a database tells nobody that a time is past
            await asyncio.sleep(self._pause_s)

    async def _takes_it(self) -> bool:
        try:
            if await asyncio.to_thread(self._lease.take):
                return True
            leader = await asyncio.to_thread(self._lease.leader)
        except DatabaseAwayError as error:
            _log.warning("coordinator stands by, and cannot see who leads", cause=str(error))
            return False
        if leader.holder != self.leader.holder:
            _log.info("coordinator stands by", leader=leader.holder)
        self.leader = leader
        return False

    def _refuse(self, caller: Identity) -> None:
        leader = self.leader.holder or "another, which its database does not name now,"
        raise StandsByError(f"this coordinator stands by: {leader} leads")

    def _add_to(self, server: Any) -> None:
        handler = grpc.stream_stream_rpc_method_handler(_answer_nothing)
        services: dict[str, dict[str, Any]] = {}
        for path in self._permitted:
            _, service, method = path.split("/")
            services.setdefault(service, {})[method] = handler
        server.add_generic_rpc_handlers(
            [grpc.method_handlers_generic_handler(name, methods) for name, methods in services.items()]
        )


async def _answer_nothing(request: Any, context: Any) -> None:
    raise AssertionError("the border has refused the call")
