"""Logistic regression on a vertically partitioned table: SLR [SPCA24, appendix B] with its privacy repaired.

Every party holds some columns of the same rows, one of them the label. All rows are shared once. Then, step by step,
the parties draw a Poisson batch that the coordinator does not know, multiply locally, add noise that nobody knows, and
open only the noisy gradient of the batch to the coordinator, who follows it and sends the new weights back.

Differences from the paper (docs/analyses/logistic-regression.md): one gradient is opened instead of three sums (the
paper's three are a choice); rows are rounded toward zero and clipped to public bounds by party; the noise of N - t
parties suffices; what a coalition sees is bounded by the largest number of batches that a record can enter, not by the
mean; batch sizes stay hidden; the third order of the Taylor polynomial is a choice.
"""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyses.job.analysis import Analysis
from analyses.job.job import Job
from analyses.job.plan import OPENING_STAGE
from analyses.job.schema import LocalReport, Table
from analyses.job.survival import Survival, every_party_needed
from analyses.logistic_regression.descent import Descent, on_lattice
from analyses.logistic_regression.plan import LogisticRegressionParams, LogisticRegressionPlan, plan
from analyses.logistic_regression.taylor_gradient import TaylorGradient
from analyses.logistic_regression.text import weight_lines
from analyses.rows.integer_column import nearest_places
from analyses.rows.joint_computation import ROWS_PER_BLOCK, JointComputation, joined
from analyses.rows.own_rows import OwnRows, report_of
from mpc.arithmetic.opening import survivable
from mpc.errors import PeerViolationError
from mpc.protocol.computation import Computation
from mpc.protocol.echo import receive_alike
from mpc.protocol.hashkey import HashKeys
from mpc.protocol.operations.noise import NoisySum
from mpc.protocol.session import COORDINATOR, Session
from mpc.protocol.shared import SharedArray, concatenate

__all__ = [
    "ANALYSIS",
    "LogisticRegressionParams",
    "LogisticRegressionPlan",
    "coordinator",
    "party",
    "plan",
    "reference",
]

WEIGHTS_STAGE = "weights"
BATCHES = "batches"


async def party(session: Session, plan: LogisticRegressionPlan, table: Table | None) -> LocalReport:
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
        PeerViolationError: the coordinator sent weights outside the ball, or not the same to all parties.
        PeerError: a member is silent, lost or violates the protocol.

    Privacy: at most t colluding parties learn nothing but the opened sums and the batches; see `SampledSkellam`.
    Cost: 9 rounds, then 3 per step (weights, their echo, opening; order 3: 2 more, and where N > 2t + 1 another 2, in
    which the surplus shows whether a party multiplied wrong shares); per element of the table at most
    8 * n_words * (N - t) bytes sent by its owner, per step and compute party 8 * n_words * (N - 2t) per opened entry.
    """
    async with joined(session, plan, table) as (c, n_rows, counting):
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


class LabelledRows(OwnRows):
    """My rows: quantised features, then the label if it is mine, then a shared constant.

    Rows that do not count are zero, the constant too: then their gradient is, whatever the weights are.
    """

    def __init__(self, plan: LogisticRegressionPlan, me: int, table: Table, counting: NDArray[np.bool_] | None) -> None:
        super().__init__(table, counting, [column.name for column in plan.features_of(me).columns])
        names = [c.name for c in table.schema.columns]
        label = plan.params.label_column if table.schema.party == plan.params.label_party else None
        self._constant = plan.intercept_units if plan.shares_constant and me == plan.owners[-1] else None
        self._features = [i for i, name in enumerate(names) if name != label]
        self._labels = {name: i for i, name in enumerate(names) if name == label}
        self._quantiser = plan.quantiser_of(me)
        self._mapped = dict.fromkeys(self._labels, 0)

    def quantise(self, values: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
        """Scale and clip the features, and map the label to 0 or 1."""
        features, outside, clipped = self._quantiser.quantise(values[:, self._features])
        columns = [features]
        for name, place in self._labels.items():
            labels, n_mapped = nearest_places(values[:, place], 0, 1)
            self._mapped[name] += n_mapped
            columns.append(labels[:, None])
        if self._constant is not None:
            columns.append(np.full((len(values), 1), self._constant))
        return np.hstack(columns), outside, clipped

    def mapped_values(self) -> dict[str, int]:
        """Return how many labels were neither 0 nor 1."""
        return self._mapped


async def open_gradients(
    c: JointComputation, plan: LogisticRegressionPlan, held: SharedArray, batches: Iterator[NDArray[np.intp]]
) -> None:
    """Open the noisy sums of one batch after the other; the next batch and its noise are made ready meanwhile."""
    session, gradient, n_steps = c.session, plan.gradient, plan.params.iterations
    shape = (gradient.n_columns, gradient.n_sums)
    cubes = c.beside("cubes")

    async def prepare() -> tuple[SharedArray, SharedArray, NoisySum]:
        rows = await session.compute(next, batches)
        x, y = await session.compute(batch_of, plan, held, rows)
        noise = await c.draw(plan.mechanism)
        return x, y, await c.noise(shape, None if noise is None else noise.reshape(shape))

    coming = c.ahead(prepare())
    weights = np.zeros(gradient.n_columns, dtype=np.int64)
    for step in range(n_steps):
        if step > 0:
            weights = await receive_weights(c, plan)
        x, y, total = await coming
        total += await noiseless_sums(cubes, plan, x, y, weights)
        await c.open_noisy(total)
        session.progress("iterations", step + 1, n_steps)
        if step + 1 < n_steps:
            coming = c.ahead(prepare())


def batch_of(
    plan: LogisticRegressionPlan, held: SharedArray, rows: NDArray[np.intp]
) -> tuple[SharedArray, SharedArray]:
    """Return the shared features of some rows, a public constant appended, and their labels."""
    assert held.share is not None, "a compute party holds a share of every row"
    chosen, field, place = held.share[:, rows], held.field, plan.label_index
    features = [chosen[:, :, :place], chosen[:, :, place + 1 :]]
    if plan.params.intercept and not plan.shares_constant:
        constant = field.encode(np.full(1, plan.intercept_units))
        features.append(np.broadcast_to(constant[:, :, None], (field.n_words, len(rows), 1)))
    x, y = np.concatenate(features, axis=2), np.ascontiguousarray(chosen[:, :, place])
    return (
        SharedArray(field, x.shape[1:], held.degree, None, x),
        SharedArray(field, y.shape[1:], held.degree, None, y),
    )


async def noiseless_sums(
    c: Computation, plan: LogisticRegressionPlan, x: SharedArray, y: SharedArray, weights: NDArray[np.int64]
) -> SharedArray:
    """Return the sums over a batch of x times its factors, degree 2t, for public weights.

    Surplus shares tell here whether a party has multiplied wrong ones, before anything of it is opened.
    """
    compute = c.exchange.session.compute
    products = await compute(lambda: x @ weights)
    cubes = None
    if plan.params.order == 3:
        cubes = await c.multiply(await c.multiply(products, products), products)
        await c.check_products()
    return await compute(_sums, plan.gradient, x, y, products, cubes)


def _sums(
    gradient: TaylorGradient, x: SharedArray, y: SharedArray, products: SharedArray, cubes: SharedArray | None
) -> SharedArray:
    factors = concatenate([factor.reshape(-1, 1) for factor in gradient.factors(products, y, cubes)], axis=1)
    return x.T @ factors


async def receive_weights(c: JointComputation, plan: LogisticRegressionPlan) -> NDArray[np.int64]:
    """Return the coordinator's weights, once they are known to be short enough and the same for all parties.

    Raises:
        PeerViolationError: they are not: the noise was made for other ones.
    """
    session, gradient = c.session, plan.gradient
    receivers = range(1, plan.n_parties + 1)
    words = await receive_alike(session, COORDINATOR, WEIGHTS_STAGE, (gradient.n_columns,), receivers)
    weights = words.view(np.int64)
    if sum(int(w) ** 2 for w in weights) > gradient.squared_weight_bound:
        what = f"{session.names[COORDINATOR]} sent weights of a larger norm than the plan allows"
        raise PeerViolationError(COORDINATOR, WEIGHTS_STAGE, what)
    return weights


async def coordinator(session: Session, plan: LogisticRegressionPlan) -> dict[str, Any]:
    """Run the coordinator's part: open noisy gradients, follow them, send the weights back.

    Returns:
        JSON-able: `label`; `columns`, and `weights` of them such that intercept + sum weights * values are the log odds
        of label 1, values in their own units; `intercept`; `iterations`; `wrong_shares_from`, names of parties whose
        shares were wrong and corrected; `privacy`, the report.

    Raises:
        PeerError: fewer than 2t + 1 parties sent their share.
        InconsistentSharesError: wrong shares that cannot be corrected.
    """
    params, gradient = plan.params, plan.gradient
    c = JointComputation.of_coordinator(session, plan)
    descent = Descent(gradient.n_columns, params.optimiser, params.learning_rate, params.weight_norm)
    shape, wrong = (gradient.n_columns, gradient.n_sums), set[int]()
    for step in range(params.iterations):
        if step > 0:
            lattice = on_lattice(descent.weights, params.weight_units, gradient.squared_weight_bound)
            words = lattice.view(np.uint64)
            await asyncio.gather(*(session.send(p, WEIGHTS_STAGE, words) for p in range(1, plan.n_parties + 1)))
        opened = await c.open_noisy(c.noisy_outline(shape))
        assert opened is not None, "the coordinator is the receiver"
        wrong.update(opened.wrong)
        descent.follow(gradient.gradient_of(opened.values.astype(np.float64)) / plan.expected_batch)
        session.progress("iterations", step + 1, params.iterations)
    weights, intercept = in_own_units(plan, descent.weights)
    return {
        "analysis": "logistic-regression",
        "label": params.label,
        "columns": list(plan.feature_names),
        "weights": weights.tolist(),
        "intercept": intercept,
        "iterations": params.iterations,
        "wrong_shares_from": c.names_of(wrong),
        "privacy": plan.privacy_report(),
    }


def in_own_units(plan: LogisticRegressionPlan, weights: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Return weights per unit of each column and the intercept, from those of scaled rows.

    A column of bounds [l, u] enters as (value - l) / (u - l) / row_norm, the constant as its integer over gamma.
    """
    columns = [c for owner in plan.owners for c in plan.features_of(owner).columns]
    lower = np.array([c.lower for c in columns])
    width = np.array([c.upper for c in columns]) - lower
    per_unit = weights[: len(columns)] / (plan.row_norm * width)
    constant = float(weights[-1]) * plan.intercept_units / plan.params.row_units if plan.params.intercept else 0.0
    return per_unit, constant - float(per_unit @ lower)


def scaled_rows(
    tables: Sequence[Table], plan: LogisticRegressionPlan
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the rows as the analysis sees them, before rounding, and the labels. Needs all tables in one place.

    Returns:
        shape (rows, n): scaled by public bounds, clipped, of norm at most 1, the constant last; and shape (rows,).
    """
    blocks, labels = [], np.zeros(0)
    for owner, table in zip(plan.owners, tables, strict=True):
        names = [c.name for c in table.schema.columns]
        features = [names.index(c.name) for c in plan.features_of(owner).columns]
        blocks.append(plan.quantiser_of(owner).scale_and_clip(table.values[:, features])[0])
        if table.schema.party == plan.params.label_party:
            nearest, _ = nearest_places(table.values[:, names.index(plan.params.label_column)], 0, 1)
            labels = nearest.astype(np.float64)
    if plan.params.intercept:
        blocks.append(np.full((len(labels), 1), float(plan.intercept_units)))
    return np.hstack(blocks) / plan.params.row_units, labels


def reference(tables: Sequence[Table], plan: LogisticRegressionPlan) -> tuple[NDArray[np.float64], float]:
    """Return weights and intercept in the columns' own units: every record in every step, no privacy, no rounding.

    For tests and comparisons where somebody holds all tables. The same Taylor polynomial, optimiser, ball and divisor.

    Args:
        tables: of the owners, in the order of the joint table.
        plan: as for the job.
    """
    x, y = scaled_rows(tables, plan)
    descent = Descent(x.shape[1], plan.params.optimiser, plan.params.learning_rate, plan.params.weight_norm)
    for _ in range(plan.params.iterations):
        u = x @ descent.weights
        residual = 0.5 - y + u / 4 - (u**3 / 48 if plan.params.order == 3 else 0.0)
        descent.follow(x.T @ residual / plan.params.max_rows)
    return in_own_units(plan, descent.weights)


def survival(job: Job) -> Survival:
    """Return that no party may drop out; wrong shares of an opened gradient are corrected where they are few enough."""
    n = len(job.compute_parties)
    _, may_lie = survivable(n, 2 * job.t)
    return every_party_needed(job, f"every step needs the noise of all {n}, so none may vanish", may_lie=may_lie)


ANALYSIS = Analysis(
    names=("logistic-regression",),
    parameters=LogisticRegressionParams,
    plan=plan,
    party=party,
    coordinator=coordinator,
    survival=survival,
    page="analyses/logistic-regression.md",
    demo="logistic-regression",
    reference=reference,
    lines=weight_lines,
)
