"""Jobs of the analyses about X^T X, in one process: tables, plans and runs for tests."""

from dataclasses import replace

import numpy as np

from analyses.job.job import Job
from analyses.job.schema import BlockSchema, ColumnSchema, Table, digest_of_ids
from analyses.low_rank import protocol as low_rank
from analyses.run_locally import local_network, run_plan
from entropy import InsecureTestEntropy


def table_of(party, columns, ids=True):
    """A table from column name to (lower, upper, values)."""
    schema = tuple(ColumnSchema(name=name, lower=lower, upper=upper) for name, (lower, upper, _) in columns.items())
    values = np.column_stack([values for _, _, values in columns.values()]).astype(np.float64)
    digest = digest_of_ids([str(i) for i in range(len(values))]) if ids else b""
    return Table(BlockSchema(party=party, columns=schema, has_ids=ids, rows=(1, len(values))), values, digest)


def line_tables(n_rows=400, seed=5):
    """Three parties; the bank's label is 20 + 3 a - 0.5 b + noise, a the hospital's, b the telco's, c of no use."""
    rng = np.random.default_rng(seed)
    a, b, c = rng.uniform(-2, 8, n_rows), rng.uniform(0, 100, n_rows), rng.uniform(0, 1, n_rows)
    label = 20 + 3 * a - 0.5 * b + rng.normal(0, 1.0, n_rows)
    return {
        "bank": table_of("bank", {"label": (-50, 50, label)}),
        "hospital": table_of("hospital", {"a": (-2, 8, a), "c": (0, 1, c)}),
        "telco": table_of("telco", {"b": (0, 100, b)}),
    }


def plan_for(analysis, tables, parameters, compute=(), privacy=None, inputs=None):
    """The plan of a job over these tables; members without a table only compute."""
    job = Job.model_validate(
        {
            "analysis": analysis.__name__.removesuffix(".protocol").split(".")[-1].replace("_", "-"),
            "inputs": inputs or [{"party": p, "table": "people"} for p in tables],
            "compute": compute,
            **({} if any(t.schema.has_ids for t in tables.values()) or len(tables) < 2 else {"order": "trusted"}),
            "privacy": privacy or {"epsilon": 1000.0, "delta": 1e-6},
            "parameters": {"max_rows": 1000, **parameters},
        }
    )
    empty = {m: BlockSchema(party=m) for m in job.members}
    return analysis.plan(job, [tables[m].schema if m in tables else empty[m] for m in job.members])


def checked_plan_for(analysis, *arguments, **options):
    """As `plan_for` and as services plan: an infeasible job is refused."""
    made = plan_for(analysis, *arguments, **options)
    return analysis.ANALYSIS.plan(made.job, made.schemas)


async def run(analysis, plan, tables, seed="run", absent=(), **network_options):
    """Every member's part over an in-process network, but for those absent: results by number, and the network."""
    options = {"entropy_of": lambda m: InsecureTestEntropy(f"{seed} {m}"), **network_options}
    network = local_network(plan, **options)
    parts = replace(low_rank.ANALYSIS, own_party=analysis.party, coordinator=analysis.coordinator)
    return (await run_plan(plan, tables, network, analysis=parts, absent=absent)).ends, network
