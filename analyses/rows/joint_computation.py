"""A computation about a joint table, as analyses have it: it begins when all have met, and draws what a plan releases.

async with joined(session, plan, table) as (c, n_rows, counting, table):
    total = await c.noise_of(plan.mechanism, shape)
    async for x in c.rows(widths, n_rows, mine, height=ROWS_PER_BLOCK):
        ...
    await c.release(total)
"""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analyses.job.plan import OPENING_STAGE, Plan, matches_in_secret
from analyses.job.schema import Table
from analyses.rows.meeting import greet, meet
from analyses.rows.secret_rows import SecretRows
from analyses.rows.surplus import rows_that_count
from mpc.arithmetic.field import ResidueField
from mpc.protocol.computation import Computation
from mpc.protocol.exchange import ShareExchange
from mpc.protocol.operations.noise import NoisySum
from mpc.protocol.operations.openings import OpenedArray
from mpc.protocol.session import Drawable, Session
from mpc.protocol.shared import SharedArray

ROWS_PER_BLOCK = 4096
"""Number of rows of the joint table that are in memory at once."""

NOISE_STAGE = "noise"


PartyRelease = Drawable[[], NDArray[np.int64]]
"""A release to which every compute party adds a part of the noise."""


class JointComputation(Computation):
    """A computation that draws what a plan releases, and tells how far it is."""

    @property
    def session(self) -> Session:
        """My end of the job."""
        return self.exchange.session

    @classmethod
    def of_coordinator(cls, session: Session, plan: Plan, name: str = "") -> "JointComputation":
        """Return the coordinator's end: it shares no key with anybody and holds no shares."""
        return cls(ShareExchange(session, ResidueField(plan.n_primes), plan.n_parties, plan.job.t, {}), name)

    async def draw(self, release: PartyRelease) -> NDArray[np.int64] | None:
        """Draw my part of a release's noise (`Session.draw`); None where I hold no shares."""
        return await self.session.draw(release) if self.holds_shares else None

    async def noise_of(self, release: PartyRelease, shape: tuple[int, ...]) -> NoisySum:
        """Draw my part of a release's noise and begin its sum with everybody's; see `Computation.noise`."""
        if self.holds_shares:
            self.session.progress(NOISE_STAGE, 0, 1)
        return await self.noise(shape, await self.draw(release))

    async def shared_noise_of(self, release: PartyRelease, shape: tuple[int, ...], *, bound: int) -> SharedArray:
        """Draw my part of a release's noise and share it; see `Computation.shared_noise`."""
        self.session.progress(NOISE_STAGE, 0, 1)
        return await self.shared_noise(shape, await self.draw(release), bound=bound)

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


class SecretlyJoined(SecretRows, JointComputation):
    """A computation about rows that are matched under shares."""


class Joined(NamedTuple):
    """What a party has once all have met.

    Where rows are matched under shares, there is a public number of slots instead of rows, of which nobody knows which
    hold rows, and each owner goes on with its own table, in its own order (`analyses.rows.secret_rows`).

    Attributes:
        c: the computation.
        n_rows: of the joint table; private to the parties.
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
        name: of the computation.

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
    async with JointComputation(exchange, name) as c:
        yield Joined(c, n_rows, counting, table)
