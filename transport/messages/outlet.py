"""The outlet to one (receiver, stage): a stream of frames under flow control, and its acknowledgement."""

import asyncio
import contextlib
import itertools
import math
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from wire.v1.mailbox_pb2 import Delivered, Frame

from mpc.errors import PeerLostError, PeerSilentError
from service.errors import UnreadableError, connection_cause, public
from transport.calls.answers import AnswerChannel, readable
from transport.calls.final_status import FinalStatus
from transport.messages.frames import (
    DELIVER,
    AnyFrame,
    Array,
    array_frames,
    end_frame,
    envelope_frame,
    message_of,
    small_array_frame,
)
from transport.messages.waits import MIN_BYTES_PER_S


def delivery(channel: Any) -> Any:
    """Return the way to call the mailbox of the member that a channel leads to, with a stream of frames."""
    return AnswerChannel(channel).stream_unary(
        DELIVER, request_serializer=message_of, response_deserializer=Delivered.FromString
    )


class Outlet:
    """Arrays of one stage on their way to one member. At most one call at a time; it may be ended and begun again.

    A small array is one message, with the envelope of its stream if it opens that. The stream stays open after it: that
    it breaks is how the receiver learns at once that we are gone.

    Args:
        deliver: see `delivery`.
        job_id, stage: fields of the envelope.
        member: the receiver's number.
        name: its name, for error texts.
        deadline_s: a write that makes no progress for so long fails, and so does an array of B bytes that is not taken
            within twice that (the receiver may have to make room) and B / MIN_BYTES_PER_S seconds.
        calls: bounds the calls in flight of the whole session.
        on_lost: told the reason when a call fails, also while nobody sends.
        after_first: whether the first array of the stage went another way: see `transport.messages.first_arrays`.
    """

    def __init__(
        self,
        deliver: Callable[[], Any],
        job_id: str,
        stage: str,
        *,
        member: int,
        name: str,
        deadline_s: float,
        calls: asyncio.Semaphore,
        on_lost: Callable[[int, str], None],
        after_first: bool = False,
    ) -> None:
        self._deliver = deliver
        self._job_id = job_id
        self._stage = stage
        self._member = member
        self._name = name
        self._deadline_s = deadline_s
        self._calls = calls
        self._on_lost = on_lost
        self._call: Any = None
        self._ending: asyncio.Task[None] | None = None
        self._accepts = False
        self._failure: str | None = None
        self._after_first = after_first
        self._n_sent = self._n_acknowledged = int(after_first)
        self._turn = asyncio.Lock()

    @property
    def is_busy(self) -> bool:
        """Whether an array is being written."""
        return self._turn.locked()

    async def send(self, array: Array) -> None:
        """Write one array. Returns when it may be overwritten.

        Raises:
            PeerLostError: the call failed.
            PeerSilentError: the receiver took nothing for the deadline.
            ValueError: the array is no valid message.
        """
        async with self._turn:
            frames = array_frames(array, self._n_sent)
            header = next(frames)  # refuses what is no message before the stream has an unfinished array
            opens = () if self._accepts else (self._envelope(),)
            together = small_array_frame(array, self._n_sent, *opens)
            if not self._accepts:
                await self._begin()
            due_at_s = asyncio.get_running_loop().time() + 2 * self._deadline_s + array.nbytes / MIN_BYTES_PER_S
            for frame in itertools.chain(opens, (header,), frames) if together is None else (together,):
                await self._write(frame, due_at_s)
            self._n_sent += 1

    def _envelope(self) -> Frame:
        return envelope_frame(self._job_id, self._stage, after_first=self._after_first)

    async def end(self) -> None:
        """End the stream for now; `acknowledged` waits until the receiver has taken everything.

        Raises:
            PeerSilentError: the receiver took nothing for the deadline.
        """
        async with self._turn:
            if self._accepts:
                self._accepts = False
                with contextlib.suppress(PeerLostError):
                    await self._write(end_frame())

    async def acknowledged(self) -> None:
        """Wait until the receiver has acknowledged all that was sent; call `end` first.

        Raises:
            PeerLostError: the call failed, or the receiver ended the job before it took everything.
            PeerSilentError: no acknowledgement within the deadline.
        """
        if self._ending is not None:
            await self._in_time(asyncio.shield(self._ending))
        if self._failure is not None:
            raise self._lost(self._failure)
        if self._n_acknowledged != self._n_sent:
            raise self._lost("it ended the job before it took all that we sent")

    def cancel(self, reason: str) -> None:
        """Give up at once: what waits to be sent fails with this reason."""
        self._failure = self._failure or reason
        if self._call is not None:
            self._call.cancel()

    async def _begin(self) -> None:
        await self.acknowledged()  # a stage continues only where its last stream is known to have ended
        await self._in_time(self._calls.acquire())
        self._call = self._deliver()
        self._ending = asyncio.create_task(self._watch(self._call, FinalStatus(self._call)))
        self._accepts = True

    async def _watch(self, call: Any, final: FinalStatus) -> None:
        """Wait for the end of a call and note how it ended."""
        try:
            status, details = await final.wait()
            if status is grpc.StatusCode.OK:
                try:
                    answer = readable(await call, self._name, f"send stage {self._stage}")
                    self._n_acknowledged = answer.n_arrays
                except UnreadableError as error:
                    self._failure = self._failure or str(error)
                except grpc.aio.AioRpcError:  # the answer was lost with the status that `FinalStatus` saved
                    self._n_acknowledged = self._n_sent
            elif self._failure is None:
                unavailable = status is grpc.StatusCode.UNAVAILABLE
                self._failure = connection_cause(details) if unavailable else public(details) or status.name
                self._on_lost(self._member, self._failure)
        finally:
            self._calls.release()
            self._call = self._ending = None  # kilobytes, and a job has a stage for each of its steps

    async def _write(self, frame: AnyFrame, due_at_s: float = math.inf) -> None:
        if self._call is None:
            raise self._lost(self._failure or "it has ended the job")
        try:
            await self._in_time(self._call.write(frame), due_at_s)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError) as error:
            if self._ending is not None:
                await self._in_time(asyncio.shield(self._ending))
            raise self._lost(self._failure or "it has ended the job") from error
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if self._failure is not None and task is not None and not task.cancelling():
                raise self._lost(self._failure) from error  # gRPC raises this too where `cancel` ended the call
            self.cancel("sending was cancelled half-way")
            raise

    async def _in_time(self, step: Awaitable[Any], due_at_s: float = math.inf) -> None:
        silent_at_s = asyncio.get_running_loop().time() + self._deadline_s
        try:
            async with asyncio.timeout_at(min(silent_at_s, due_at_s)):
                await step
        except TimeoutError:
            what = f"{self._name} took nothing for {self._deadline_s:g} s in stage {self._stage}"
            if due_at_s < silent_at_s:
                what = f"{self._name} took an array too slowly in stage {self._stage}"
            self.cancel(what)
            self._on_lost(
                self._member, what
            )  # the array that it did not take is lost, and the order of the others with it
            raise PeerSilentError(self._member, self._stage, what) from None

    def _lost(self, cause: str) -> PeerLostError:
        return PeerLostError(self._member, self._stage, f"cannot send to {self._name} in stage {self._stage}: {cause}")
