"""Moments of a quantity that is spread over the parties: sum over the rows of x^p, x the sum of a row's values.

Each of v parties brings one column of counts, integers from 0 on. Four methods:

* `mpc`: powers are taken and summed under shares, and noise that nobody knows is added once. The default.
* `laplace`, p = 1: each party releases the sum of its column with discrete Laplace noise [VertPrim23, appendix C].
* `sketch`, p = 2: each party releases a noisy sketch of its column [VertPrim23, appendix E.3].
* `threshold`: each party releases its values with discrete Laplace noise, then large ones again and small ones by
  randomized response [VertPrim23, algorithm 2]. Protects an *event*, a change by 1 of one value of one party.

Differences from the paper (docs/analyses/moments.md): all estimates are unbiased; noise is discrete; the cost is that
of a record of the joint table, or of an event in it; values beyond what a method takes are clipped and their owner is
told.

    source                                           function
    no paper: powers and their sum under shares      `sum_of_powers`
    appendix C, a noisy sum of each column           `release_sum`, `take_sums`
    appendix E.3, a noisy sketch of each column      `release_sketch`, `MomentSketch.estimate`
    algorithm 2, noisy values, then the large ones   `release_reports`
    again and the small ones in bits
    algorithm 2, what the server makes of them       `estimate_from_reports`
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyses.job.analysis import Analysis
from analyses.job.plan import OPENING_STAGE
from analyses.job.schema import LocalReport, Table
from analyses.job.survival import by_parameter
from analyses.power_moments.forecast import forecast, signal
from analyses.power_moments.plan import BLOCK_ROWS, MomentsParams, MomentsPlan, plan
from analyses.power_moments.reference import reference
from analyses.rows.integer_column import IntegerColumn
from analyses.rows.integer_rows import CountRows
from analyses.rows.joint_computation import JointComputation, joined
from analyses.rows.own_rows import report_of
from analyses.rows.own_values import zeros_instead
from analyses.rows.slots import owners_key, place_rows
from analyses.rows.surplus import n_surplus
from mpc.protocol.exchange import ShareExchange
from mpc.protocol.session import COORDINATOR, Session

__all__ = ["ANALYSIS", "coordinator", "party", "plan", "reference"]


COMPUTATION = "moment"
LARGE_STAGE = "large slots"

Integers = NDArray[np.int64]


async def party(session: Session, plan: MomentsPlan, table: Table | None) -> LocalReport:
    """Run a party's part: agree on keys, check that rows match, clip, then multiply under shares or release.

    Args:
        session: my end of the job.
        plan: computed by this party itself.
        table: my rows, one column; None for a compute party without columns.

    Returns:
        How many values were clipped to 0 .. `largest`; as `mapped_values`, how many were no integers and were rounded
        toward zero; as `clipped_rows`, with `threshold`, how many were reported in bits though they lay above what bits
        can tell.

    Raises:
        UnequalValuesError: the tables do not hold the same rows in the same order.
        PeerError: a member is silent, drops out or violates the protocol.
    """
    async with joined(session, plan, table, COMPUTATION) as (c, n_rows, counting, table):
        if plan.params.method == "mpc":
            rows = None if table is None else CountRows(my_column(session, plan)[1], table, counting)
            await sum_of_powers(c, plan, rows, n_rows)
            return report_of(rows, n_rows)
        if table is None:
            return report_of(None, n_rows)
        column, largest = my_column(session, plan)
        values, n_clipped, n_rounded = await session.compute(column.clipped, table, largest)
        if counting is not None:
            values = np.where(counting, values, 0)
        session.progress(OPENING_STAGE, 0, 1)
        n_lowered = await _RELEASES[plan.params.method](c.exchange, plan, table, values)
        session.progress(OPENING_STAGE, 1, 1)
    names = tuple(c.name for c in table.schema.columns)
    mapped = dict.fromkeys(names, n_rounded)
    return LocalReport(n_rows, dict.fromkeys(names, n_clipped), n_lowered, mapped, n_surplus(counting))


def my_column(session: Session, plan: MomentsPlan) -> tuple[IntegerColumn, int]:
    """Return the column that I bring, and the largest of its values that counts."""
    place = plan.owners.index(session.me)
    return plan.columns[place], plan.largest[place]


async def sum_of_powers(c: JointComputation, plan: MomentsPlan, mine: CountRows | None, n_rows: int) -> None:
    """Sum noise and x^p block by block: x^a and x^b are reduced, a + b = p, and their inner product is only summed."""
    p = plan.params.order
    total = await c.shared_noise_of(plan.shared_noise, (1,), bound=plan.noise_bound)
    products, scalars = c.product_sum(1, 1), dict.fromkeys(plan.owners, ())
    async for counts in c.rows_in_step(scalars, n_rows, mine, height=BLOCK_ROWS, bound=max(plan.largest)):
        first, *others = counts.values()
        powers = {1: sum(others, start=first)}
        for exponent in range(2, p - p // 2 + 1):
            powers[exponent] = await c.multiply(powers[exponent - 1], powers[1])
        if p == 1:
            total += powers[1].sum()
        else:
            await products.add(powers[p - p // 2][None], powers[p // 2][:, None])
    if p > 1:
        total += (await products.total()).reshape(1)
    await c.release(replace(total, degree=plan.opened_degree, bound=plan.opened_bound))


async def release_sum(exchange: ShareExchange, plan: MomentsPlan, table: Table, values: Integers) -> int:
    """Release the sum of my column with noise of mine."""
    session = exchange.session
    await _send(session, OPENING_STAGE, values.sum() + await session.draw(plan.sums))
    return 0


async def release_sketch(exchange: ShareExchange, plan: MomentsPlan, table: Table, values: Integers) -> int:
    """Release a sketch of my column with noise of mine; the owners draw the same signs."""
    session, sketch = exchange.session, plan.sketch
    key = await owners_key(exchange, plan.owners, "signs")
    noise = await session.draw(sketch, plan.owners.index(session.me))
    mine = await session.compute(
        zeros_instead, table, lambda own: sketch.sketch(key.stream("signs"), own), values, np.zeros_like(values)
    )
    await _send(session, OPENING_STAGE, mine + noise)
    return 0


async def release_reports(exchange: ShareExchange, plan: MomentsPlan, table: Table, values: Integers) -> int:
    """Release my values with noise, the large ones again, the small ones in bits.

    Returns:
        How many values lay above what bits can tell. Private.
    """
    session, reports, n_slots = exchange.session, plan.reports, plan.params.max_rows
    mine = plan.owners.index(session.me)
    rows = await place_rows(exchange, plan.owners, len(values), n_slots, n_slots)
    in_slots = np.append(values, 0)[rows]  # the last is of EMPTY
    await _send(session, OPENING_STAGE, in_slots + await session.draw(reports, n_slots))
    flags = await session.receive(COORDINATOR, LARGE_STAGE, (-(-n_slots // 8),), np.uint8)
    is_large = np.unpackbits(flags, count=n_slots).astype(bool)
    large, small = in_slots[is_large], in_slots[~is_large]
    await _send(session, OPENING_STAGE, large + await session.draw(reports, len(large)))
    flips = await session.draw(reports, len(small), mine)
    message = await session.compute(
        zeros_instead, table, partial(reports.packed, mine, flips=flips), small, np.zeros_like(small)
    )
    await session.send(COORDINATOR, OPENING_STAGE, message)
    return int(np.count_nonzero(small > reports.largest[mine]))


_RELEASES: dict[str, Callable[..., Any]] = {
    "laplace": release_sum,
    "sketch": release_sketch,
    "threshold": release_reports,
}


async def _send(session: Session, stage: str, integers: Integers) -> None:
    await session.send(COORDINATOR, stage, integers.astype(np.int64).view(np.uint64))


async def take_sums(session: Session, plan: MomentsPlan, length: int) -> Integers:
    """Return the sum of the vectors that the owners sent."""
    coming = [session.receive(owner, OPENING_STAGE, (length,)) for owner in plan.owners]
    parts: list[Integers] = [words.view(np.int64) for words in await asyncio.gather(*coming)]
    total: Integers = np.sum(parts, axis=0, dtype=np.int64)
    return total


async def coordinator(session: Session, plan: MomentsPlan) -> dict[str, Any]:
    """Run the coordinator's part: open the noisy moment, or estimate it from what the parties release.

    Returns:
        JSON-able: `columns`; `order`; `moment`, unbiased, may be negative; `clipped_moment`, at least 0;
        `standard_error`, by the noise (`mpc`, `laplace`), by noise and sketch (`sketch`), or an upper bound of it
        (`threshold`); `wrong_shares_from`, names of the parties whose corrupted shares were corrected; `privacy`, the
        report.

    Raises:
        PeerError: too few parties sent their part.
        InconsistentSharesError: there are corrupted shares that cannot be corrected.
    """
    wrong: tuple[int, ...] = ()
    match plan.params.method:
        case "mpc":
            c = JointComputation.of_coordinator(session, plan, COMPUTATION)
            opened = await c.open(c.outline((1,), plan.opened_degree, plan.opened_bound))
            assert opened is not None, "the coordinator is the receiver"
            moment, wrong = float(opened.values[0]), opened.wrong
            error = plan.shared_noise.standard_deviation("coordinator")
        case "laplace":
            moment = float((await take_sums(session, plan, 1))[0])
            error = plan.sums.standard_deviation
        case "sketch":
            noisy = await take_sums(session, plan, plan.params.sketch_rows)
            moment, error = plan.sketch.estimate(noisy)
        case _:
            moment, error = await estimate_from_reports(session, plan)
    return {
        "analysis": "moments",
        "method": plan.params.method,
        "columns": [column.name for column in plan.columns],
        "order": plan.params.order,
        "moment": moment,
        "clipped_moment": max(0.0, moment),
        "standard_error": error,
        "wrong_shares_from": [session.names[member] for member in wrong],
        "privacy": plan.privacy_report(),
    }


async def estimate_from_reports(session: Session, plan: MomentsPlan) -> tuple[float, float]:
    """Tell the owners which slots are large, and return the moment and a bound of its standard error."""
    reports, n_slots = plan.reports, plan.params.max_rows
    is_large = reports.is_large(await take_sums(session, plan, n_slots))
    for owner in plan.owners:
        await session.send(owner, LARGE_STAGE, np.packbits(is_large))
    noisy_sums = await take_sums(session, plan, int(is_large.sum()))
    large, n_small = reports.large_powers(noisy_sums), n_slots - len(noisy_sums)
    coming = [
        session.receive(owner, OPENING_STAGE, (reports.report_bytes(j, n_small),), np.uint8)
        for j, owner in enumerate(plan.owners)
    ]
    small = await session.compute(reports.small_powers, n_small, await asyncio.gather(*coming))
    # The parts of the slots are independent; their spread about the mean is about that about their own means, or more.
    # Few slots do not show it, nor do bits that all came out alike: what is known of their noise is there besides.
    known = float(reports.large_variances(noisy_sums).sum()), n_small * reports.variance_of_empty
    spreads = [len(part) * float(part.var()) if len(part) else 0.0 for part in (large, small)]
    return float(large.sum() + small.sum()), sqrt(sum(map(max, known, spreads)))


ANALYSIS = Analysis(
    names=("moments",),
    parameters=MomentsParams,
    own_plan=plan,
    own_party=party,
    coordinator=coordinator,
    survival=by_parameter("method"),
    page="analyses/moments.md",
    demo="moments",
    own_forecast=forecast,
    signal=signal,
    reference=reference,
    matching=("revealed", "secret"),
    open_methods=("laplace", "sketch", "threshold"),
)
