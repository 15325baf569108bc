"""Logistic regression by noisy gradients: every step opens one, about a batch or about all rows."""

import asyncio
import hashlib
from collections.abc import Coroutine, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyses.job.plan import OPENING_STAGE
from analyses.job.schema import LocalReport, Table
from analyses.logistic_regression.descent import Descent, on_lattice
from analyses.logistic_regression.gradient_plan import GradientPlan
from analyses.logistic_regression.labelled_rows import LabelledRows
from analyses.logistic_regression.taylor_gradient import TaylorGradient
from analyses.logistic_regression.weights import in_own_units
from analyses.rows.joint_computation import ROWS_PER_BLOCK, JointComputation, joined
from analyses.rows.own_rows import report_of
from mpc.errors import PeerViolationError
from mpc.protocol.computation import Computation
from mpc.protocol.echo import compare
from mpc.protocol.hashkey import HashKeys
from mpc.protocol.operations.noise import NoisySum
from mpc.protocol.operations.product_sum import ProductSum
from mpc.protocol.session import COORDINATOR, Session
from mpc.protocol.shared import SharedArray, concatenate

WEIGHTS_STAGE = "weights"
BATCHES = "batches"


async def take_part_in_steps(session: Session, plan: GradientPlan, table: Table | None) -> LocalReport:
    """Run a party's part: share my columns, then multiply, add noise and open, batch by batch.

    Args:
        session: my end of the job.
        plan: computed by this party itself.
        table: my rows, columns as in my schema; None for a compute party without columns.

    Returns:
        How many of my values were clipped; as `mapped_values`, how many of my labels were neither 0 nor 1 and became
        the nearer of the two (`analyses.rows.integer_column`).

    Raises:
        UnequalValuesError: the tables do not hold the same rows in the same order.
        PeerViolationError: the coordinator sent weights outside the ball.
        InconsistentSharesError: it did not send the same to all parties, or one of them says so.
        PeerError: a member is silent, drops out or violates the protocol.

    Privacy: at most t colluding parties learn nothing but the opened sums and the batches; see `SampledSkellam`.
    Cost: 9 rounds, then 2 per step (weights, opening) where the plan binds weights, else 3 (the echo of the weights
    comes before the opening; order 3: 2 more, and where N > 2t + 1 another 2, in which surplus shares reveal whether a
    party multiplied corrupted shares); per element of the table at most 8 *
    n_words * (N - t) bytes sent by its owner, per step and compute party 8 * n_words * (N - 2t) per opened entry.
    """
    async with joined(session, plan, table) as (c, n_rows, counting, table):
        mine = None if table is None else LabelledRows(plan, session.me, table, counting)
        session.progress("table", 0, 1)
        held = await c.hold_rows(plan.widths, n_rows, mine, height=ROWS_PER_BLOCK)
        if c.holds_shares:
            key = await HashKeys(session, range(1, plan.n_parties + 1), c.exchange.secrets).agree(BATCHES)
            batches = plan.sampling.samples(key.stream(BATCHES), n_rows)
            session.progress(OPENING_STAGE, 0, 1)
            await open_gradients(c, plan, held, batches)
        session.progress(OPENING_STAGE, 1, 1)
    return report_of(mine, n_rows)


async def open_gradients(
    c: JointComputation, plan: GradientPlan, held: SharedArray, batches: Iterator[NDArray[np.intp]]
) -> None:
    """Open the noisy sums of the batches in order, and prepare the next batch and its noise meanwhile.

    Surplus shares or proofs tell whether a party has multiplied wrong ones, before anything of it is opened.

    Where the plan binds weights, a party adds a sharing of zero to what it opens, all of whose shares are derived from
    pairwise keys under the digest of the weights that it was told. The zeros cancel if all honest parties were told the
    same; else what they open is uniform (docs/decisions/139). So the echo travels beside the opening, and is waited for
    before the next one.
    """
    session, gradient, n_steps = c.session, plan.gradient, plan.params.iterations
    shape = (gradient.n_columns, gradient.n_sums)
    products = c.beside("products")

    async def prepare() -> tuple[list[NDArray[np.intp]], tuple[SharedArray, SharedArray], NoisySum]:
        rows = await session.compute(next, batches)
        first, *others = (rows[part] for part in plan.parts_of(len(rows)))
        shares = await session.compute(batch_of, plan, held, first)
        return others, shares, await c.noise_of(plan.mechanism, shape, tells=False)

    coming = c.ahead(prepare())
    weights, echo = np.zeros(gradient.n_columns, dtype=np.int64), None
    for step in range(n_steps):
        if step > 0:
            if echo is not None:
                await echo  # it comes a flight before the weights of the next step
            weights, compared = await receive_weights(c, plan)
            echo = c.ahead(compared)
            if not plan.binds_weights:
                await echo
        others, shares, total = await coming
        sums = products.product_sum(*shape)
        await add_part(products, plan, *shares, weights, sums)
        for part in others:
            shares = await session.compute(batch_of, plan, held, part)
            await add_part(products, plan, *shares, weights, sums)
        total += await sums.total()
        await products.check_products()
        if step > 0 and plan.binds_weights:
            total += await zero_of(c, plan, weights, step, shape)
        await c.open_noisy(total)
        session.progress("iterations", step + 1, n_steps)
        if step + 1 < n_steps:
            coming = c.ahead(prepare())
    if echo is not None:
        await echo


async def zero_of(
    c: JointComputation, plan: GradientPlan, weights: NDArray[np.int64], step: int, shape: tuple[int, int]
) -> SharedArray:
    """Return my share of a zero of degree 2t = N - 1 that only who has the same weights in this step adds up to zero.

    Nothing travels. The label has the digest of the weights, so each stream is used once.
    """
    exchange, degree = c.exchange, 2 * plan.job.t
    label = f"zero of weights {hashlib.sha256(weights.tobytes()).hexdigest()}"
    share = await exchange.deal_and_sum(label, exchange.field.zeros(shape), degree, step)
    return SharedArray(exchange.field, shape, degree, 0, share)


def batch_of(plan: GradientPlan, held: SharedArray, rows: NDArray[np.intp]) -> tuple[SharedArray, SharedArray]:
    """Return the shared features of some rows, a public constant appended, and their labels."""
    assert held.share is not None, "a compute party holds a share of every row"
    chosen, field, place = held.share[:, rows], held.field, plan.label_index
    features = [chosen[:, :, :place], chosen[:, :, place + 1 :]]
    if plan.params.intercept and not plan.shares_constant:
        constant = field.encode(np.full(1, plan.constant))
        features.append(np.broadcast_to(constant[:, :, None], (field.n_words, len(rows), 1)))
    x, y = np.concatenate(features, axis=2), np.ascontiguousarray(chosen[:, :, place])
    return (
        SharedArray(field, x.shape[1:], held.degree, None, x),
        SharedArray(field, y.shape[1:], held.degree, None, y),
    )


async def add_part(
    c: Computation,
    plan: GradientPlan,
    x: SharedArray,
    y: SharedArray,
    weights: NDArray[np.int64],
    sums: ProductSum,
) -> None:
    """Add the sums over a part of a batch of x times its factors, for public weights."""
    compute = c.exchange.session.compute
    products = await compute(lambda: x @ weights)
    cubes = None
    if plan.params.order == 3:
        cubes = await c.multiply(await c.multiply(products, products), products)
    await sums.add(x.T, await compute(_factors, plan.gradient, y, products, cubes))


def _factors(gradient: TaylorGradient, y: SharedArray, products: SharedArray, cubes: SharedArray | None) -> SharedArray:
    return concatenate([factor.reshape(-1, 1) for factor in gradient.factors(products, y, cubes)], axis=1)


async def receive_weights(
    c: JointComputation, plan: GradientPlan
) -> tuple[NDArray[np.int64], Coroutine[Any, Any, None]]:
    """Return the coordinator's weights, which are short enough, and what compares them with those of the others.

    The second is to be awaited: it raises InconsistentSharesError where they are not the same, or a party says so.

    Raises:
        PeerViolationError: they are too long: the noise was made for other ones.
    """
    session, gradient = c.session, plan.gradient
    words = await session.receive(COORDINATOR, WEIGHTS_STAGE, (gradient.n_columns,))
    weights = words.view(np.int64)
    if sum(int(w) ** 2 for w in weights) > gradient.squared_weight_bound:
        what = f"{session.names[COORDINATOR]} sent weights of a larger norm than the plan allows"
        raise PeerViolationError(COORDINATOR, WEIGHTS_STAGE, what)
    return weights, compare(session, COORDINATOR, WEIGHTS_STAGE, words, range(1, plan.n_parties + 1))


async def follow_steps(session: Session, plan: GradientPlan) -> dict[str, Any]:
    """Run the coordinator's part: open noisy gradients, update the weights and send them back.

    Returns:
        What the result says of this method: `weights` and `intercept`, in the units of the columns; `iterations`;
        `wrong_shares_from`.

    Raises:
        PeerError: fewer than 2t + 1 parties sent their share.
        InconsistentSharesError: there are corrupted shares that cannot be corrected.
    """
    params, gradient = plan.params, plan.gradient
    c = JointComputation.of_coordinator(session, plan)
    descent = Descent(gradient.n_columns, params.optimiser, params.learning_rate, params.weight_norm)
    shape, wrong = (gradient.n_columns, gradient.n_sums), set[int]()
    for step in range(params.iterations):
        if step > 0:
            lattice = on_lattice(descent.weights, params.weight_gamma, gradient.squared_weight_bound)
            words = lattice.view(np.uint64)
            await asyncio.gather(*(session.send(p, WEIGHTS_STAGE, words) for p in range(1, plan.n_parties + 1)))
        opened = await c.open_noisy(c.noisy_outline(shape))
        assert opened is not None, "the coordinator is the receiver"
        wrong.update(opened.wrong)
        descent.follow(gradient.gradient_of(opened.values.astype(np.float64)) / plan.expected_batch)
        session.progress("iterations", step + 1, params.iterations)
    weights, intercept = in_own_units(plan, descent.weights)
    return {
        "weights": weights.tolist(),
        "intercept": intercept,
        "iterations": params.iterations,
        "wrong_shares_from": c.names_of(wrong),
    }
