"""The service through which members deliver arrays: who may put what into which job's inbox."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Collection, Mapping
from typing import Any

import grpc
from wire.v1.mailbox_pb2 import Delivered, Envelope
from wire.v1.mailbox_pb2_grpc import MailboxServicer

from service.errors import AlreadyExistsError, InvalidRequestError, NotAllowedError, NotFoundError, WrongStateError
from service.identity import Identity, peer_identity
from service.job_id import check_job_id
from transport.messages.first_arrays import place_of
from transport.messages.frames import DELIVER, AnyFrame, FrameError, Unbundled, check_envelope, read_frame
from transport.messages.inbox import Inbox
from transport.messages.memory_limits import ReceiveMemory

CUT_OFF_S = 1.0
"""gRPC reports the end of a stream just before it reports that the connection broke. This is "just", generously."""
DRAIN_S = 30.0
"""After a job's orderly end, how long to wait for the end of a stream that nobody needs any more."""
MAX_ENDED_JOBS = 10_000
"""Number of ended jobs to remember, to answer latecomers with the reason."""


class Mailboxes:
    """The inboxes of all jobs that run here, each with its roster.

    Open a job's mailbox when it is accepted, not when it starts: members start one after another, and the first one's
    messages must find it.
    """

    def __init__(self) -> None:
        self._room = ReceiveMemory()
        self._open: dict[str, tuple[Inbox, dict[Identity, int]]] = {}
        self._ended: OrderedDict[str, str | None] = OrderedDict()

    def open(self, job_id: str, roster: Mapping[Identity, int], *, returning: Collection[int] = ()) -> Inbox:
        """Make the inbox of a job.

        Args:
            job_id: never used before.
            roster: who may send, and the member number of each.
            returning: numbers of the members that may restart.

        Raises:
            AlreadyExistsError: the job has or had a mailbox here.
            InvalidRequestError: the id is none.
        """
        check_job_id(job_id)
        if job_id in self._open or job_id in self._ended:
            raise AlreadyExistsError(f"job {job_id} has been opened before")
        inbox = Inbox(
            {number: identity.name for identity, number in roster.items()},
            shares={number: self._room.share_of(identity) for identity, number in roster.items()},
            returning=returning,
        )
        self._open[job_id] = (inbox, dict(roster))
        return inbox

    def close(self, job_id: str, reason: str | None = None) -> None:
        """End a job's mailbox; unknown jobs are ignored.

        Args:
            job_id: the job.
            reason: public text of why the job failed; None where it simply ended.
        """
        entry = self._open.pop(job_id, None)
        if entry is None:
            return
        entry[0].close(reason)
        self._ended[job_id] = reason
        if len(self._ended) > MAX_ENDED_JOBS:
            self._ended.popitem(last=False)

    def admit(self, job_id: str, caller: Identity) -> tuple[Inbox, int]:
        """Return the inbox for a caller, and its member number.

        Raises:
            NotFoundError: no such job.
            WrongStateError: the job has ended.
            NotAllowedError: the caller is not in its roster.
        """
        if job_id in self._ended:
            reason = self._ended[job_id]
            raise WrongStateError(f"job {job_id} has ended" + (f": {reason}" if reason else ""))
        if job_id not in self._open:
            raise NotFoundError(f"there is no job {job_id} here")
        inbox, roster = self._open[job_id]
        if caller not in roster:
            raise NotAllowedError(f"{caller} is not a member of job {job_id}")
        return inbox, roster[caller]


class MailboxService(MailboxServicer):
    """`moiety.v1.Mailbox` over the inboxes of this process."""

    def __init__(self, mailboxes: Mailboxes) -> None:
        self._mailboxes = mailboxes

    def add_to(self, server: Any) -> None:
        """Register the service, with a decoder of our own: bytes that are no frame are the sender's fault."""
        deliver = grpc.stream_unary_rpc_method_handler(
            self.Deliver, request_deserializer=read_frame, response_serializer=Delivered.SerializeToString
        )
        service, method = DELIVER.lstrip("/").split("/")
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: deliver}),))

    async def Deliver(self, request_iterator: AsyncIterator[AnyFrame], context: Any) -> Delivered:  # noqa: N802 - gRPC's name
        """Take one stream of frames into the inbox of its job.

        Ends with the number of arrays taken when the caller has no more. Where the job ends before, the caller hears a
        reason at once; without one, what it still sends is read and thrown away.
        """
        caller = peer_identity(context)
        frames = Unbundled(aiter(request_iterator))
        try:
            envelope = check_envelope(await anext(frames))
        except StopAsyncIteration:
            raise InvalidRequestError("a stream must begin with an envelope, but this one has no frame") from None
        except FrameError as error:
            raise InvalidRequestError(str(error)) from error
        job_id, stage = check_job_id(envelope.job_id), envelope.stage
        inbox, member = self._mailboxes.admit(job_id, caller)
        reading = asyncio.create_task(self._read(inbox, member, envelope, frames))
        try:
            await asyncio.wait((reading, inbox.closed), return_when=asyncio.FIRST_COMPLETED)
            if not reading.done() and inbox.closed.result() is None:
                await asyncio.wait((reading,), timeout=DRAIN_S)
        except asyncio.CancelledError:
            inbox.mark_lost(member, f"its connection broke {place_of(stage)}")
            raise
        finally:
            reading.cancel()
        if reading.done():
            return Delivered(n_arrays=await reading)
        reason = inbox.closed.result()
        if reason is not None:
            raise WrongStateError(f"job {job_id} has ended: {reason}")
        return Delivered(n_arrays=inbox.n_received(member, stage))

    @staticmethod
    async def _read(inbox: Inbox, member: int, envelope: Envelope, frames: AsyncIterator[AnyFrame]) -> int:
        """Take a stream; where it is cut off, find out whether by the network or by the sender."""
        n_arrays = await inbox.take(member, envelope.stage, frames, after_first=envelope.after_first)
        if n_arrays is None:
            await asyncio.sleep(CUT_OFF_S)  # a broken connection cancels the call meanwhile
            raise inbox.mark_cut_off(member, envelope.stage)
        return n_arrays
