"""X^T X of rows that workers share and multiply: members agree on attempts, and each adds what its workers return.

In each lane one shard follows the other. For each attempt at a shard the members

1. let a worker of theirs expect the attempt, and tell each other its address;
2. let it work, and tell each other how it ended: done, or not, and why;
3. keep the attempt's part of the sum where everybody's worker is done, and forget it otherwise; then they begin anew.

A lane whose workers fail again and again, or where a member has none, is given up: its shards are left to the members
themselves. All learn that at the same attempt, from what they told each other.

At the end each compares with every other one which attempt of which shard it has kept. So two members that follow the
protocol have added parts of the same attempts, each shard once, and miss the same ones, or the job fails, whatever a
third one told them.

Privacy. At most t colluding members see of each attempt what t workers see: at most t shares of degree t of each value,
which are uniform, dealt with keys of that attempt. Attempts are independent, so any number of them shows nothing.
What a worker computes leaves it to its own member alone, and nothing is opened here: the parts are added to one sum,
which is hidden by noise that was dealt once, and opened once. So an attempt more costs no privacy.

Cost: 2 rounds of this session per attempt and lane, 352 bytes per pair and direction, and one round of 32 bytes; what
workers send is that of `mpc.protocol.operations.rows`, after 2 rounds of keys.
"""

import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mpc.errors import PeerLostError, PeerSilentError, PeerViolationError
from mpc.protocol.concurrency import run_together
from mpc.protocol.session import Array, Session
from mpc.protocol.shards import Attempt, RowWorkers, Shard, ShardRun, ShardSum, WorkerLostError
from mpc.transcript import encode_fields

SHARDS_STAGE = "shards"
"""How the names of these stages begin."""

MAX_ATTEMPTS = 4
"""At one shard; then its lane is given up."""

MAX_WITHOUT_WORKER = 2
"""Attempts at one shard in which a member had no worker; then the lane is given up. Each may take half a minute."""

PATIENCE = 4
"""Deadlines that a member waits for another: a worker that takes the place of a lost one has to start."""

ADDRESS_BYTES = 320


class End(IntEnum):
    """How an attempt ended at a member."""

    DONE = 0
    LOST = 1
    """Its own worker is lost."""
    UNANSWERED = 2
    """Its worker lost one of another member's, or waited for it in vain."""
    HOPELESS = 3
    """It ends the job."""


class _Ended(NamedTuple):
    end: End
    sum: ShardSum | None = None
    error: BaseException | None = None
    all_had_workers: bool = True
    """Whether each member named an address."""


class ShardedRows:
    """The members' part of a sum over shards. For one use.

    Args:
        session: my end of the job.
        members: the numbers of all members that have workers, mine among them.
        workers: mine.
    """

    def __init__(self, session: Session, members: Sequence[int], workers: RowWorkers) -> None:
        self._session = session
        self._others = [member for member in members if member != session.me]
        self._workers = workers
        self._kept: dict[int, int] = {}

    async def sums(
        self, shards: Sequence[Shard], counting: NDArray[np.bool_] | None, on_sum: Callable[[int, ShardSum], None]
    ) -> tuple[Shard, ...]:
        """Have all shards summed, if workers can be had.

        Args:
            shards: the partition (`mpc.protocol.shards.shards_of`), the same at all members.
            counting: which rows of the table count, shape (rows,); None where all do. Private.
            on_sum: given how many shards are done, and my part of the one that was done last.

        Returns:
            The shards that were given up, in the order of their rows, alike at all members. Nothing of them is summed.

        Raises:
            PeerLostError: another member ended the job.
            PeerViolationError: a member has kept other attempts, or is out of step.
            PeerError: a member is silent or drops out; or a worker of its violates the protocol.
        """
        n_lanes = self._workers.n_lanes

        async def run_lane(lane: int) -> None:
            for shard in shards[lane::n_lanes]:
                part = await self._sum_of(lane, shard, counting)
                if part is None:
                    return
                on_sum(len(self._kept), part)

        await run_together(*map(run_lane, range(min(n_lanes, len(shards)))))
        await self._compare()
        return tuple(shard for shard in shards if shard.number not in self._kept)

    async def _sum_of(self, lane: int, shard: Shard, counting: NDArray[np.bool_] | None) -> ShardSum | None:
        """Return my part of a shard, of the first attempt that everybody has done; None where it is given up."""
        of_shard = None if counting is None else counting[shard.start : shard.stop]
        n_without_worker = 0
        for number in range(MAX_ATTEMPTS):
            attempt = Attempt(self._session.job_id, self._session.binding, shard, number)
            run = self._workers.run_of(lane, attempt, of_shard)
            try:
                ended = await self._attempt(lane, attempt, run)
                ends = await self._ends(lane, attempt, ended.end)
            except BaseException:
                await run.abandon()
                raise
            if ended.error is not None and ended.end is End.HOPELESS:
                raise ended.error
            for member, end in ends.items():
                if end is End.HOPELESS:
                    what = f"{self._session.names[member]} has ended the job"
                    raise PeerLostError(member, SHARDS_STAGE, what)
            if ended.sum is not None and not any(ends.values()):
                self._kept[shard.number] = number
                return ended.sum
            n_without_worker += not ended.all_had_workers
            if n_without_worker == MAX_WITHOUT_WORKER:
                break
        return None

    async def _attempt(self, lane: int, attempt: Attempt, run: ShardRun) -> _Ended:
        """Let a worker of mine work with those of the others, and return how that ended here."""
        address, error = "", None
        try:
            address = await run.prepare()
        except WorkerLostError as lost:
            error = lost
        addresses = await self._addresses(lane, attempt, address)
        if error is not None:
            return _Ended(End.LOST, error=error, all_had_workers=False)
        if not all(addresses.values()):
            await run.abandon()
            return _Ended(End.UNANSWERED, all_had_workers=False)
        try:
            return _Ended(End.DONE, await run.work(addresses))
        except WorkerLostError as lost:
            return _Ended(End.LOST, error=lost)
        except (PeerLostError, PeerSilentError) as lost_peer:
            return _Ended(End.UNANSWERED, error=lost_peer)
        except Exception as wrong:
            return _Ended(End.HOPELESS, error=wrong)

    async def _addresses(self, lane: int, attempt: Attempt, mine: str) -> dict[int, str]:
        """Tell the others where my worker is, nowhere if it is empty; return the same of the others."""
        text = mine.encode("ascii")
        if len(text) > ADDRESS_BYTES:
            raise ValueError(f"the address of a worker has more than {ADDRESS_BYTES} characters")
        head = _head(attempt)
        message = np.frombuffer(head + text.ljust(ADDRESS_BYTES, b"\0"), dtype=np.uint8)
        stage = f"{SHARDS_STAGE}/{lane}/addresses"
        addresses = {}
        for member, theirs in (await self._exchange(stage, message)).items():
            shown = theirs.tobytes()
            self._check_step(member, stage, shown.startswith(head))
            try:
                addresses[member] = shown[len(head) :].rstrip(b"\0").decode("ascii")
            except UnicodeDecodeError:
                what = f"{self._session.names[member]} named no address of a worker"
                raise PeerViolationError(member, stage, what) from None
        return addresses

    async def _ends(self, lane: int, attempt: Attempt, mine: End) -> dict[int, End]:
        """Tell the others how the attempt ended here, and return how it ended for them."""
        head = _head(attempt)
        stage = f"{SHARDS_STAGE}/{lane}/ends"
        message = np.frombuffer(head + bytes([mine]), dtype=np.uint8)
        ends = {}
        for member, theirs in (await self._exchange(stage, message)).items():
            *shown, end = theirs.tolist()
            self._check_step(member, stage, bytes(shown) == head and end in tuple(End))
            ends[member] = End(end)
        return ends

    async def _compare(self) -> None:
        """Compare with every other member which attempts were kept.

        Raises:
            PeerViolationError: one has kept others.
        """
        kept = [encode_fields(shard, attempt) for shard, attempt in sorted(self._kept.items())]
        digest = hashlib.sha256(encode_fields("moiety shards", self._session.binding, *kept)).digest()
        stage = f"{SHARDS_STAGE}/kept"
        for member, theirs in (await self._exchange(stage, np.frombuffer(digest, dtype=np.uint8))).items():
            if theirs.tobytes() != digest:
                what = f"{self._session.names[member]} has added other parts of the rows"
                raise PeerViolationError(member, stage, what)

    async def _exchange(self, stage: str, message: Array) -> dict[int, Array]:
        """Send the same to all others, and return what each of them sent."""
        session = self._session
        await run_together(*(session.send(member, stage, message) for member in self._others))

        async def of(member: int) -> Array:
            for _ in range(PATIENCE - 1):
                with suppress(PeerSilentError):  # what is still due can be waited for again
                    return await session.receive(member, stage, message.shape, np.uint8)
            return await session.receive(member, stage, message.shape, np.uint8)

        return dict(zip(self._others, await run_together(*map(of, self._others)), strict=True))

    def _check_step(self, member: int, stage: str, is_in_step: bool) -> None:
        if not is_in_step:
            what = f"{self._session.names[member]} works on another part of the rows, or on another attempt"
            raise PeerViolationError(member, stage, what)


def _head(attempt: Attempt) -> bytes:
    return attempt.shard.number.to_bytes(8, "big") + attempt.number.to_bytes(8, "big")
