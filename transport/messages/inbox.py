"""The inbox of one job: bounded queues per (sender, stage).

Memory is bounded by back-pressure: an announced array is not read from the network before there is room for it, and
gRPC's flow control then holds its sender. There is always room for the array that somebody waits for, so a stage that
nobody reads yet cannot block the one that is needed.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Collection, Mapping

import numpy as np

from mpc.errors import PeerError, PeerLostError, PeerSilentError, PeerSlowError, PeerViolationError
from service.errors import AlreadyExistsError, TooMuchError, UnreadableError, WrongStateError
from transport.messages.arrivals import Sender, Stage
from transport.messages.frames import Announcement, AnyFrame, Array, FrameError, StreamDecoder, part_of
from transport.messages.room import Room, Share
from transport.messages.waits import MIN_BYTES_PER_S, Waits

STAGE_BYTES = 32 << 20
MIN_CHARGE_BYTES = 1024
"""Bytes that every array counts as at least, so that the number of empty arrays is bounded, too."""
MAX_STAGES = 100_000
MAX_UNASKED_STAGES = 1000
"""Number of stages of one member that may begin before this member receives from them; further ones are not read
yet."""


def _charge(n_bytes: int) -> int:
    return max(n_bytes, MIN_CHARGE_BYTES)


def _due_at_s(queue: Stage, transfer_s: float) -> float:
    """Return when the array that is being read must be there; a time when nobody waited for it does not count."""
    if queue.transfer is None:
        return math.inf
    began_at_s, n_bytes = queue.transfer
    return max(began_at_s, queue.awaited_at_s or 0.0) + transfer_s + n_bytes / MIN_BYTES_PER_S


async def _change(room: Room) -> None:
    """Wait until something lies here no more, or is asked for."""
    room.changed.clear()
    await room.changed.wait()


class Inbox:
    """All that arrives for one job.

    Args:
        names: member number to name, for error texts. Exactly these members may send.
        stage_bytes: what may wait in one stage, if it is more than one array.
        shares: member number to its share of the memory; by default members share that of a room of their own.
        returning: members that may restart: that one went away is not the end of what it sends.
    """

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
        own_room = Room()
        self._senders = {member: Sender(shares[member] if shares else own_room.share_of(member)) for member in names}
        loop = asyncio.get_running_loop()
        self._closed: asyncio.Future[str | None] = loop.create_future()
        self.violated: asyncio.Future[PeerError] = loop.create_future()
        """Done when a member that may restart has broken the protocol; its result says how."""
        self.waits = Waits(loop.time)
        """The waits of this member for others."""
        self.bytes_received: dict[str, int] = {}
        """Payload bytes by stage. Private to this member, because it reveals the number of rows."""
        self.bytes_from: dict[int, int] = dict.fromkeys(names, 0)
        """The same by member."""

    @property
    def closed(self) -> asyncio.Future[str | None]:
        """Done when the inbox is closed. Its result is the reason, None where the job simply ended."""
        return self._closed

    @property
    def waiting_bytes(self) -> int:
        """Memory reserved for arrays that have not been received yet."""
        return sum(sender.waiting_bytes for sender in self._senders.values())

    def n_received(self, member: int, stage: str) -> int:
        """Return how many arrays of (member, stage) have been received."""
        queue = self._senders[member].stages.get(stage)
        return 0 if queue is None else queue.n_received

    def failure(self, member: int) -> PeerError | None:
        """Return why nothing more is taken from a member; None while all is well."""
        return self._senders[member].failure

    def mark_lost(self, member: int, reason: str) -> None:
        """Mark a member as dropped out: receives from it fail once the arrays that it delivered before are used up.

        One that may restart is only silent.
        """
        if member in self._returning:
            return
        self._fail(PeerLostError(member, "", f"{self._names[member]} has dropped out: {reason}"))

    def give_up(self, silence: PeerSilentError) -> None:
        """Go on without an array that did not come, and listen to its stage no more.

        What comes later could be taken for the answer to a later question.
        """
        queue = self._stage(silence.member, silence.stage)
        queue.given_up = queue.given_up or silence

    def begin_again(self, member: int) -> None:
        """Listen to a member that has restarted: it sends all again, and what has arrived before must be the same."""
        self._senders[member].begin_again()

    def mark_cut_off(self, member: int, stage: str) -> PeerError:
        """Say that a member stopped in the middle of a stream though the connection is well; return the violation.

        One that may restart has perhaps just died: it goes on where the stream ended, or begins again.
        """
        what = f"{self._names[member]} broke the protocol in stage {stage}: the stream was cut short"
        violation = PeerViolationError(member, stage, what)
        return violation if member in self._returning else self._fail(violation)

    def close(self, reason: str | None = None) -> None:
        """End it: nothing is taken any more, waiting receives fail, the memory is released.

        Args:
            reason: public text of why the job failed; None where it simply ended.
        """
        if self._closed.done():
            return
        self._closed.set_result(reason)
        for sender in self._senders.values():
            for queue in sender.stages.values():
                for array in queue.arrays:
                    self._release(sender, queue, _charge(array.nbytes))
                queue.arrays.clear()
                queue.changed.set()
            sender.share.room.changed.set()

    async def receive(
        self,
        member: int,
        stage: str,
        shape: tuple[int, ...],
        dtype: type,
        deadline_s: float,
        transfer_s: float | None = None,
    ) -> Array:
        """Return the next array of (member, stage); several calls for one stage are served in order.

        Args:
            member: the sender.
            stage: of the array.
            shape: of the array.
            dtype: of the array.
            deadline_s: silence of the sender for so long is an error.
            transfer_s: an array of B bytes that has begun to come comes within so long and B / MIN_BYTES_PER_S
                seconds from the time on when it was asked for; by default `deadline_s`.

        Raises:
            PeerSilentError: no byte of it came for `deadline_s`. It is still due: see
            `mpc.protocol.session.Session.receive`.
            PeerSlowError: it began to come, and did not end in time.
            PeerLostError, PeerViolationError: see `mpc.protocol.session.Session.receive`.
            WrongStateError: the inbox is closed.
        """
        sender, queue = self._senders[member], self._stage(member, stage)
        if not queue.is_asked_for:
            queue.is_asked_for = True
            sender.n_unasked -= 1
        async with queue.turn:
            if queue.given_up is not None:
                raise PeerLostError(member, stage, queue.given_up.what)
            queue.expected = (np.dtype(dtype), tuple(shape))
            if queue.awaited_at_s is None:
                queue.awaited_at_s = asyncio.get_running_loop().time()
            sender.share.room.changed.set()
            try:
                with self.waits.waiting_for(member):
                    await self._arrival(member, stage, deadline_s, deadline_s if transfer_s is None else transfer_s)
                array = queue.arrays.popleft()
                queue.awaited_at_s = None
            finally:
                queue.expected = None
        queue.n_received += 1
        self._release(sender, queue, _charge(array.nbytes))
        if (array.dtype, array.shape) != (np.dtype(dtype), tuple(shape)):
            raise self._fail(self._unexpected(member, stage))
        return array

    async def take(self, member: int, stage: str, frames: AsyncIterator[AnyFrame]) -> int | None:
        """Read one stream, from behind its envelope to its end; it continues where the stage's last one ended.

        If the job ends in order meanwhile, the rest of the stream is thrown away, but read: where the answer comes
        before the last frame, gRPC can make the caller's writes fail as if the connection were broken.

        Returns:
            How many arrays of this stage have arrived since the member began (after the end of the job: how many were
            received); None if it was cut off.

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
            await self._room_for_stage(member, stage)
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
                if queue.n_streamed < queue.n_arrived:
                    self._check_repetition(member, stage, decoder, step)
                    if decoder.has_ended:
                        return queue.n_streamed
                    continue
                if isinstance(step, Announcement):
                    await self._room(member, stage, step)
                    if self._has_ended_in_order():
                        continue
                    reserved_bytes = _charge(step.n_bytes)
                    sender.waiting_bytes += reserved_bytes
                    sender.share.take(reserved_bytes)
                    queue.waiting_bytes += reserved_bytes
                    queue.transfer = (loop.time(), step.n_bytes)
                    step = decoder.accept()
                if step is not None:
                    reserved_bytes = 0
                    queue.transfer = None
                    queue.n_arrived += 1
                    queue.n_streamed += 1
                    if member in self._returning:
                        queue.said.note(step)
                    queue.arrays.append(step)
                    queue.changed.set()
                    self.bytes_received[stage] = self.bytes_received.get(stage, 0) + step.nbytes
                    self.bytes_from[member] += step.nbytes
                if decoder.has_ended:
                    return queue.n_streamed
        except (FrameError, UnreadableError) as error:
            what = f"{self._names[member]} broke the protocol in stage {stage}: {error}"
            raise self._fail(PeerViolationError(member, stage, what)) from error
        finally:
            if sender.start == start:
                queue.is_open = False
                queue.transfer = None
            self._release(sender, queue, reserved_bytes)
        return None

    def _check_repetition(
        self, member: int, stage: str, decoder: StreamDecoder, step: Announcement | Array | None
    ) -> None:
        """Compare what a restarted member says with what it said before, as it comes: it takes no room.

        Raises:
            PeerViolationError: it is something else.
        """
        queue = self._senders[member].stages[stage]
        number, is_same = queue.n_streamed, True
        if isinstance(step, Announcement):
            is_same = queue.said.begin_to_hear(number, step)
            if is_same:
                decoder.pass_over(queue.said.hear)
        if decoder.next_sequence > number:
            is_same = queue.said.is_same(number)
            queue.n_streamed += 1
        if not is_same:
            what = f"{self._names[member]} says something else in stage {stage} than before it restarted"
            raise self._fail(PeerViolationError(member, stage, what))

    async def _room_for_stage(self, member: int, stage: str) -> None:
        """Wait until a stage may begin: nobody fills our memory with stages that no program here knows."""
        sender = self._senders[member]
        while stage not in sender.stages and sender.n_unasked >= MAX_UNASKED_STAGES:
            self._refuse_if_over(member)
            await _change(sender.share.room)

    async def _room(self, member: int, stage: str, announced: Announcement) -> None:
        """Wait until an announced array may be read; refuse it first if it is not the one that is waited for."""
        sender, queue = self._senders[member], self._stage(member, stage)
        while not self._has_ended_in_order():
            self._refuse_if_over(member)
            if queue.expected is not None and not queue.arrays:
                if (announced.dtype, announced.shape) != queue.expected:
                    raise self._fail(self._unexpected(member, stage))
                return
            n_bytes = _charge(announced.n_bytes)
            in_stage = not queue.arrays or queue.waiting_bytes + n_bytes <= self._stage_bytes
            if in_stage and sender.share.has_room_for(n_bytes):
                return
            await _change(sender.share.room)

    async def _arrival(self, member: int, stage: str, deadline_s: float, transfer_s: float) -> None:
        """Wait until a stage has an array."""
        sender, queue, loop = self._senders[member], self._stage(member, stage), asyncio.get_running_loop()
        queue.received_at_s = loop.time()
        while not queue.arrays:
            if self._closed.done():
                raise WrongStateError(self._ended())
            if sender.failure is not None:
                raise type(sender.failure)(member, stage, sender.failure.what)
            silent_at_s, due_at_s = queue.received_at_s + deadline_s, _due_at_s(queue, transfer_s)
            if loop.time() >= due_at_s:
                what = f"{self._names[member]} is too slow in stage {stage}: an array came at less than the least rate"
                raise PeerSlowError(member, stage, what)
            if loop.time() >= silent_at_s:
                what = f"{self._names[member]} sent nothing for {deadline_s:g} s in stage {stage}"
                raise PeerSilentError(member, stage, what)
            queue.changed.clear()
            try:
                # A transfer that begins meanwhile is not due before another `transfer_s`.
                async with asyncio.timeout_at(min(silent_at_s, due_at_s, loop.time() + transfer_s)):
                    await queue.changed.wait()
            except TimeoutError:
                continue  # bytes may have come since: look at the clock again

    def _stage(self, member: int, stage: str) -> Stage:
        sender = self._senders[member]
        if stage not in sender.stages:
            if len(sender.stages) >= MAX_STAGES:
                raise TooMuchError(f"more than {MAX_STAGES} stages from {self._names[member]} in one job")
            sender.stages[stage] = Stage()
            sender.n_unasked += 1
        return sender.stages[stage]

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
