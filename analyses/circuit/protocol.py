"""`circuit`: an analyst's own program on the rows of a joint table. See docs/circuits.md.

There is no paper.

    step                                                       function
    lines become steps, and steps get ranges                   `program_of`, `ranges_of`
    every party brings a part of the noise                     `JointComputation.noise_of`
    owners share their columns as integers, block by block     `JointComputation.rows_in_step`
    each step is done under shares, and rows are added up      `row_sums`
    noisy sums are opened, once                                `JointComputation.release`
"""

from typing import Any

import numpy as np

from analyses.circuit.forecast import forecast, signal
from analyses.circuit.functions import size_of
from analyses.circuit.plan import CircuitParams, CircuitPlan, ColumnPlaces, ColumnRows, plan
from analyses.circuit.reference import reference
from analyses.circuit.steps import row_sums
from analyses.job.analysis import Analysis
from analyses.job.plan import protects_persons
from analyses.job.schema import ColumnSchema, LocalReport, Table
from analyses.job.survival import products_opened_once
from analyses.rows.joint_computation import JointComputation, joined
from analyses.rows.own_rows import report_of
from mpc.protocol.session import Session
from mpc.protocol.shared import SharedArray

__all__ = ["ANALYSIS", "CircuitParams", "CircuitPlan", "coordinator", "party", "plan", "reference"]


async def party(session: Session, plan: CircuitPlan, table: Table | None) -> LocalReport:
    """Run a party's part: share noise and rows, follow the program, send the noisy share.

    Args:
        session: my end of the job.
        plan: computed by this party itself.
        table: my rows, columns as in my schema; None for a compute party without columns.

    Raises:
        UnequalValuesError: the tables do not hold the same rows in the same order.
        PeerError: a member is silent, drops out or violates the protocol.

    Privacy: at most t colluding parties learn nothing but the released sums, and of each record an advantage of
    2^-40 per comparison; see `sensitivities` for what the sums cost.
    Cost: for each block of rows, the rounds of each step.
    """
    async with joined(session, plan, table) as (c, n_rows, counting, table):
        kind = ColumnPlaces if plan.norm_bounds else ColumnRows
        mine = None if table is None else kind(plan, session.me, table, counting)
        total = await c.noise_of(plan.noise, (len(plan.weights),))
        shapes = {owner: (width,) for owner, width in plan.widths.items()}
        bound = max(map(size_of, plan.ranges.values()))
        async for blocks in c.rows_in_step(shapes, n_rows, mine, height=plan.rows_at_once, bound=bound):
            columns = {
                f"{plan.schema_of(owner).party}.{column.name}": _values(plan, blocks[owner][:, place], column)
                for owner in plan.owners
                for place, column in enumerate(plan.schema_of(owner).columns)
            }
            last = blocks[plan.owners[0]][:, -1] if protects_persons(plan.job) else None
            sums = await row_sums(c, plan.program, plan.ranges, columns, last)
            total += sums * np.array(plan.weights, dtype=object)
        await c.release(total)
    return report_of(mine, n_rows)


def _values(plan: CircuitPlan, rows: SharedArray, column: ColumnSchema) -> SharedArray:
    """Return the values of a column, of rows as they are dealt."""
    return rows + int(column.lower) if plan.norm_bounds else rows


async def coordinator(session: Session, plan: CircuitPlan) -> dict[str, Any]:
    """Run the coordinator's part: open the noisy sums, take off their weights."""
    c = JointComputation.of_coordinator(session, plan)
    opened = await c.open_noisy(c.noisy_outline((len(plan.weights),)))
    assert opened is not None, "the coordinator receives"
    return {
        "analysis": plan.job.analysis,
        "program": plan.program.digest,
        "names": [step.name for step in plan.program.opened],
        "values": [int(value) / weight for value, weight in zip(opened.values, plan.weights, strict=True)],
        "standard_errors": plan.standard_errors,
        **({"roundings_per_row": list(plan.roundings)} if any(plan.roundings) else {}),
        "wrong_shares_from": c.names_of(opened.wrong),
        "privacy": plan.privacy_report(),
    }


def digest_of(plan: CircuitPlan) -> str:
    """Return the digest of the program, by which owners' policies name it."""
    return plan.program.digest


ANALYSIS = Analysis(
    names=("circuit",),
    parameters=CircuitParams,
    own_plan=plan,
    own_party=party,
    coordinator=coordinator,
    survival=products_opened_once,
    page="analyses/circuit.md",
    demo="scorecard",
    own_forecast=forecast,
    signal=signal,
    reference=reference,
    matching=("revealed",),
    program=digest_of,
)
