"""How many rows of a vertically partitioned table have each combination of categories: pattern counting.

Each of v parties brings one categorical column, of integers between public bounds. Three methods:

* `mpc`: indicators are multiplied and summed under shares, and noise that nobody knows is added once, as if somebody
  held all columns. The default.
* `randomized-response`: each party reports every indicator of every row, most of them false [VertPrim23, theorem B.1].
  Nothing is multiplied in secret; the error grows like sqrt(rows) and with the v-th power of the noise.
* `subsampled`: the same for a secret sample of the rows [VertPrim23, theorem B.2]: less to send, and the coordinator,
  who does not know the sample, learns less of each row.

Differences from the paper (docs/analyses/pattern-count.md): the exact constant of randomized response; the cost is that
of a record of the joint table, not of one party's part of it; rows are reported from secret places among `max_rows`
slots, so that their number stays hidden; counts come unbiased, with standard errors, and clipped beside.

    source                                                   function
    no paper: products of indicators, summed under shares    `count_under_shares`, `count_patterns`
    theorem B.1, randomized response of every indicator      `report`, `PatternReports.packed`
    theorem B.2, the same for a secret sample of the rows    `report`, `place_rows`
    both theorems, the server's estimate                     `PatternTally.add`, `PatternTally.estimate`
"""

import asyncio
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyses.job.analysis import Analysis
from analyses.job.plan import OPENING_STAGE
from analyses.job.schema import LocalReport, Table
from analyses.job.survival import by_parameter
from analyses.pattern_count.forecast import forecast, signal
from analyses.pattern_count.plan import CROSS_TABLE, PatternCountParams, PatternCountPlan, plan
from analyses.pattern_count.products import count_patterns, sums_of_patterns
from analyses.pattern_count.reference import reference
from analyses.pattern_count.reports import PatternTally
from analyses.rows.integer_column import NO_PLACE, JoinedColumns
from analyses.rows.integer_rows import IndicatorRows
from analyses.rows.joint_computation import JointComputation, joined
from analyses.rows.own_rows import report_of
from analyses.rows.own_values import zeros_instead
from analyses.rows.slots import place_rows
from analyses.rows.surplus import n_surplus
from dp.cost.views import PERSON
from dp.mechanism.skellam_parameters import LOG2_WRAP_PROBABILITY
from mpc.protocol.exchange import ShareExchange
from mpc.protocol.session import COORDINATOR, Session
from mpc.protocol.shared import concatenate

__all__ = ["ANALYSIS", "PatternCountParams", "PatternCountPlan", "coordinator", "party", "plan", "reference"]


COMPUTATION = "patterns"


async def party(session: Session, plan: PatternCountPlan, table: Table | None) -> LocalReport:
    """Run a party's part: agree on keys, check that rows match, then multiply under shares or report.

    Args:
        session: my end of the job.
        plan: computed by this party itself.
        table: my rows; None for a compute party without columns.

    Returns:
        The number of this party's values that were not categories and were mapped to the nearest one
        (`analyses.rows.integer_column`).

    Raises:
        UnequalValuesError: the tables do not hold the same rows in the same order.
        PeerError: a member is silent, drops out or violates the protocol.
    """
    async with joined(session, plan, table, COMPUTATION) as (c, n_rows, counting, table):
        if plan.params.method == "mpc":
            mine = None if table is None else IndicatorRows(my_column(session, plan), table, counting)
            await count_under_shares(c, plan, mine, n_rows, n_surplus(counting))
            return report_of(mine, n_rows)
        if table is None:
            return report_of(None, n_rows)
        categories, n_mapped = await session.compute(my_column(session, plan).categories, table)
        if counting is not None:
            categories = np.where(counting, categories, NO_PLACE)
        await report(c.exchange, plan, table, categories)
    names = tuple(c.name for c in table.schema.columns)
    mapped = dict(zip(names, n_mapped.tolist(), strict=True))
    return LocalReport(n_rows, dict.fromkeys(names, 0), 0, mapped, n_surplus(counting))


def my_column(session: Session, plan: PatternCountPlan) -> JoinedColumns:
    """Return the columns that I bring, as one."""
    return plan.brought[plan.owners.index(session.me)]


async def count_under_shares(
    c: JointComputation, plan: PatternCountPlan, rows: IndicatorRows | None, n_rows: int, surplus: int
) -> None:
    """Share noise and indicators, count, and open.

    `count_patterns` takes a row without any indicator for one of the last category of every party. So the number of
    rows that do not count is subtracted there: shared by the first owner, who knows it, or, where rows are matched
    under shares, from the shared bits that say which slots hold rows, and nobody knows it.
    """
    n_cells, first_owner = prod(plan.counted_shape), plan.owners[0]
    noise = await c.shared_noise_of(plan.noise, (n_cells,), bound=plan.noise.noise_tail_bound(LOG2_WRAP_PROBABILITY))
    if plan.protected.name == PERSON:
        mine = np.array([surplus]) if c.me == first_owner else None
        uncounted = await c.input(first_owner, (1,), mine, bound=plan.params.max_rows)
        noise = noise - concatenate([c.public(np.zeros(n_cells - 1, dtype=np.int64)), uncounted])
    empty = await c.empty_slots()
    if empty is not None:
        noise = noise - concatenate([c.public(np.zeros(n_cells - 1, dtype=np.int64)), empty])
    counts = await count_patterns(c, plan.owners, plan.shape, rows, n_rows, plan.params.max_rows)
    if plan.params.counted == "sums":
        counts = sums_of_patterns(c, counts, plan.shape)
    await c.release(replace(counts + noise, bound=plan.opened_bound))


async def report(exchange: ShareExchange, plan: PatternCountPlan, table: Table, categories: NDArray[np.int64]) -> None:
    """Report the indicators of my rows, most of them false, from secret places among the slots."""
    session, reports = exchange.session, plan.reports
    slots = await place_rows(exchange, plan.owners, len(categories), reports.n_slots, reports.n_reported)
    mine, category_of_row = plan.owners.index(session.me), np.append(categories, NO_PLACE)  # the last is of EMPTY
    for block in reports.blocks():
        in_slots = category_of_row[slots[block.start : block.stop]]
        flips = await session.draw(reports, mine, len(block))
        message = await session.compute(
            zeros_instead, table, partial(reports.packed, mine, flips=flips), in_slots, np.full_like(in_slots, NO_PLACE)
        )
        await session.send(COORDINATOR, OPENING_STAGE, message)
        session.progress(OPENING_STAGE, 100 * block.stop // reports.n_reported, 100)


async def coordinator(session: Session, plan: PatternCountPlan) -> dict[str, Any]:
    """Run the coordinator's part: open the noisy counts, or estimate them from the reports.

    Returns:
        JSON-able: `columns`, one for sums; `categories`, per column the smallest and the largest; `labels`, per column
        that is a category the names of its values, of which the smallest is the first; `counts`, nested lists with one
        level per column, unbiased; `clipped_counts`, negative ones raised to 0; `standard_errors`, of the counts, by
        noise (and, with `subsampled`, by sampling); in a cross-table `totals` and `total_standard_errors`, per column
        and category, over all other columns; `wrong_shares_from`, names of the parties whose corrupted shares
        were corrected; `privacy`, the report.

    Raises:
        PeerError: too few parties sent their part.
        InconsistentSharesError: there are corrupted shares that cannot be corrected.
    """
    wrong: tuple[int, ...] = ()
    if plan.params.method == "mpc":
        c = JointComputation.of_coordinator(session, plan, COMPUTATION)
        opened = await c.open(c.outline((prod(plan.counted_shape),), c.product_degree, plan.opened_bound))
        assert opened is not None, "the coordinator is the receiver"
        counts, wrong = opened.values.reshape(plan.counted_shape).astype(np.float64), opened.wrong
        errors = np.full(plan.counted_shape, plan.noise.standard_deviation("coordinator"))
    else:
        tally = PatternTally(plan.reports)
        for block in plan.reports.blocks():
            sizes = [plan.reports.message_bytes(j, block) for j in range(len(plan.owners))]
            coming = [
                session.receive(owner, OPENING_STAGE, (size,), np.uint8)
                for owner, size in zip(plan.owners, sizes, strict=True)
            ]
            await session.compute(tally.add, block, await asyncio.gather(*coming))
        estimate = tally.estimate()
        counts, errors = (one.reshape(plan.counted_shape) for one in (estimate.counts, estimate.standard_errors))
    return {
        "analysis": plan.job.analysis,
        "method": plan.params.method,
        **axes_of(plan),
        "counts": counts.tolist(),
        "clipped_counts": np.maximum(counts, 0).tolist(),
        "n_rows": float(counts.sum()),
        **({"n_rows_standard_error": float(np.sqrt(np.sum(errors**2)))} if plan.params.method == "mpc" else {}),
        "standard_errors": errors.tolist(),
        **(totals_of(counts, errors, plan) if plan.job.analysis == CROSS_TABLE else {}),
        "wrong_shares_from": [session.names[member] for member in wrong],
        "privacy": plan.privacy_report(),
    }


def axes_of(plan: PatternCountPlan) -> dict[str, Any]:
    """Return the columns of the counts, their smallest and largest values, and the names of these."""
    columns = plan.columns
    if plan.params.counted == "sums":
        ends = [sum(column.lower for column in columns), sum(column.upper for column in columns)]
        name = " + ".join(column.name for column in columns)
        return {"columns": [name], "categories": {name: ends}, "labels": {}}
    return {
        "columns": [column.name for column in columns],
        "categories": {column.name: [column.lower, column.upper] for column in columns},
        "labels": {column.name: list(column.labels) for column in columns if column.labels},
    }


def totals_of(counts: NDArray[np.float64], errors: NDArray[np.float64], plan: PatternCountPlan) -> dict[str, Any]:
    """Return how many rows have each category of each column, with standard errors: noises are independent."""
    axes = range(counts.ndim)
    others = {column.name: tuple(a for a in axes if a != axis) for axis, column in enumerate(plan.columns)}
    return {
        "totals": {name: counts.sum(summed).tolist() for name, summed in others.items()},
        "total_standard_errors": {name: np.sqrt((errors**2).sum(summed)).tolist() for name, summed in others.items()},
    }


ANALYSIS = Analysis(
    names=(CROSS_TABLE, "pattern-count"),
    parameters=PatternCountParams,
    own_plan=plan,
    own_party=party,
    coordinator=coordinator,
    survival=by_parameter("method"),
    page="analyses/pattern-count.md",
    demo="pattern-count",
    own_forecast=forecast,
    signal=signal,
    reference=reference,
    matching=("revealed", "secret"),
    open_methods=("randomized-response", "subsampled"),
)
