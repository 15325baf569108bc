"""A noisy sketch of the joint table's rows: the form in which [VertPrim23, appendix E] releases X^T X and X^T y.

The data parties agree on a key that the coordinator never learns, and draw the same random matrix G from it. Each sends
G times its own block, with noise of its own, to the coordinator. No shares and no products: one message per party, and
much more noise than `analyses.second_moments.noisy_gram` needs at the same privacy.

Differences from the paper, argued in `dp.mechanism.projection.NoisySketch`: the cost is that of a record in all
blocks; it holds for every epsilon and every G, as the noise follows the longest column of the actual one; noise and
data are integers; the label is a column like any other, so its noise follows the square of its bound.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isqrt
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from analyses.job.job import Job, JobError
from analyses.job.plan import OPENING_STAGE, protected_of
from analyses.job.releases import PlannedRelease
from analyses.job.schema import BlockSchema, LocalReport, Table
from analyses.rows.meeting import meet
from analyses.rows.own_rows import QuantisedRows
from analyses.rows.own_values import zeros_instead
from analyses.rows.row_plan import RowBounds, RowParams, RowPlan
from analyses.rows.surplus import rows_that_count
from analyses.rows.traffic import JointTraffic
from analyses.second_moments.sketch_matrix import Entries, SketchMatrix
from dp.cost.accounting import CalibrationError
from dp.mechanism.projection import NoisySketch
from entropy import KeyStream
from mpc.errors import PeerViolationError
from mpc.protocol.hashkey import HashKeys
from mpc.protocol.session import COORDINATOR, Session
from mpc.traffic.shares import WORD_BYTES
from mpc.traffic.walk import Traffic, agree_on_key

KEY_NAME = "sketch matrix"
MAX_SKETCH_ROWS = 4096
N_PRIMES = 3
"""Number of primes of the field in which digests of row ids are compared; nothing else is computed in it."""

MAX_ENTRIES = 1 << 34
"""Largest number of entries of G. Every party draws all of G, at about a hundred million entries per second."""

_MAX_DEVIATIONS = 16  # noise reaches so far with probability below 2^-180
_MOST = 1 << 62


class MomentParams(RowParams):
    """Parameters of the release of X^T X, besides those of the rows.

    Attributes:
        method: `mpc`, counted under shares; or `sketch`, the form of the paper.
        sketch_rows: s, for `sketch`; its default depends on the analysis.
        sketch_entries: for `sketch`: `gaussian` (the paper) or `signs`, for which less noise suffices.
    """

    method: Literal["mpc", "sketch"] = "mpc"
    sketch_rows: Annotated[int, Field(ge=1, le=MAX_SKETCH_ROWS)] | None = None
    sketch_entries: Entries = "gaussian"

    @model_validator(mode="after")
    def _sketches_have_a_matrix(self) -> Self:
        given = sorted({"sketch_rows", "sketch_entries"} & self.model_fields_set)
        if self.method != "sketch" and given:
            raise ValueError(f"{given[0]}: can only be given with method 'sketch'")
        return self


class SketchPlan(RowPlan):
    """What all participants agree on before a sketch is released.

    Attributes:
        sketch_rows: s, default filled in.
        multiplier: factor of the noise variance, see `NoisySketch`.
    """

    params: MomentParams
    sketch_rows: int
    multiplier: int

    @cached_property
    def mechanism(self) -> NoisySketch:
        """The release, with its cost."""
        return NoisySketch(
            sketch_rows=self.sketch_rows,
            squared_norm_bounds=self.squared_norm_bounds,
            constant=self.constant,
            is_signed=self.params.origin != "lower",
            n_parties=self.n_parties,
            colluding=self.job.t,
            multiplier=self.multiplier,
            protected=self.protected,
        )

    @property
    def matrix(self) -> SketchMatrix:
        """The shape of G."""
        return SketchMatrix(self.sketch_rows, self.params.sketch_entries)

    @cached_property
    def releases(self) -> tuple[PlannedRelease, ...]:
        """The release of all blocks: a record is in all of them, and every owner adds the noise of its own."""
        return (PlannedRelease(self.mechanism, self.owners),)

    def report_of_releases(self) -> dict[str, Any]:
        """Return the cost of all blocks in both views."""
        return self.mechanism.report(self.job.privacy.delta)

    @property
    def privacy_unit(self) -> str:
        """The privacy unit that the mechanism protects."""
        return self.protected.name

    def traffic(self, n_rows: int) -> Traffic:
        """See `Plan` and `release_sketch`."""
        joint = JointTraffic(self, n_rows)
        joint.meet(all_pairs=True)
        joint.count_rows_of_persons()
        agree_on_key(joint.traffic, self.owners)
        joint.to_coordinator({o: WORD_BYTES * (1 + self.sketch_rows * self.width_of(o)) for o in self.owners})
        return joint.ended()


def calibrate_sketch(
    job: Job, schemas: Sequence[BlockSchema], rows: RowBounds, params: MomentParams, sketch_rows: int
) -> NoisySketch:
    """Return the release with the least noise that meets the job's privacy.

    Raises:
        JobError: names the field of the job that cannot be met.
    """
    if len(job.inputs) < 2:
        raise JobError(
            "inputs: a sketch needs at least two parties with columns, because they agree on its random matrix"
        )
    matrix = SketchMatrix(sketch_rows, params.sketch_entries)
    if params.max_rows * sketch_rows > MAX_ENTRIES:
        raise JobError(
            f"parameters.max_rows, parameters.sketch_rows: drawing a matrix of {sketch_rows} x {params.max_rows} "
            "entries would take too long; use a smaller max_rows, or method 'mpc'"
        )
    try:
        mechanism = NoisySketch.calibrate(
            sketch_rows=sketch_rows,
            squared_norm_bounds=rows.squared_norm_bounds,
            constant=rows.constant,
            is_signed=params.origin != "lower",
            n_parties=len(job.compute_parties),
            colluding=job.t,
            epsilon=job.privacy.epsilon,
            delta=job.privacy.delta,
            view=job.privacy.view,
            protected=protected_of(job, tuple(schemas)),
        )
    except CalibrationError as error:
        raise JobError(f"privacy: {error}") from error
    longest = sketch_rows * matrix.largest_entry**2
    if not mechanism.is_drawable(longest) or _largest_value(mechanism, matrix, params.max_rows, longest) >= _MOST:
        raise JobError(
            "parameters.gamma, parameters.max_rows: the values and the noise of the sketch exceed 62 bits; use a "
            "smaller gamma"
        )
    return mechanism


def _largest_value(mechanism: NoisySketch, matrix: SketchMatrix, max_rows: int, longest: int) -> int:
    """Return a bound of an entry of G X plus noise, where the longest column of G has this squared norm."""
    largest = max(*mechanism.squared_norm_bounds, mechanism.constant**2)
    reach = _MAX_DEVIATIONS * (isqrt(mechanism.variance(longest)) + 1)
    return max_rows * matrix.largest_entry * isqrt(largest) + reach


async def release_sketch(session: Session, plan: SketchPlan, table: Table | None) -> LocalReport:
    """Run a party's part: agree on keys, check that rows match, sketch my block, add my noise, send it.

    Args:
        session: my end of the job.
        plan: computed by this party itself.
        table: my rows, columns as in my schema; None for a compute party without columns, which learns nothing of G.

    Raises:
        UnequalValuesError: the tables do not hold the same rows in the same order.
        PeerError: a member is silent, drops out or violates the protocol.

    Privacy: `NoisySketch`. The coordinator learns C besides, which depends on the key and on nothing else: it is taken
    over max_rows columns, however many rows there are.
    Cost: 7 rounds; 8 * s * columns bytes per party; s * max_rows entries of G are drawn.
    """
    exchange, n_rows, table = await meet(session, plan, table, all_pairs=True)
    if table is None:
        return LocalReport(n_rows, {}, 0)
    counting = await rows_that_count(exchange, plan, table)
    key = await HashKeys(session, plan.owners, exchange.secrets).agree(KEY_NAME)
    mine = QuantisedRows(plan, session.me, table, counting)
    sketch = _BlockSketch(plan, session.me, mine, table, n_rows)
    stream, step = key.stream("columns"), plan.matrix.block_columns
    for start in range(0, plan.params.max_rows, step):
        await session.compute(sketch.add_columns, stream, start, min(step, plan.params.max_rows - start))
        session.progress("sketch", min(start + step, plan.params.max_rows), plan.params.max_rows)
    longest = sketch.largest_squared_column
    length = plan.sketch_rows * plan.width_of(session.me)
    noise = await session.draw(plan.mechanism, longest, length)
    noisy_block = sketch.product.reshape(-1) + noise
    session.progress(OPENING_STAGE, 0, 1)
    message = np.concatenate([np.array([longest], dtype=np.int64), noisy_block]).view(np.uint64)
    await session.send(COORDINATOR, OPENING_STAGE, message)
    session.progress(OPENING_STAGE, 1, 1)
    return mine.report()


class _BlockSketch:
    """G X for one party's block, as the columns of G come in."""

    def __init__(self, plan: SketchPlan, member: int, mine: QuantisedRows, table: Table, n_rows: int) -> None:
        self._matrix, self._mine, self._table, self._n_rows = plan.matrix, mine, table, n_rows
        self.product = np.zeros((plan.sketch_rows, plan.width_of(member)), dtype=np.int64)
        self.largest_squared_column = 0

    def add_columns(self, stream: KeyStream, start: int, n_columns: int) -> None:
        """Draw the next columns and multiply them with the rows that they meet, if any.

        A product is at most 2^5 * 2^30 in size and a block has at most 2^14 rows, so float64 is exact.
        """
        columns = self._matrix.draw(stream, n_columns)
        longest = self._matrix.largest_squared_norm(columns)
        self.largest_squared_column = max(self.largest_squared_column, longest)
        if start < self._n_rows:
            integers = self._mine(slice(start, start + n_columns))

            def product_of(own: NDArray[np.int64]) -> NDArray[np.int64]:
                return (columns[: len(own)].T.astype(np.float64) @ own.astype(np.float64)).astype(np.int64)

            self.product += zeros_instead(self._table, product_of, integers, np.zeros_like(integers))


@dataclass(frozen=True)
class OpenedSketch:
    """The noisy sketch that the coordinator received.

    Attributes:
        rows: shape (s, columns), scaled so that the mean of its second moments is X^T X in units of scaled rows, plus
            `noise` on the diagonal; the constant column last.
        noise: the mean of the noise's second moment, per column.
    """

    rows: NDArray[np.float64] = field(repr=False)
    noise: float


async def gather_sketches(session: Session, plan: SketchPlan) -> OpenedSketch:
    """Run the coordinator's part: take every owner's noisy block.

    Raises:
        PeerViolationError: a party sent an invalid block, or used a different G than the others; names it.
        PeerError: a party is silent or drops out, so its columns are missing.
    """
    s, matrix = plan.sketch_rows, plan.matrix

    async def from_owner(owner: int) -> NDArray[np.int64]:
        words = await session.receive(owner, OPENING_STAGE, (1 + s * plan.width_of(owner),))
        return words.view(np.int64)

    answers = await asyncio.gather(*map(from_owner, plan.owners))
    longest = int(answers[0][0])
    for owner, answer in zip(plan.owners, answers, strict=True):
        name = session.names[owner]
        if not 1 <= answer[0] <= s * matrix.largest_entry**2:
            raise PeerViolationError(
                owner, OPENING_STAGE, f"{name} sent a column norm that is impossible for a sketch matrix"
            )
        if answer[0] != longest:
            what = f"{name} and {session.names[plan.owners[0]]} drew different sketch matrices"
            raise PeerViolationError(owner, OPENING_STAGE, what)
        largest = _largest_value(plan.mechanism, matrix, plan.params.max_rows, longest)
        if not ((answer[1:] >= -largest) & (answer[1:] <= largest)).all():
            raise PeerViolationError(owner, OPENING_STAGE, f"{name} sent a sketch with values out of range")
    blocks = [answer[1:].reshape(s, -1).astype(np.float64) for answer in answers]
    variance = matrix.variance
    noise = plan.mechanism.variance(longest) / variance * plan.unit**2
    return OpenedSketch(np.hstack(blocks) * (plan.unit / np.sqrt(s * variance)), noise)
