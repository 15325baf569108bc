"""The noisy matrix X^T X of the joint table's rows: counted under shares, opened once. What several analyses stand on.

The parties share their quantised columns, multiply locally, add noise that nobody knows, and open only the noisy
second-moment matrix to the coordinator.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyses.job.job import Job, JobError
from analyses.job.plan import OPENING_STAGE, protected_of
from analyses.job.releases import PlannedRelease
from analyses.job.schema import BlockSchema, LocalReport, Table
from analyses.rows.meeting import meet
from analyses.rows.opening import MULTIPLY_STAGE, commit_after_input, share_noise, tell_multiplied
from analyses.rows.row_plan import RowBounds, RowPlan, clipping_counts
from analyses.rows.surplus import n_surplus, rows_that_count
from dp.cost.accounting import CalibrationError
from dp.mechanism.gram import NoisyGram
from dp.mechanism.skellam_parameters import LOG2_WRAP_PROBABILITY
from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.gram import GramAccumulator, expand_triangle
from mpc.errors import FieldTooSmallError, TooFewPartiesError
from mpc.protocol.concurrency import run_together
from mpc.protocol.exchange import ShareExchange, Words
from mpc.protocol.session import COORDINATOR, Session

ROWS_PER_BLOCK = 4096


class GramPlan(RowPlan):
    """What all participants agree on before X^T X is released.

    Attributes:
        party_mu: Skellam parameter of each party's noise on the diagonal; half of it off the diagonal.
    """

    party_mu: int

    @cached_property
    def mechanism(self) -> NoisyGram:
        """The release, with its cost."""
        return NoisyGram(
            n_columns=self.n_row_columns,
            squared_norm_bound=self.total_squared_norm,
            n_parties=self.n_parties,
            colluding=self.job.t,
            party_mu=self.party_mu,
            protected=self.protected,
        )

    @cached_property
    def releases(self) -> tuple[PlannedRelease, ...]:
        """The one release; every compute party adds its noise."""
        return (PlannedRelease(self.mechanism, self.compute_members),)

    def privacy_report(self) -> dict[str, Any]:
        """Return the cost of the release in both views."""
        return self.mechanism.report(self.job.privacy.delta)

    @property
    def privacy_unit(self) -> str:
        """What the mechanism protects."""
        return self.protected.name


def calibrate_gram(job: Job, schemas: Sequence[BlockSchema], rows: RowBounds, max_rows: int) -> tuple[NoisyGram, int]:
    """Return the release with the least noise that meets the job's privacy, and the primes of the field that holds it.

    The field bound: entry (i, j) of X^T X is at most max_rows * max_q B_q in size, by Cauchy-Schwarz on the rows of the
    blocks that i and j lie in (a constant column is a block of its own); to it comes the noise's tail bound.

    Raises:
        JobError: names the field of the job that cannot be met.
    """
    try:
        mechanism = NoisyGram.calibrate(
            n_columns=rows.n_columns,
            squared_norm_bound=rows.total,
            n_parties=len(job.compute_parties),
            colluding=job.t,
            epsilon=job.privacy.epsilon,
            delta=job.privacy.delta,
            view=job.privacy.view,
            protected=protected_of(job, tuple(schemas)),
        )
        bound = max_rows * rows.largest + mechanism.noise_tail_bound(LOG2_WRAP_PROBABILITY)
        return mechanism, len(ResidueField.for_bound(bound).primes)
    except CalibrationError as error:
        raise JobError(f"privacy: {error}") from error
    except (FieldTooSmallError, TooFewPartiesError) as error:
        raise JobError(f"parameters.max_rows, parameters.gamma: {error}") from error


async def share_noisy_gram(
    session: Session, plan: GramPlan, table: Table | None, rows_per_block: int = ROWS_PER_BLOCK
) -> LocalReport:
    """Run a party's part: agree on keys, check that rows match, share noise and rows, multiply, send the noisy share.

    Args:
        session: my end of the job.
        plan: computed by this party itself.
        table: my rows, columns as in my schema; None for a compute party without columns.
        rows_per_block: so many rows are in memory at once; the same at all parties.

    Raises:
        UnequalValuesError: the tables do not hold the same rows in the same order.
        PeerError: a member is silent, lost or violates the protocol.

    Noise is dealt before the rows, so that N - 2t - 1 parties may vanish once all have dealt their rows.

    Privacy: at most t colluding parties learn nothing but the released matrix; see `NoisyGram` for what it costs.
    Cost: 6 rounds; per element of the table at most 8 * n_words * (N - t) bytes sent by its owner.
    """
    exchange, n_rows = await meet(session, plan, table)
    counting = await rows_that_count(exchange, plan, table)
    noisy: Words | None = None
    if exchange.am_receiver:
        session.progress("noise", 0, 1)
        noise = await session.draw(plan.mechanism)
        noisy = await share_noise(exchange, noise, 2 * plan.job.t)
    counts, gram = await _share_and_multiply(exchange, plan, table, counting, range(0, n_rows, rows_per_block), n_rows)
    if noisy is not None and gram is not None:
        exchange.field.accumulate(noisy, gram)
    session.progress(OPENING_STAGE, 0, 1)
    await exchange.open(OPENING_STAGE, noisy, _triangle_shape(plan), 2 * plan.job.t, (COORDINATOR,))
    session.progress(OPENING_STAGE, 1, 1)
    return counts


async def _share_and_multiply(
    exchange: ShareExchange,
    plan: GramPlan,
    table: Table | None,
    counting: NDArray[np.bool_] | None,
    starts: range,
    n_rows: int,
) -> tuple[LocalReport, Words | None]:
    """Deal my rows and multiply everybody's, block by block, both at once.

    Returns my private counts and my share of the upper triangle of X^T X (degree 2t), None for an input-only party.
    """
    session, field, t = exchange.session, exchange.field, exchange.t
    own_shares: asyncio.Queue[Words] = asyncio.Queue(maxsize=2)
    outside = np.zeros(0 if table is None else table.values.shape[1], dtype=np.int64)
    clipped_rows = 0

    async def deal_rows(table: Table) -> None:
        nonlocal clipped_rows
        for block, start in enumerate(starts):
            rows = table.values[start : start + starts.step]
            integers, outside_here, clipped_here = await session.compute(plan.quantise, session.me, rows)
            outside[:] += outside_here
            clipped_rows += clipped_here
            if counting is not None:
                integers[~counting[start : start + starts.step]] = 0
            share = await exchange.deal("table", block, await session.compute(field.encode, integers), t)
            if share is not None:
                await own_shares.put(share)
        await commit_after_input(exchange)

    async def shares_of_block(block: int) -> list[Words]:
        height = min(starts.step, n_rows - starts[block])

        async def share_of(owner: int) -> Words:
            if owner == session.me:
                return await own_shares.get()
            return await exchange.take(owner, "table", block, (height, plan.width_of(owner)), t)

        return await asyncio.gather(*map(share_of, plan.owners))

    async def multiply_rows() -> Words:
        product = GramAccumulator(field, plan.n_row_columns)
        coming = asyncio.ensure_future(shares_of_block(0))
        try:
            for block in range(len(starts)):
                shares = await coming
                if block + 1 < len(starts):
                    coming = asyncio.ensure_future(shares_of_block(block + 1))
                await session.compute(product.add_rows, shares)
                tell_multiplied(exchange, block + 1, len(starts))
        finally:
            coming.cancel()
        return product.upper_triangle()

    dealing = [] if table is None else [deal_rows(table)]
    multiplying = [multiply_rows()] if exchange.am_receiver else []
    *_, last = await run_together(*dealing, *multiplying)
    if exchange.am_receiver:
        session.progress(MULTIPLY_STAGE, 1, 1)
    clipping = clipping_counts(table, outside, clipped_rows)
    counts = LocalReport(n_rows, **clipping, surplus_rows=n_surplus(counting))
    return counts, last if exchange.am_receiver else None


@dataclass(frozen=True)
class OpenedGram:
    """What the coordinator opened.

    Attributes:
        matrix: shape (columns, columns), the noisy X^T X in units of scaled rows; the constant column last.
        wrong_shares_from: names of parties whose shares were wrong and corrected.
    """

    matrix: NDArray[np.float64] = field(repr=False)
    wrong_shares_from: list[str]


async def open_noisy_gram(session: Session, plan: GramPlan) -> OpenedGram:
    """Run the coordinator's part: open the noisy matrix.

    Raises:
        PeerError: fewer than 2t + 1 parties sent their share.
        InconsistentSharesError: wrong shares that cannot be corrected.
    """
    field = ResidueField(plan.n_primes)
    exchange = ShareExchange(session, field, plan.n_parties, plan.job.t, {})
    opening = await exchange.open(OPENING_STAGE, None, _triangle_shape(plan), 2 * plan.job.t, (COORDINATOR,))
    assert opening is not None
    matrix = expand_triangle(field.decode(opening.words).astype(np.float64), plan.n_row_columns)
    return OpenedGram(matrix * plan.unit**2, [session.names[member] for member in opening.wrong])


def _triangle_shape(plan: GramPlan) -> tuple[int]:
    return (plan.mechanism.n_entries,)
