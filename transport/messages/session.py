"""`mpc.protocol.session.Session` over gRPC: one member's end of a job."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, ParamSpec, TypeVar

import numpy as np
import structlog
from numpy.typing import NDArray

from entropy import Entropy
from mpc.errors import LocalFaultError, PeerError, PeerLostError, PeerSilentError, PeerViolationError
from mpc.protocol.greeting import binding_of
from mpc.protocol.session import Array, Drawable
from service.errors import UnauthenticatedError, UnreachableError
from transport.calls.channel import CHECK_S, told_name
from transport.calls.leader import find_leader, wait_for_term
from transport.messages.inbox import Inbox
from transport.messages.outlets import Outlets, raise_first
from transport.messages.returning import ReturningReceiver

MAX_CALLS = 500
MAX_STAGES_PER_MEMBER = 16
FAREWELL_S = 0.2

P = ParamSpec("P")
R = TypeVar("R")

_log = structlog.get_logger(__name__)


class GrpcSession:
    """One member's end of a job. Implements `mpc.protocol.session.Session`.

    `send` waits while the receiver has no room. There is room for 32 MB per sender and stage (or for one larger array),
    and for 128 MB per sender. Two members that both send more than that before either receives wait for each other
    until the deadline: exchange large data block by block, or send and receive concurrently.

    Args:
        job_id: the job.
        terms: what all members must have in common besides (`mpc.protocol.greeting.binding_of`).
        me: my number.
        names: names of all members by number, including mine.
        entropy: where my randomness comes from.
        deadline_s: silence of a member for so long fails what waits for it; the member may be heard again later.
        transfer_s: see `Inbox.receive`; by default `deadline_s`.
        inbox: what arrives for me.
        channels: to the other members, by number. Not closed here: jobs share them.
        on_progress: told (stage, done, total).
        returning: members that may restart: what is sent to them is kept, and sent again by `begin_again`.
        term: returns in which term those of them lead; 0 where they have none. See `wait_for_term`.
    """

    def __init__(
        self,
        *,
        job_id: str,
        terms: bytes,
        me: int,
        names: Mapping[int, str],
        entropy: Entropy,
        deadline_s: float,
        inbox: Inbox,
        channels: Mapping[int, Any],
        on_progress: Callable[[str, int, int], None],
        transfer_s: float | None = None,
        returning: Collection[int] = (),
        term: Callable[[], int] = lambda: 0,
    ) -> None:
        self._job_id = job_id
        self._binding = binding_of(job_id, names, terms)
        self._me = me
        self._names = dict(names)
        self._entropy = entropy
        self._deadline_s = deadline_s
        self._transfer_s = deadline_s if transfer_s is None else transfer_s
        self._inbox = inbox
        self._channels = dict(channels)
        self._on_progress = on_progress
        self._outlets: dict[int, Outlets] = {}
        self._calls = asyncio.Semaphore(MAX_CALLS)
        self._looks: dict[int, asyncio.Future[bool]] = {}
        """The checks of the certificates of all members to which anything was sent."""
        self._term = term
        self._aborted: str | None = None
        self._returning = {
            member: ReturningReceiver(
                member,
                names[member],
                write=partial(self._write, member),
                flush=partial(self._flush, member),
                renew=partial(self._renew, member),
                deadline_s=deadline_s,
            )
            for member in returning
        }
        self.bytes_sent: dict[str, int] = {}
        """Payload bytes by stage. Private to this member, because it reveals the number of rows."""
        self._bytes_to: dict[int, int] = dict.fromkeys(channels, 0)

    @property
    def job_id(self) -> str:
        """The job; every message and, by `binding`, every derived key belongs to it."""
        return self._job_id

    @property
    def binding(self) -> bytes:
        """See `Session`."""
        return self._binding

    @property
    def me(self) -> int:
        """My member number."""
        return self._me

    @property
    def names(self) -> Mapping[int, str]:
        """Member number to name, for messages to people."""
        return self._names

    @property
    def entropy(self) -> Entropy:
        """Where my randomness comes from."""
        return self._entropy

    @property
    def row_workers(self) -> None:
        """A party's gate gives them to analyses."""
        return None

    def kept_words(self, shape: tuple[int, ...]) -> NDArray[np.uint64]:
        """Return memory; a party's gate has files, too."""
        return np.empty(shape, np.uint64)

    @property
    def bytes_received(self) -> Mapping[str, int]:
        """Payload bytes by stage. Private to this member, because it reveals the number of rows."""
        return self._inbox.bytes_received

    @property
    def sent_bytes_by_name(self) -> dict[str, int]:
        """Payload bytes by the name of the receiver; as private as `bytes_sent`."""
        return {self._names[member]: n for member, n in self._bytes_to.items()}

    @property
    def received_bytes_by_name(self) -> dict[str, int]:
        """Payload bytes by the name of the sender; as private as `bytes_sent`."""
        return {self._names[member]: n for member, n in self._inbox.bytes_from.items()}

    def count_traffic(self, sent: Mapping[str, int], received: Mapping[str, int]) -> None:
        """Count payload bytes by stage that others have moved for this member, over sessions of their own."""
        for counted, more in ((self.bytes_sent, sent), (self._inbox.bytes_received, received)):
            for stage, n_bytes in more.items():
                counted[stage] = counted.get(stage, 0) + n_bytes

    async def send(self, to: int, stage: str, message: Array) -> None:
        """Send one array; it may be overwritten once this returns.

        Raises:
            PeerLostError: the receiver cannot be reached, or counts as dropped out.
            PeerSilentError: it took nothing for the deadline.
            PeerViolationError: its certificate is not accepted.
            LocalFaultError: no such member, or no valid message.
        """
        if to not in self._channels:
            raise LocalFaultError(f"member {to} is not one that member {self._me} can send to")
        if self._aborted is not None:
            raise LocalFaultError(f"the job was aborted: {self._aborted}")
        failure = self._inbox.failure(to)
        if failure is not None:
            raise PeerLostError(to, stage, failure.what)
        if to in self._returning:
            await self._returning[to].send(stage, message)
        else:
            await self._write(to, stage, message)
        self.bytes_sent[stage] = self.bytes_sent.get(stage, 0) + message.nbytes
        self._bytes_to[to] += message.nbytes

    async def receive(self, sender: int, stage: str, shape: tuple[int, ...], dtype: type = np.uint64) -> Array:
        """Return the next array of a stage; see `Session.receive`."""
        if sender not in self._channels:
            raise LocalFaultError(f"member {sender} is not one that member {self._me} can receive from")
        return await self._inbox.receive(sender, stage, shape, dtype, self._deadline_s, self._transfer_s)

    async def gather(
        self, senders: Sequence[int], stage: str, shape: tuple[int, ...], *, quorum: int
    ) -> dict[int, NDArray[np.uint64]]:
        """Return one array from each sender that answers; see `Session.gather`.

        Waits for all senders, each until its deadline, and goes on without those that fail if `quorum` answered. Fails
        as soon as too many have failed, with the first failure; what is silent then is still due.
        """
        if quorum > len(senders):
            raise LocalFaultError(
                f"stage {stage}: a quorum of {quorum} is larger than the number of senders, {len(senders)}"
            )
        waiting = {asyncio.create_task(self.receive(sender, stage, shape)): sender for sender in senders}
        arrays: dict[int, NDArray[np.uint64]] = {}
        failures: list[PeerError] = []
        try:
            pending = set(waiting)
            while pending:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    try:
                        arrays[waiting[task]] = task.result()
                    except PeerError as error:
                        failures.append(error)
                if len(senders) - len(failures) < quorum:
                    raise failures[0]
        finally:
            for task in waiting:
                task.cancel()
        for failure in failures:
            if isinstance(failure, PeerSilentError):
                self._inbox.give_up(failure)
        return {sender: arrays[sender] for sender in senders if sender in arrays}

    async def compute(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run heavy arithmetic in a thread. Cancelling the caller does not stop the thread."""
        return await asyncio.to_thread(work, *args, **kwargs)

    async def draw(self, release: Drawable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Draw my noise; which may be drawn is the matter of a party's gate."""
        return await self.compute(release.draw, self.entropy, *args, **kwargs)

    async def commit(self) -> None:
        """Do nothing: committing the cost of a job is the task of a party's gate."""

    def trust_binding(self, members: Collection[int]) -> None:
        """Do nothing: deciding what may be sent before is the task of a party's gate."""

    def accuse(self, member: int, stage: str, what: str) -> None:
        """Log who is at fault though the job goes on."""
        _log.warning(what, job=self._job_id, stage=stage, member=self._names[member])

    def progress(self, stage: str, done: int, total: int) -> None:
        """Report the progress of a stage: public numbers only (never a count of rows)."""
        self._on_progress(stage, done, total)

    def waits_for(self, least_s: float) -> int | None:
        """Return the member that we have waited for longest without a break; None if no wait lasted `least_s`."""
        return self._inbox.waits.longest(least_s)

    def waited_most_for(self) -> int | None:
        """Return the member that we have waited for most in total; None if for no member half of the time."""
        return self._inbox.waits.costliest()

    def mark_lost(self, member: int, reason: str) -> None:
        """Mark a member as dropped out, as reported by someone else."""
        self._inbox.mark_lost(member, reason)

    async def finish(self) -> None:
        """End all streams and wait until the receivers have acknowledged everything.

        Raises:
            PeerLostError, PeerSilentError: one did not; the others were waited for all the same.
            PeerViolationError: one that may restart has said something else since.
        """
        for member in self._returning:
            if (violation := self._inbox.failure(member)) is not None:  # nothing else fails such a member
                raise violation
        ways = (self._returning[to].finish() if to in self._returning else self._flush(to) for to in self._channels)
        raise_first(await asyncio.gather(*ways, return_exceptions=True))

    def hold(self, member: int) -> None:
        """Send nothing to a member that has gone away, until it begins again or the deadline has passed."""
        self._returning[member].hold()

    async def begin_again(self, member: int) -> None:
        """Take a member that has restarted for one that begins: send it all again, and expect to hear all again.

        Raises:
            TooMuchToKeepError: what was sent to it is not kept.
        """
        self._inbox.begin_again(member)
        await self._returning[member].begin_again()

    def on_violation(self, report: Callable[[PeerError], None]) -> None:
        """Report once, at once and whomever we wait for, that a member that may restart has broken the protocol."""
        self._inbox.violated.add_done_callback(lambda found: report(found.result()))

    async def abort(self, reason: str) -> None:
        """Give up: end the inbox and cancel all streams, so that everything that waits fails at once.

        Members that have a stream open to us hear the reason, and only then that ours break off: they would take it for
        a broken connection.

        Args:
            reason: public text, which other members may see.
        """
        self._aborted = reason
        self._inbox.close(reason)
        await asyncio.sleep(FAREWELL_S)
        for outlets in self._outlets.values():
            outlets.cancel(f"we aborted the job: {reason}")
        await asyncio.sleep(0)  # let the cancellations start

    async def _look_at(self, to: int, stage: str) -> None:
        """Send nothing to a member whose certificate is not accepted; see `check_certificate`."""
        if to not in self._looks:
            deadline_s = min(CHECK_S, self._deadline_s)
            self._looks[to] = asyncio.ensure_future(self._look(to, deadline_s))
        look = self._looks[to]
        try:
            await asyncio.shield(look)
        except UnauthenticatedError as error:
            raise PeerViolationError(to, stage, str(error)) from error
        except UnreachableError as error:
            raise PeerLostError(to, stage, str(error)) from error
        if self._looks.get(to) is not look:  # and what waited here is sent again from the beginning
            raise PeerLostError(to, stage, f"{self._names[to]} has restarted")

    async def _look(self, to: int, deadline_s: float) -> bool:
        is_seen = await find_leader(self._channels[to], deadline_s=deadline_s)
        if to in self._returning:
            await wait_for_term(self._channels[to], self._term, peer=self._names[to], deadline_s=self._deadline_s)
        return is_seen

    def _outlets_to(self, to: int) -> Outlets:
        if to not in self._outlets:
            self._outlets[to] = Outlets(
                self._channels[to],
                self._job_id,
                max_open=max(1, min(MAX_STAGES_PER_MEMBER, MAX_CALLS // (2 * len(self._channels)))),
                member=to,
                name=told_name(self._names[to], self._channels[to]),
                deadline_s=self._deadline_s,
                calls=self._calls,
                on_lost=self._inbox.mark_lost,
            )
        return self._outlets[to]

    async def _write(self, to: int, stage: str, message: Array) -> None:
        try:
            await self._look_at(to, stage)
            await self._outlets_to(to).write(stage, message)
        except ValueError as error:
            raise LocalFaultError(f"stage {stage}: {error}") from error

    async def _flush(self, to: int) -> None:
        """End all streams to a member, and wait until it has acknowledged everything."""
        if to in self._outlets:
            await self._outlets[to].flush()

    async def _renew(self, to: int) -> None:
        """Forget the streams to a member that has restarted, and wait until its new process can be reached.

        Raises:
            PeerLostError: it cannot, within the deadline.
        """
        if to in self._outlets:
            self._outlets.pop(to).cancel(f"{self._names[to]} has restarted")
        self._looks.pop(to, None)
        try:
            async with asyncio.timeout(self._deadline_s):
                await self._channels[to].channel_ready()
        except TimeoutError:
            raise PeerLostError(to, "", f"{self._names[to]} has restarted and cannot be reached") from None
