"""An analysis of its own: in how many rows two parties have both raised a flag. See docs/recipes.md.

python examples/analysis.py     runs it on rows that are made up, all members in this process

There is no paper, so the table names the steps in words; with one, the left column names its lines or theorems.

    step (no paper)                                          function
    fix the noise and the field from public numbers          `plan`, `SharedSkellam.calibrate`
    multiply the flags of each row under shares, and sum     `party`, `JointComputation.rows`
    add noise that nobody knows, send shares of the sum      `JointComputation.noise_of`, `JointComputation.release`
    open the noisy number                                    `coordinator`, `JointComputation.open_noisy`
"""

import asyncio
from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from analyses.job.analysis import Analysis
from analyses.job.declared_rows import JointRowsParams, parameters_of
from analyses.job.job import Job, JobError
from analyses.job.plan import Plan, check_roster, check_schemas, protected_of
from analyses.job.releases import PlannedRelease
from analyses.job.schema import BlockSchema, ColumnSchema, LocalReport, Table, digest_of_ids
from analyses.job.survival import products_opened_once
from analyses.registry import ANALYSES
from analyses.rows.integer_column import integer_columns, nearest_places
from analyses.rows.joint_computation import ROWS_PER_BLOCK, JointComputation, joined
from analyses.rows.own_values import zeros_if_raised
from analyses.rows.surplus import n_surplus
from analyses.rows.traffic import JointTraffic
from analyses.run_locally import run_locally
from dp.cost.accounting import CalibrationError
from dp.cost.views import VIEWS
from dp.mechanism.skellam_parameters import LOG2_WRAP_PROBABILITY
from dp.mechanism.vector import SharedSkellam, VectorSensitivity
from mpc.arithmetic.field import ResidueField
from mpc.protocol.session import Session
from mpc.traffic.walk import Traffic

ONE_ROW = dict.fromkeys(VIEWS, VectorSensitivity(squared_l2=1, l1=1))
"""A record that is added, removed or replaced moves the count by 1 at most. `SharedSkellam` scales it to persons."""


class BothFlaggedPlan(Plan):
    """What all participants agree on."""

    params: JointRowsParams
    party_mu: int

    @cached_property
    def noise(self) -> SharedSkellam:
        """The one release: everything that follows about its cost comes from here."""
        return SharedSkellam(1, ONE_ROW, self.n_parties, self.job.t, self.party_mu, protected=self.protected)

    @cached_property
    def releases(self) -> tuple[PlannedRelease, ...]:
        """What ledgers charge, and all that the gate lets the compute parties draw."""
        return (PlannedRelease(self.noise, self.compute_members),)

    def report_of_releases(self) -> dict[str, Any]:
        """Return the cost in both views."""
        return self.noise.report("number of rows with both flags", self.job.privacy.delta)

    @property
    def privacy_unit(self) -> str:
        """The privacy unit that the mechanism protects: what the job asked for."""
        return self.protected.name

    def traffic(self, n_rows: int) -> Traffic:
        """Return what the members send: step by step what `party` does, without values."""
        joint = JointTraffic(self, n_rows)
        joint.join()
        joint.noise(1)
        joint.rows(dict.fromkeys(self.owners, 1), joint.n_rows)
        joint.open_noisy(1)
        return joint.ended()


def plan(job: Job, schemas: Sequence[BlockSchema]) -> BothFlaggedPlan:
    """Fix everything public: noise and field.

    Raises:
        JobError: names the field of the job that cannot be met.
    """
    check_roster(job)
    check_schemas(job, tuple(schemas))
    params = parameters_of(job, schemas, JointRowsParams)
    columns = integer_columns(job, schemas)
    if len(columns) != 2 or any((column.lower, column.upper) != (0, 1) for column in columns):
        raise JobError("inputs: two parties must bring one column each, with bounds 0 and 1")
    try:
        noise = SharedSkellam.calibrate(
            length=1,
            sensitivities=ONE_ROW,
            n_parties=len(job.compute_parties),
            colluding=job.t,
            epsilon=job.privacy.epsilon,
            delta=job.privacy.delta,
            view=job.privacy.view,
            protected=protected_of(job, tuple(schemas)),
        )
    except CalibrationError as error:
        raise JobError(f"privacy: {error}") from error
    field = ResidueField.for_bound(params.max_rows + noise.noise_tail_bound(LOG2_WRAP_PROBABILITY))
    n_primes = len(field.primes)
    return BothFlaggedPlan(job=job, schemas=tuple(schemas), n_primes=n_primes, params=params, party_mu=noise.party_mu)


async def party(session: Session, plan: BothFlaggedPlan, table: Table | None) -> LocalReport:
    """Run a party's part."""
    flags, n_mapped = None, 0
    async with joined(session, plan, table) as (
        c,
        n_rows,
        counting,
        table,
    ):  # the same plan and rows, or nothing goes on
        if table is not None:
            nothing = np.zeros(table.n_rows, dtype=np.int64)  # whatever my values raise, the job goes on
            flags_of = partial(nearest_places, table.values[:, 0], 0, 1)
            flags, n_mapped = zeros_if_raised(table, flags_of, lambda: (nothing, 0))
        if flags is not None and counting is not None:
            flags[~counting] = 0  # rows of persons who have more than count
        total = await c.noise_of(plan.noise, (1,))
        rows = None if flags is None else lambda block: flags[block].reshape(-1, 1)
        async for mine, theirs in c.rows(dict.fromkeys(plan.owners, 1), n_rows, rows, height=ROWS_PER_BLOCK):
            total += (mine * theirs).sum(0)
        await c.release(total)
    names = () if table is None else tuple(column.name for column in table.schema.columns)
    return LocalReport(
        n_rows,
        clipped_values=dict.fromkeys(names, 0),
        clipped_rows=0,
        mapped_values=dict.fromkeys(names, n_mapped),
        surplus_rows=n_surplus(counting),
    )


async def coordinator(session: Session, plan: BothFlaggedPlan) -> dict[str, Any]:
    """Run the coordinator's part: open the noisy count."""
    c = JointComputation.of_coordinator(session, plan)
    opened = await c.open_noisy(c.noisy_outline((1,)))
    assert opened is not None
    return {
        "analysis": plan.job.analysis,
        "both": int(opened.values[0]),
        "wrong_shares_from": c.names_of(opened.wrong),
        "privacy": plan.privacy_report(),
    }


def reference(tables: Sequence[Table], plan: Plan) -> int:
    """Return the exact count."""
    first, second = (nearest_places(table.values[:, 0], 0, 1)[0] for table in tables)
    return int(first @ second)


ANALYSIS = Analysis(
    names=("both-flagged",),
    parameters=JointRowsParams,
    own_plan=plan,
    own_party=party,
    coordinator=coordinator,
    survival=products_opened_once,
    page="recipes.md",
    demo="both-flagged",
    reference=reference,
    matching=("revealed",),
)


def made_up_job() -> tuple[Job, dict[str, Table]]:
    """Return a job and its tables: a bank and a shop flag the same 1000 customers, a helper only computes."""
    rows = 1000
    flags = np.random.default_rng(1).integers(0, 2, (2, rows, 1)).astype(np.float64)
    columns = (ColumnSchema(name="flag", lower=0.0, upper=1.0),)
    ids = digest_of_ids(f"customer {row}" for row in range(rows))
    tables = {
        name: Table(BlockSchema(party=name, columns=columns, has_ids=True, rows=(1, 2 * rows)), flags[number], ids)
        for number, name in enumerate(("bank", "shop"))
    }
    job = {
        "analysis": "both-flagged",
        "inputs": [{"party": name, "table": "customers", "columns": ["flag"]} for name in tables],
        "compute": ["bank", "shop", "helper"],
        "privacy": {"epsilon": 1.0, "delta": 1e-6},
    }
    return Job.model_validate(job), tables


if __name__ == "__main__":
    ANALYSES["both-flagged"] = ANALYSIS  # inside the repository: one line in analyses/registry.py
    job, tables = made_up_job()
    run = asyncio.run(run_locally(job, tables))
    print(f"about {run.result['both']} rows with both flags; exactly {reference(list(tables.values()), run.plan)}")
