"""A computation about a joint table, as analyses have it: it begins when all have met, and draws what a plan releases.

async with joined(session, plan, table) as (c, n_rows, counting, table):
    total = await c.noise_of(plan.mechanism, shape)
    total += await c.gram_of_rows(plan, n_rows, mine)
    await c.release(total)
"""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from analyses.job.norm_bounds import Bounds
from analyses.job.plan import OPENING_STAGE, Plan, matches_in_secret
from analyses.job.schema import Table
from analyses.rows.meeting import greet, meet
from analyses.rows.own_rows import OwnRows
from analyses.rows.row_plan import RowPlan
from analyses.rows.secret_rows import SecretRows
from analyses.rows.surplus import rows_that_count
from dp.mechanism.skellam_parameters import LOG2_WRAP_PROBABILITY
from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.gram import n_entries
from mpc.arithmetic.words import Words
from mpc.errors import LocalFaultError, OutOfRangeError
from mpc.proofs.products import ProvenProducts
from mpc.proofs.proven_noise import proven_noise
from mpc.proofs.proven_rows import ProvenRows
from mpc.protocol.computation import Computation
from mpc.protocol.exchange import ShareExchange
from mpc.protocol.operations.noise import NoisySum
from mpc.protocol.operations.openings import OpenedArray
from mpc.protocol.operations.rows import MULTIPLY_STAGE, RowsOf
from mpc.protocol.operations.sharded_rows import ShardedRows
from mpc.protocol.session import Drawable, Session
from mpc.protocol.shards import RowWorkers, Shard, ShardSum, shards_of
from mpc.protocol.shared import SharedArray, concatenate

ROWS_PER_BLOCK = 4096
"""Number of rows of the joint table that are in memory at once."""

NOISE_STAGE = "noise"


PartyRelease = Drawable[[], NDArray[np.int64]]
"""A release of which a member draws noise."""


class BoundedNoise(Drawable[[], NDArray[np.int64]], Protocol):
    """A release to which every compute party adds a part of the noise."""

    def noise_tail_bound(self, log2_probability: float) -> int:
        """Return an integer that no entry of all parties' noise exceeds, but with a stated probability."""


class JointComputation(Computation):
    """A computation that draws what a plan releases, and tells how far it is."""

    @property
    def session(self) -> Session:
        """My end of the job."""
        return self.exchange.session

    @classmethod
    def of_coordinator(cls, session: Session, plan: Plan, name: str = "") -> "JointComputation":
        """Return the coordinator's end: it shares no key with anybody and holds no shares."""
        exchange = ShareExchange(session, ResidueField(plan.n_primes), plan.n_parties, plan.job.t, {})
        return computation_of(exchange, plan.norm_bounds, None, name) if plan.norm_bounds else cls(exchange, name)

    async def draw(self, release: PartyRelease) -> NDArray[np.int64] | None:
        """Draw my part of a release's noise (`Session.draw`); None where I hold no shares."""
        return await self.session.draw(release) if self.holds_shares else None

    async def noise_of(self, release: BoundedNoise, shape: tuple[int, ...], *, tells: bool = True) -> NoisySum:
        """Draw my part of a release's noise and begin its sum with everybody's; see `Computation.noise`.

        Args:
            release: whose noise it is.
            shape: shape of the noise.
            tells: whether progress says so.
        """
        if self.holds_shares and tells:
            self.session.progress(NOISE_STAGE, 0, 1)
        mine = await self.draw(release)
        return await self.noise(shape, None if mine is None else mine.reshape(shape))

    async def shared_noise_of(self, release: BoundedNoise, shape: tuple[int, ...], *, bound: int) -> SharedArray:
        """Draw my part of a release's noise and share it; see `Computation.shared_noise`."""
        self.session.progress(NOISE_STAGE, 0, 1)
        return await self.shared_noise(shape, await self.draw(release), bound=bound)

    async def gram_of_rows(self, plan: RowPlan, n_rows: int, mine: OwnRows | None) -> SharedArray:
        """Share all rows and return the entries on and above the diagonal of X^T X, degree 2t.

        Where all parties have workers and there are rows enough for them, they do it, part by part
        (`mpc.protocol.operations.sharded_rows`); else, and for parts that they give up, we do, block by block
        (`Rows.rows`, `GramSum`). The sum is the same integers, shared by other polynomials.

        Args:
            plan: plan of the job: it says who brings how many columns, and who has workers.
            n_rows: rows of the joint table.
            mine: my rows; None if I own no columns.

        Raises:
            PeerError: an owner is silent, drops out or sent an invalid share; or, with workers, any party.

        Cost: 1 round, or with workers that of `ShardedRows`, and one more for parts that they give up. Where workers do
        it, all parties are needed until they are done, and whoever dropped out before has ended the job.
        """
        workers = self.session.row_workers
        shards = () if workers is None else shards_of(n_rows, plan.n_lanes, ROWS_PER_BLOCK)
        if workers is None or not shards:
            return await self._gram_of_blocks(plan, n_rows, mine, completes_input=True)
        total = await self._gram_of_shards(plan, shards, mine, workers)
        if mine is not None:
            await self.commit_after_input()
        if self.holds_shares:
            self.session.progress(MULTIPLY_STAGE, 1, 1)
        return total

    async def row_sums(
        self,
        owners: Sequence[int],
        widths: Mapping[int, int],
        n_rows: int,
        mine: OwnRows | None,
        n_counting: int,
        *,
        bound: int,
    ) -> SharedArray:
        """Share the number of rows that count and the sums of all columns over them.

        Every owner knows which rows count, so it adds up its own columns and shares no row.

        Args:
            owners: owners of the tables, in the order of the joint table; the first one brings the number of rows.
            widths: owner to the number of its columns, in that order; empty where rows are counted and nothing more.
            n_rows: rows of the joint table.
            mine: my rows; None if I bring no columns.
            n_counting: how many rows count; private, used at the first owner only.
            bound: public bound on the size of each sum.

        Returns:
            Shape (1 + all columns,): the number of rows, then the sums. Degree 2t at most.

        Raises:
            PeerError: an owner is silent, drops out or sent an invalid share.

        Privacy: any t parties see uniform elements. Cost: 1 round; an owner sends N - t words per column.
        """
        first, own = owners[0], None
        if self.me == first or mine is not None:
            sums = np.zeros(0, np.int64) if mine is None else await self.session.compute(_summed, mine, n_rows)
            own = np.concatenate([np.array([n_counting], np.int64), sums]) if self.me == first else sums
        shapes = {owner: (width,) for owner, width in widths.items()}
        shapes[first] = (1 + widths.get(first, 0),)
        shared = await self.inputs(shapes, own, bound=bound)
        if self.me in owners:
            await self.commit_after_input()
        count, sums_of_first = shared[first][:1], shared[first][1:]
        return concatenate([count, *(sums_of_first if owner == first else shared[owner] for owner in widths)])

    async def _gram_of_blocks(
        self, plan: RowPlan, n_rows: int, mine: RowsOf | None, *, completes_input: bool
    ) -> SharedArray:
        gram = self.gram_sum(plan.n_row_columns)
        blocks = self.rows(plan.widths, n_rows, mine, height=ROWS_PER_BLOCK, completes_input=completes_input)
        async for x in blocks:
            await gram.add(x)
        return await gram.triangle()

    async def _gram_of_shards(
        self, plan: RowPlan, shards: Sequence[Shard], mine: OwnRows | None, workers: RowWorkers
    ) -> SharedArray:
        shape = (n_entries(plan.n_row_columns),)
        total = self.field.zeros(shape) if self.holds_shares else None

        def add(n_done: int, part: ShardSum) -> None:
            if total is not None:
                self.field.accumulate(total, self._checked(part.share, shape))
            if mine is not None:
                mine.add_counts(part.counts)
            if self.holds_shares:
                self._tell_multiplied(n_done, len(shards))

        members = range(1, len(plan.schemas) + 1)
        with self._step():
            sharded = ShardedRows(self.session, members, workers)
            given_up = await sharded.sums(shards, None if mine is None else mine.counting, add)
        of_workers = SharedArray(self.field, shape, 2 * self.t, None, total)
        if not given_up:
            return of_workers
        starts = [start for shard in given_up for start in range(shard.start, shard.stop, ROWS_PER_BLOCK)]

        def rows_of(block: slice) -> NDArray[np.int64]:
            assert mine is not None, "who owns no columns deals no rows"
            start = starts[block.start // ROWS_PER_BLOCK]
            return mine(slice(start, start + block.stop - block.start))

        n_rows = sum(shard.n_rows for shard in given_up)
        own = None if mine is None else rows_of
        return of_workers + await self._gram_of_blocks(plan, n_rows, own, completes_input=False)

    def _checked(self, share: Words | None, shape: tuple[int, ...]) -> Words:
        """Return what a worker of mine returned, if it is a share of such an array."""
        if share is None or share.dtype != np.uint64 or share.shape != (self.field.n_words, *shape):
            raise LocalFaultError("a worker returned no share of its part")
        try:
            self.field.check(share)
        except OutOfRangeError as error:
            raise LocalFaultError("a worker returned a value outside the field") from error
        return share

    async def release(self, total: NoisySum | SharedArray) -> OpenedArray | None:
        """Open the one result of a job to the coordinator; see `Computation.open_noisy` and `Computation.open`."""
        self.session.progress(OPENING_STAGE, 0, 1)
        opened = await (self.open_noisy(total) if isinstance(total, NoisySum) else self.open(total))
        self.session.progress(OPENING_STAGE, 1, 1)
        return opened

    async def empty_slots(self) -> SharedArray | None:
        """Return how many rows hold nothing, shape (1,), degree t; None where none does, or where owners know which."""
        return None

    def names_of(self, members: Collection[int]) -> list[str]:
        """Return the names of members, in the order of their numbers."""
        return [self.session.names[member] for member in sorted(members)]


def _summed(rows: OwnRows, n_rows: int) -> NDArray[np.int64]:
    """Return the sums of my columns over all rows, shape (columns,)."""
    total = np.zeros(rows.row_shape, dtype=np.int64)
    for start in range(0, n_rows, ROWS_PER_BLOCK):
        total += rows(slice(start, min(start + ROWS_PER_BLOCK, n_rows))).sum(axis=0)
    return total


async def gram_of_shard(session: Session, plan: RowPlan, n_rows: int, mine: OwnRows | None) -> SharedArray:
    """Run a worker's part in one attempt at one shard: agree on keys, share the rows, multiply. Nothing is opened.

    Args:
        session: session of the workers of this attempt alone (`mpc.protocol.shards.Attempt`).
        plan: plan of the job.
        n_rows: rows of the shard.
        mine: my party's rows of the shard, the first one is number 0; None if it owns no columns.

    Returns:
        The entries on and above the diagonal of the shard's X^T X, degree 2t.

    Raises:
        DifferentTermsError: a worker works on something else.
        PeerError: one is silent, drops out or sent an invalid share.

    Privacy: at most t colluding parties' workers see uniform shares. Cost: 3 rounds; bytes as of `Rows.rows`.
    """
    async with JointComputation(await greet(session, plan), "") as c:
        return await c._gram_of_blocks(plan, n_rows, mine, completes_input=False)


class SecretlyJoined(SecretRows, JointComputation):
    """A computation about rows that are matched under shares."""


class ProvenlyJoined(ProvenRows, ProvenProducts, JointComputation):
    """A computation about rows whose owners prove their bounds, and of which products and noise are proven."""

    async def noise_of(self, release: BoundedNoise, shape: tuple[int, ...], *, tells: bool = True) -> NoisySum:
        """See `JointComputation.noise_of`; nobody's noise is larger than that of all can be (`proven_noise`)."""
        if self.holds_shares and tells:
            self.session.progress(NOISE_STAGE, 0, 1)
        return NoisySum(self.field, shape, self.t, await self._proven_noise(release, shape))

    async def shared_noise_of(self, release: BoundedNoise, shape: tuple[int, ...], *, bound: int) -> SharedArray:
        """See `noise_of` and `Computation.shared_noise`."""
        self.session.progress(NOISE_STAGE, 0, 1)
        share = await self._proven_noise(release, shape)
        return self._shared(shape, self.t, self.exchange.n_parties * bound, share)

    async def _proven_noise(self, release: BoundedNoise, shape: tuple[int, ...]) -> Words | None:
        mine = await self.draw(release)
        number, self._n_noises = self._n_noises, self._n_noises + 1
        if mine is None:
            return None
        with self._step():
            stage, largest = self._stage(f"noise {number}"), release.noise_tail_bound(LOG2_WRAP_PROBABILITY)
            found = await proven_noise(self._exchange, stage, mine.reshape(-1), largest)
        return found.reshape(self.field.n_words, *shape)


def computation_of(exchange: ShareExchange, bounds: Bounds, masks: PartyRelease | None, name: str) -> JointComputation:
    """Return my end of a computation, which proves rows and products where owners prove something of their rows.

    Args:
        exchange: dealing and taking of shares.
        bounds: owner to what it proves of its rows; empty where nothing is proven.
        masks: release of the masks of my own proof; None if I bring no rows.
        name: name of the computation.
    """
    if not bounds:
        return JointComputation(exchange, name)
    c = ProvenlyJoined(exchange, name)
    c.expect(bounds, masks)
    return c


class Joined(NamedTuple):
    """What a party has once all have met.

    Where rows are matched under shares, there is a public number of slots instead of rows, of which nobody knows which
    hold rows, and each owner goes on with its own table, in its own order (`analyses.rows.secret_rows`).

    Attributes:
        c: the computation.
        n_rows: rows of the joint table; private to the parties.
        counting: which of my rows count, shape (n_rows,); None where all do. Private to the owners.
        table: my rows of the joint table, in its order; None for a compute party without columns.
    """

    c: JointComputation
    n_rows: int
    counting: NDArray[np.bool_] | None
    table: Table | None


@asynccontextmanager
async def joined(session: Session, plan: Plan, table: Table | None, name: str = "") -> AsyncIterator[Joined]:
    """Meet the others and choose the rows that count, with them; see `meet` and `rows_that_count`.

    Args:
        session: my end of the job; its terms are those of the plan.
        plan: computed by this party itself.
        table: my rows; None for a compute party without columns.
        name: name of the computation.

    Yields:
        My end. What it does ahead ends with the context.

    Raises:
        DifferentTermsError: a member has computed another plan, or says so.
        UnequalValuesError: the tables do not hold the same rows in the same order.
        PlacementFailedError: rows are matched under shares, and chance prevents it, with a probability below 2^-40.
        PeerError: a member is silent, drops out or violates the protocol.
    """
    if matches_in_secret(plan.job):
        async with SecretlyJoined(await greet(session, plan), name) as secretly:
            yield Joined(secretly, await secretly.match(plan, table), None, table)
        return
    exchange, n_rows, table = await meet(session, plan, table)
    counting = await rows_that_count(exchange, plan, table)
    masks = plan.masks_of(session.me) if session.me in plan.norm_bounds else None
    async with computation_of(exchange, plan.norm_bounds, masks, name) as c:
        yield Joined(c, n_rows, counting, table)
