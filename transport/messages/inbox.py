"""The inbox of one job: bounded queues per (sender, stage)."""

import asyncio
from collections.abc import Collection, Mapping

import numpy as np

from mpc.errors import PeerError, PeerLostError, PeerSilentError, PeerSlowError, PeerViolationError
from service.errors import WrongStateError
from transport.messages.first_arrays import place_of
from transport.messages.frames import FIRST_ARRAYS, Array
from transport.messages.memory_limits import Share, charge
from transport.messages.stream_reader import STAGE_BYTES, StreamReader
from transport.messages.waits import Waits


class Inbox(StreamReader):
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
        super().__init__(names, stage_bytes=stage_bytes, shares=shares, returning=returning)
        self.waits = Waits(asyncio.get_running_loop().time)
        """The waits of this member for others."""

    @property
    def closed(self) -> asyncio.Future[str | None]:
        """Done when the inbox is closed. Its result is the reason, None where the job simply ended."""
        return self._closed

    @property
    def waiting_bytes(self) -> int:
        """Memory reserved for arrays that have not been received yet."""
        return sum(sender.waiting_bytes for sender in self._senders.values())

    def n_received(self, member: int, stage: str) -> int:
        """Return how many arrays of (member, stage), or of its stream of first arrays, have been received."""
        if stage == FIRST_ARRAYS:
            return self._senders[member].n_first_received
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
        what = f"{self._names[member]} broke the protocol {place_of(stage)}: the stream was cut short"
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
                    self._release(sender, queue, charge(array.nbytes))
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
            stage: stage of the array.
            shape: shape of the array.
            dtype: element type of the array.
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
        if queue.has_first and not queue.n_received:
            sender.n_first_received += 1
            sender.first_bytes -= charge(array.nbytes)
        queue.n_received += 1
        self._release(sender, queue, charge(array.nbytes))
        if (array.dtype, array.shape) != (np.dtype(dtype), tuple(shape)):
            raise self._fail(self._unexpected(member, stage))
        return array

    async def _arrival(self, member: int, stage: str, deadline_s: float, transfer_s: float) -> None:
        """Wait until a stage has an array."""
        sender, queue, loop = self._senders[member], self._stage(member, stage), asyncio.get_running_loop()
        queue.received_at_s = loop.time()
        while not queue.arrays:
            if self._closed.done():
                raise WrongStateError(self._ended())
            if sender.failure is not None:
                raise type(sender.failure)(member, stage, sender.failure.what)
            silent_at_s, due_at_s = queue.received_at_s + deadline_s, queue.due_at_s(transfer_s)
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
