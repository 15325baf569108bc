"""Reading the streams that members send in one job: what is let in, when, and what is refused.

Memory is bounded by back-pressure: an announced array is not read from the network before there is room for it, and
gRPC's flow control then holds its sender. There is always room for the array that somebody waits for, so a stage that
nobody reads yet cannot block the one that is needed; for small first arrays see `transport.messages.first_arrays`.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping

from mpc.errors import PeerError, PeerViolationError
from service.errors import AlreadyExistsError, TooMuchError, UnreadableError, WrongStateError
from transport.messages.arrivals import Sender, Stage
from transport.messages.first_arrays import FIRST_BYTES, place_of, read_first_array
from transport.messages.frames import (
    FIRST_ARRAYS,
    Announcement,
    AnyFrame,
    Array,
    FrameError,
    StreamDecoder,
    part_of,
)
from transport.messages.memory_limits import ReceiveMemory, Share, charge

STAGE_BYTES = 32 << 20
MAX_STAGES = 100_000
MAX_UNASKED_STAGES = 1000
"""Number of stages of one member that may begin before this member receives from them; further ones are not read
yet."""


async def _change(room: ReceiveMemory) -> None:
    """Wait until something is no longer held here, or is asked for."""
    room.changed.clear()
    await room.changed.wait()


class StreamReader:
    """What members of one job send, as it is read; made as an `Inbox` is."""

    def __init__(
        self,
        names: Mapping[int, str],
        *,
        stage_bytes: int = STAGE_BYTES,
        shares: Mapping[int, Share] | None = None,
        returning: Collection[int] = (),
    ) -> None:
        self._names = dict(names)
        self._returning = frozenset(returning)
        self._stage_bytes = stage_bytes
        own_room = ReceiveMemory()
        self._senders = {member: Sender(shares[member] if shares else own_room.share_of(member)) for member in names}
        self._closed: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self.violated: asyncio.Future[PeerError] = asyncio.get_running_loop().create_future()
        """Done when a member that may restart has broken the protocol; its result says how."""
        self.bytes_received: dict[str, int] = {}
        """Payload bytes by stage. Private to this member, because it reveals the number of rows."""
        self.bytes_from: dict[int, int] = dict.fromkeys(names, 0)
        """The same by member."""

    async def take(
        self, member: int, stage: str, frames: AsyncIterator[AnyFrame], *, after_first: bool = False
    ) -> int | None:
        """Read one stream, from behind its envelope to its end; it continues where the stage's last one ended.

        If the job ends in order meanwhile, the rest of the stream is thrown away, but read: where the answer comes
        before the last frame, gRPC can make the caller's writes fail as if the connection were broken.

        Args:
            member: the sender.
            stage: stage of all arrays in the stream; FIRST_ARRAYS for the stream of first arrays.
            frames: frames of the stream.
            after_first: whether the stage's first array comes in the stream of first arrays, before these.

        Returns:
            How many arrays of this stage, or of the stream of first arrays, have arrived since the member began (after
            the end of the job: how many were received); None if it was cut off.

        Raises:
            AlreadyExistsError: another stream of this stage is open.
            WrongStateError: the job has ended with a reason, or the member counts as dropped out.
            PeerViolationError: a frame breaks a rule.
        """
        sender = self._senders[member]
        start, me = sender.start, asyncio.current_task()
        assert me is not None
        sender.readers.add(me)
        try:
            if stage == FIRST_ARRAYS:
                return await self._take_first_arrays(member, frames)
            await self._room_for_stage(member, stage)
            if after_first:
                await self._first_of(member, stage)
            return await self._take(member, stage, frames)
        except asyncio.CancelledError:
            if sender.start == start:
                raise
            raise WrongStateError(f"{self._names[member]} has begun again") from None
        finally:
            sender.readers.discard(me)

    async def _take(self, member: int, stage: str, frames: AsyncIterator[AnyFrame]) -> int | None:
        sender, queue = self._senders[member], self._stage(member, stage)
        if queue.is_open:
            raise AlreadyExistsError(f"{self._names[member]} already has an open stream of stage {stage}")
        self._refuse_if_over(member)
        loop = asyncio.get_running_loop()
        decoder = StreamDecoder(queue.n_streamed)
        reserved_bytes, start = 0, sender.start
        queue.is_open = True
        try:
            async for frame in frames:
                part = part_of(frame)
                if self._has_ended_in_order():
                    if part == "end":
                        return queue.n_received
                    continue
                self._refuse_if_over(member)
                if part in ("header", "chunk"):  # to end a stream and begin it again is no sign of progress
                    queue.received_at_s = loop.time()
                step = decoder.feed(frame)
                del frame  # not a megabyte kept by every stream that waits for its next frame
                if queue.is_repeated:
                    if not queue.hear_again(decoder, step):
                        raise self._fail(self._contradiction(member, stage))
                    if decoder.has_ended:
                        return queue.n_streamed
                    continue
                if isinstance(step, Announcement):
                    await self._room(member, stage, step)
                    if self._has_ended_in_order():
                        continue
                    reserved_bytes = charge(step.n_bytes)
                    self._reserve(sender, queue, reserved_bytes)
                    queue.transfer = (loop.time(), step.n_bytes)
                    step = decoder.accept()
                if step is not None:
                    reserved_bytes = 0
                    queue.transfer = None
                    self._add(member, stage, step)
                if decoder.has_ended:
                    return queue.n_streamed
        except (FrameError, UnreadableError) as error:
            what = f"{self._names[member]} broke the protocol {place_of(stage)}: {error}"
            raise self._fail(PeerViolationError(member, stage, what)) from error
        finally:
            if sender.start == start:
                queue.is_open = False
                queue.transfer = None
            self._release(sender, queue, reserved_bytes)
        return None

    async def _take_first_arrays(self, member: int, frames: AsyncIterator[AnyFrame]) -> int | None:
        """Read the stream of first arrays, see `transport.messages.first_arrays`; otherwise as `_take`."""
        sender = self._senders[member]
        if sender.is_first_open:
            raise AlreadyExistsError(f"{self._names[member]} already has an open stream of first arrays")
        self._refuse_if_over(member)
        start, stage, loop = sender.start, FIRST_ARRAYS, asyncio.get_running_loop()
        sender.is_first_open = True
        try:
            async for frame in frames:
                if part_of(frame) == "end":
                    return sender.n_first_received if self._has_ended_in_order() else sender.n_first_streamed
                if self._has_ended_in_order():
                    continue
                self._refuse_if_over(member)
                stage, array = read_first_array(frame)
                await self._room_for_stage(member, stage)
                queue = self._stage(member, stage)
                if queue.n_streamed or queue.is_open:
                    raise FrameError("the first array of a stage came twice, or after others")
                queue.received_at_s = loop.time()
                if queue.is_repeated:
                    if not queue.hear_first_again(array):
                        raise self._fail(self._contradiction(member, stage))
                else:
                    await self._room_for_first(member, stage, array)
                    if self._has_ended_in_order():
                        continue
                    self._add(member, stage, array)
                sender.n_first_streamed += 1
        except (FrameError, UnreadableError) as error:
            what = f"{self._names[member]} broke the protocol {place_of(stage)}: {error}"
            raise self._fail(PeerViolationError(member, stage, what)) from error
        finally:
            if sender.start == start:
                sender.is_first_open = False
        return None

    async def _room_for_first(self, member: int, stage: str, array: Array) -> None:
        """Wait until a first array may be held here, and count it; refuse it first if it is not what is waited for."""
        sender, queue, n_bytes = self._senders[member], self._stage(member, stage), charge(array.nbytes)
        if queue.expected is not None and (array.dtype, array.shape) != queue.expected:
            raise self._fail(self._unexpected(member, stage))
        while not (
            self._has_ended_in_order()
            or queue.expected is not None
            or sender.first_bytes + n_bytes <= FIRST_BYTES
            or sender.share.has_room_for(n_bytes)
        ):
            self._refuse_if_over(member)
            await _change(sender.share.room)
        if not self._has_ended_in_order():
            queue.has_first = True
            sender.first_bytes += n_bytes
            self._reserve(sender, queue, n_bytes)

    def _add(self, member: int, stage: str, array: Array) -> None:
        self._senders[member].stages[stage].add(array, may_return=member in self._returning)
        self.bytes_received[stage] = self.bytes_received.get(stage, 0) + array.nbytes
        self.bytes_from[member] += array.nbytes

    def _contradiction(self, member: int, stage: str) -> PeerViolationError:
        what = f"{self._names[member]} says something else in stage {stage} than before it restarted"
        return PeerViolationError(member, stage, what)

    async def _room_for_stage(self, member: int, stage: str) -> None:
        """Wait until a stage may begin: nobody fills our memory with stages that no program here knows."""
        sender = self._senders[member]
        while stage not in sender.stages and sender.n_unasked >= MAX_UNASKED_STAGES:
            self._refuse_if_over(member)
            await _change(sender.share.room)

    async def _first_of(self, member: int, stage: str) -> None:
        """Wait until the first array of a stage has come in the stream of first arrays."""
        queue = self._stage(member, stage)
        while not queue.n_streamed and not self._has_ended_in_order():
            self._refuse_if_over(member)
            queue.changed.clear()
            await queue.changed.wait()

    async def _room(self, member: int, stage: str, announced: Announcement) -> None:
        """Wait until an announced array may be read; refuse it first if it is not the one that is waited for."""
        sender, queue = self._senders[member], self._stage(member, stage)
        while not self._has_ended_in_order():
            self._refuse_if_over(member)
            if queue.expected is not None and not queue.arrays:
                if (announced.dtype, announced.shape) != queue.expected:
                    raise self._fail(self._unexpected(member, stage))
                return
            n_bytes = charge(announced.n_bytes)
            in_stage = not queue.arrays or queue.waiting_bytes + n_bytes <= self._stage_bytes
            if in_stage and sender.share.has_room_for(n_bytes):
                return
            await _change(sender.share.room)

    def _stage(self, member: int, stage: str) -> Stage:
        sender = self._senders[member]
        if stage not in sender.stages:
            if len(sender.stages) >= MAX_STAGES:
                raise TooMuchError(f"more than {MAX_STAGES} stages from {self._names[member]} in one job")
            sender.stages[stage] = Stage()
            sender.n_unasked += 1
        return sender.stages[stage]

    def _reserve(self, sender: Sender, queue: Stage, n_bytes: int) -> None:
        queue.waiting_bytes += n_bytes
        sender.waiting_bytes += n_bytes
        sender.share.take(n_bytes)

    def _release(self, sender: Sender, queue: Stage, n_bytes: int) -> None:
        queue.waiting_bytes -= n_bytes
        sender.waiting_bytes -= n_bytes
        sender.share.give_back(n_bytes)

    def _fail(self, failure: PeerError) -> PeerError:
        """Note the first failure of a member and wake everybody who waits for it."""
        sender = self._senders[failure.member]
        if sender.failure is None:
            sender.failure = failure
        if failure.member in self._returning and not self.violated.done():
            self.violated.set_result(failure)
        sender.share.room.changed.set()
        for queue in sender.stages.values():
            queue.changed.set()
        return failure

    def _has_ended_in_order(self) -> bool:
        return self._closed.done() and self._closed.result() is None

    def _refuse_if_over(self, member: int) -> None:
        if self._closed.done():
            raise WrongStateError(self._ended())
        failure = self._senders[member].failure
        if failure is not None:
            raise WrongStateError(f"this job continues without {self._names[member]}: {failure.what}")

    def _ended(self) -> str:
        reason = self._closed.result()
        return "the job has ended" if reason is None else f"the job has ended: {reason}"

    def _unexpected(self, member: int, stage: str) -> PeerViolationError:
        what = f"{self._names[member]} sent an array of another shape or type than stage {stage} expects"
        return PeerViolationError(member, stage, what)
