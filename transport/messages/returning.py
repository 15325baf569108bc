"""The way to a member that may restart: what was sent to it is kept, and sent again when it is back."""

import asyncio
from collections.abc import Awaitable, Callable

from mpc.errors import LocalFaultError, PeerError, PeerLostError
from transport.messages.frames import Array

MAX_KEPT_BYTES = 32 << 20
"""Largest size of what is kept for one member of one job. A job that sends more goes on, but survives no restart."""


class TooMuchToKeepError(LocalFaultError):
    """The member has restarted, and more was sent to it than is kept."""

    code = "too-much-to-send-again"


class ReturningReceiver:
    """Sends arrays of one job to a member that may restart.

    The member has forgotten what it took, so it gets all arrays again, of each stage in the same order and with the
    same bytes: nothing is computed anew, and nobody learns from them what the first ones did not tell.

    Args:
        member: its number.
        name: its name.
        write: writes one array of a stage; raises `PeerLostError` where the connection broke.
        flush: ends what was written and waits until the member has acknowledged it.
        renew: forgets the calls of the connection that broke, and waits for another one.
        deadline_s: seconds that a send waits for the member to come back.
    """

    def __init__(
        self,
        member: int,
        name: str,
        *,
        write: Callable[[str, Array], Awaitable[None]],
        flush: Callable[[], Awaitable[None]],
        renew: Callable[[], Awaitable[None]],
        deadline_s: float,
    ) -> None:
        self._member = member
        self._name = name
        self._write_array = write
        self._flush = flush
        self._renew = renew
        self._deadline_s = deadline_s
        self._kept: dict[str, list[Array]] | None = {}
        self._kept_bytes = 0
        self._written: dict[str, int] = {}  # arrays of each stage, since the member began last
        self._turns: dict[str, asyncio.Lock] = {}
        self._is_complete = False
        self._failure: PeerError | None = None
        self._present = asyncio.Event()
        self._present.set()
        self._is_away = False
        self._is_beginning = False
        self._change = asyncio.Event()  # of one of these three; replaced once it is set

    async def send(self, stage: str, message: Array) -> None:
        """Send one array; where the member has gone away, wait until it is back and has it.

        Raises:
            PeerLostError: it did not come back within the deadline.
            PeerError: see the session's own sends.
        """
        self._keep(stage, message)
        if self._kept is None:
            await self._write_array(stage, message)
            return
        n_arrays = len(self._kept[stage])
        await self._until_done(lambda: self._write(stage, n_arrays))

    async def finish(self) -> None:
        """Wait until the member has acknowledged everything, however long it is away (`hold`); raises as `send`.

        One that has not gone away and cannot be reached has the deadline.
        """
        self._is_complete = True
        await self._until_done(self._flush)

    def hold(self) -> None:
        """Send nothing more until `begin_again`: the member has gone away, and what it forgot comes first."""
        self._failure = PeerLostError(self._member, "", f"{self._name} has gone away")
        self._present.clear()
        self._is_away = True
        self._report_change()

    async def begin_again(self) -> None:
        """Send everything again, because the member has restarted. Where it goes away again, its next start counts.

        Raises:
            TooMuchToKeepError: that is not kept.
        """
        if self._kept is None:
            raise TooMuchToKeepError(f"{self._name} has restarted, and more was sent to it than is kept for it")
        self._present.clear()
        self._failure = None
        self._is_away, self._is_beginning = False, True
        self._report_change()
        written = self._written = {}
        try:
            await self._renew()
            for stage in list(self._kept):
                await self._write(stage, len(self._kept[stage]))
            if self._is_complete:
                await self._flush()
        except PeerError as error:
            if written is self._written:
                self._failure = self._failure or error
        else:
            if written is self._written:
                self._present.set()
        finally:
            if written is self._written:
                self._is_beginning = False
                self._report_change()

    def _report_change(self) -> None:
        self._change.set()
        self._change = asyncio.Event()

    def _keep(self, stage: str, message: Array) -> None:
        if self._kept is None:
            return
        self._kept_bytes += message.nbytes
        if self._kept_bytes > MAX_KEPT_BYTES:
            self._kept = None
            return
        self._kept.setdefault(stage, []).append(message.copy())

    async def _write(self, stage: str, n_arrays: int) -> None:
        """Write the first so many arrays of a stage, as far as they have not been written since the last start."""
        written = self._written
        async with self._turns.setdefault(stage, asyncio.Lock()):
            while written is self._written and written.get(stage, 0) < n_arrays and self._kept is not None:
                await self._write_array(stage, self._kept[stage][written.get(stage, 0)])
                written[stage] = written.get(stage, 0) + 1

    async def _until_done(self, step: Callable[[], Awaitable[None]]) -> None:
        while True:
            await self._until_present()
            written = self._written
            try:
                await step()
            except PeerLostError as error:
                if self._kept is None:
                    raise
                if written is self._written:
                    self._failure = error
                    self._present.clear()
            else:
                if written is self._written:
                    return

    async def _until_present(self) -> None:
        loop = asyncio.get_running_loop()
        due_at_s = loop.time() + self._deadline_s
        while not self._present.is_set():
            if self._is_complete and (self._is_away or self._is_beginning):  # both end by themselves
                await self._change.wait()
                due_at_s = loop.time() + self._deadline_s
                continue
            try:
                async with asyncio.timeout_at(due_at_s):
                    await self._change.wait()
            except TimeoutError:
                what = f"{self._name} does not take what it gets again"
                raise self._failure or PeerLostError(self._member, "", what) from None
