"""The gate before an analysis: no message passes before all members agree on the job and its cost is committed.

An analysis has no access to the ungated session, so it cannot skip these checks.

Nothing but greetings (`mpc.protocol.greeting`) leaves this party before each member that it deals with has shown that
it computed the same plan, in the same job, with the same members. What a member shows comes from itself, over a
connection on which it has proven its name; the coordinator's statements are not relied on.

Before the first message to the coordinator, or to any member at the opening or in the stage in which projections of
proven rows are opened among parties, the cost is committed:

1. this party, if it brings a table, commits the cost of the job durably in its own ledger and notifies the compute
    parties;
2. a compute party waits until every owner of a table has sent this notification; an owner that holds no shares does not
    wait;
3. then the message is sent.

Nobody commits while the coordinator is away that would take the result (`until_wanted`): it may be gone for good.

Step 2 is what lets a party release a reservation that it never committed. The shares of others could open a result
without it; but each compute party waits for every owner, so nothing of this party's table was opened, whatever became
of the job. What an owner without shares sends is of its own table, and its own commit pays for that: it may be out, as
its noisy centres in a clustering, when another owner fails before its commit. To hear from all owners it would need a
connection to each of them, which nothing else asks of it.

The gate is the only way to noise, too (`draw`): an analysis draws the releases that its plan states, by value, no more
often than stated, and neither the coordinator nor anybody in the opening stage hears from it before it has drawn what
the plan states (`party.drawn`). So what is drawn is what is charged.

An analysis may commit before that (`commit`), as soon as all that the others need of this party is with them: from then
on the party may drop out, but its commitment stays.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import ParamSpec, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from analyses.job.plan import OPENING_STAGE, Plan
from analyses.job.releases import PlannedRelease
from entropy import Entropy
from mpc.errors import LocalFaultError
from mpc.proofs.norm_proof import PROJECTIONS_STAGE
from mpc.protocol.exchange import send_unless_lost
from mpc.protocol.greeting import GREETING_STAGE
from mpc.protocol.session import COORDINATOR, Array, Drawable, Session
from mpc.protocol.shards import RowWorkers
from party.drawn import DrawnNoise

COMMIT_STAGE = "budget"
"""Stage of the messages "my cost is committed" between parties. No analysis may use it."""

RELEASING_STAGES = frozenset({OPENING_STAGE, PROJECTIONS_STAGE})
"""Stages in which something that costs privacy leaves the parties, whoever receives it."""

P = ParamSpec("P")
R = TypeVar("R")

KeepWords = Callable[[tuple[int, ...]], NDArray[np.uint64]]
"""See `Session.kept_words`."""

_COMMITTED = np.ones(1, dtype=np.uint8)


class GatedSession:
    """A session that sends only after the commit. Implements `mpc.protocol.session.Session`.

    Args:
        session: the real one.
        commit: makes the cost of this job spent; blocks until that is durable, or raises.
        owners: member numbers of those that bring tables.
        openers: member numbers of the compute parties: those that hold shares of the result.
        receivers: member numbers that the plan allows to receive the result.
        releases: releases that the plan states.
        must_greet: member numbers that have to show the same binding as ours before anything else leaves.
        until_wanted: waits before the commit while nobody is there who would take what it pays for.
        row_workers: row workers of this party in this job. They have no session with the coordinator, and nothing to
            open.
        keep_words: makes arrays for what is kept as long as the job runs; None for memory.
    """

    def __init__(
        self,
        session: Session,
        *,
        commit: Callable[[], None],
        owners: Sequence[int],
        openers: Sequence[int],
        receivers: Sequence[int],
        releases: Sequence[PlannedRelease],
        must_greet: Collection[int],
        until_wanted: Callable[[], Awaitable[object]] | None = None,
        row_workers: RowWorkers | None = None,
        keep_words: KeepWords | None = None,
    ) -> None:
        async def commit_and_report() -> None:
            if until_wanted is not None:
                await until_wanted()
            await asyncio.to_thread(commit)
            if session.me in owners:
                others = [member for member in openers if member != session.me]
                await asyncio.gather(
                    *(send_unless_lost(session, member, COMMIT_STAGE, _COMMITTED) for member in others)
                )

        async def receive_commits() -> None:
            if session.me in openers:
                awaited = [owner for owner in owners if owner != session.me]
                await asyncio.gather(*(_receive_commit(session, owner) for owner in awaited))

        self._session = session
        self._row_workers = row_workers
        self._keep_words = keep_words or session.kept_words
        self._commit_and_report = commit_and_report
        self._receive_commits = receive_commits
        self._receivers = frozenset(receivers)
        self._drawn = DrawnNoise(releases, session.me)
        self._not_greeted = set(must_greet)
        self._has_committed = False
        self._is_open = False
        self._passing = asyncio.Lock()

    @classmethod
    def of_plan(
        cls,
        session: Session,
        plan: Plan,
        *,
        commit: Callable[[], None],
        until_wanted: Callable[[], Awaitable[object]] | None = None,
        row_workers: RowWorkers | None = None,
        keep_words: KeepWords | None = None,
    ) -> Self:
        """Return the session that a party gives to the analysis of a plan; arguments as of the class."""
        return cls(
            session,
            commit=commit,
            owners=plan.owners,
            openers=plan.compute_members,
            receivers=plan.receivers,
            releases=plan.releases,
            must_greet=plan.peers_of(session.me),
            until_wanted=until_wanted,
            row_workers=row_workers,
            keep_words=keep_words,
        )

    @property
    def job_id(self) -> str:
        """See `Session`."""
        return self._session.job_id

    @property
    def binding(self) -> bytes:
        """See `Session`."""
        return self._session.binding

    @property
    def me(self) -> int:
        """See `Session`."""
        return self._session.me

    @property
    def names(self) -> Mapping[int, str]:
        """See `Session`."""
        return self._session.names

    @property
    def entropy(self) -> Entropy:
        """See `Session`."""
        return self._session.entropy

    @property
    def row_workers(self) -> RowWorkers | None:
        """See `Session`. They are had only once all members have confirmed the plan.

        Raises:
            LocalFaultError: not all have.
        """
        if self._row_workers is not None:
            self._check_greeted("no row is given to workers")
        return self._row_workers

    def kept_words(self, shape: tuple[int, ...]) -> NDArray[np.uint64]:
        """See `Session`."""
        return self._keep_words(shape)

    async def commit(self) -> None:
        """Commit and notify the others, without waiting for them. Repetitions do nothing. See `Session.commit`.

        Raises:
            LocalFaultError: not all members have confirmed yet that they run the same job.
            ChargeError, LedgerError: this party's cost cannot be committed.
        """
        async with self._passing:
            await self._commit_once()

    async def _commit_once(self) -> None:
        if not self._has_committed:
            self._check_greeted("the cost is not committed")
            await self._commit_and_report()
            self._has_committed = True

    async def open(self) -> None:
        """Commit, notify the others and, at a compute party, wait for them. Returns at once if that was done.

        It is also called at the end of a party's part: an owner that opens nothing itself must still let the others
        open.

        Raises:
            ChargeError, LedgerError: this party's cost cannot be committed.
            PeerError: an owner did not say that it committed; not at an owner without shares, which waits for none.
        """
        async with self._passing:
            if not self._is_open:
                await self._commit_once()
                await self._receive_commits()
                self._is_open = True

    async def send(self, to: int, stage: str, message: Array) -> None:
        """See `Session.send`; messages that open something wait for the gate.

        Raises:
            LocalFaultError: to a member that the plan does not let have the result, or in the gate's own stage, or
                before all members have shown that they mean the same job, or before noise was drawn that the plan
                states.
        """
        self._check_stage(stage)
        if stage != GREETING_STAGE:
            self._check_greeted(f"a message of stage {stage!r}")
        if stage == OPENING_STAGE and to not in self._receivers:
            raise LocalFaultError(f"the plan does not allow {self.names.get(to, to)} to receive the result")
        if stage in RELEASING_STAGES or to == COORDINATOR:
            self._drawn.check_message(to, stage)
            await self.open()
        await self._session.send(to, stage, message)

    async def receive(self, sender: int, stage: str, shape: tuple[int, ...], dtype: type = np.uint64) -> Array:
        """See `Session.receive`."""
        self._check_stage(stage)
        return await self._session.receive(sender, stage, shape, dtype)

    async def gather(
        self, senders: Sequence[int], stage: str, shape: tuple[int, ...], *, quorum: int
    ) -> dict[int, NDArray[np.uint64]]:
        """See `Session.gather`."""
        self._check_stage(stage)
        return await self._session.gather(senders, stage, shape, quorum=quorum)

    async def compute(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """See `Session.compute`."""
        return await self._session.compute(work, *args, **kwargs)

    async def draw(self, release: Drawable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """See `Session.draw`. Nothing is drawn before it is counted.

        Raises:
            LocalFaultError: the plan does not state this release for this party, or not so often.
        """
        draw = self._drawn.begin(release)
        noise = await self._session.draw(release, *args, **kwargs)
        self._drawn.finish(draw)
        return noise

    def trust_binding(self, members: Collection[int]) -> None:
        """See `Session.trust_binding`."""
        self._not_greeted -= set(members)
        self._session.trust_binding(members)

    def accuse(self, member: int, stage: str, what: str) -> None:
        """See `Session.accuse`."""
        self._session.accuse(member, stage, what)

    def progress(self, stage: str, done: int, total: int) -> None:
        """See `Session.progress`."""
        self._session.progress(stage, done, total)

    def _check_greeted(self, what: str) -> None:
        if self._not_greeted:
            unknown = ", ".join(self.names[member] for member in sorted(self._not_greeted))
            raise LocalFaultError(f"{what} before {unknown} confirmed the plan")

    @staticmethod
    def _check_stage(stage: str) -> None:
        if stage == COMMIT_STAGE:
            raise LocalFaultError(f"stage {COMMIT_STAGE!r} belongs to the gate, not to an analysis")


async def _receive_commit(session: Session, owner: int) -> None:
    await session.receive(owner, COMMIT_STAGE, _COMMITTED.shape, np.uint8)
