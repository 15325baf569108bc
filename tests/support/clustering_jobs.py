"""Clustering jobs in one process, and mixtures for them to find."""

import numpy as np

from analyses.clustering import protocol as clustering
from analyses.job.job import Job
from analyses.job.schema import BlockSchema, ColumnSchema, Table
from analyses.run_locally import local_network, run_plan
from entropy import InsecureTestEntropy
from mpc.protocol.session import COORDINATOR


def mixture(n_rows=4000, n_columns=6, k=4, deviation=0.08, seed=11):
    """Return rows in [-1, 1] about k middles, and the number of each row's middle."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, k, n_rows)
    rows = rng.uniform(-0.8, 0.8, (k, n_columns))[labels] + rng.normal(0, deviation, (n_rows, n_columns))
    return np.clip(rows, -1, 1), labels


def split(rows, n_owners):
    """Return the columns of a joint table as tables of owner-1, owner-2 ..., with bounds -1 and 1."""
    tables = []
    for number, columns in enumerate(np.array_split(np.arange(rows.shape[1]), n_owners), start=1):
        schemas = tuple(ColumnSchema(name=f"x{c}", lower=-1.0, upper=1.0) for c in columns)
        schema = BlockSchema(party=f"owner-{number}", columns=schemas, rows=(max(1, len(rows) // 10), len(rows)))
        tables.append(Table(schema, rows[:, columns]))
    return tables


def clustering_job(tables, *, n_helpers=0, epsilon=2.0, delta=1e-5, view="coalition", **parameters):
    """Return a job; helpers are compute parties without columns, and with them the owners only bring columns."""
    owners = [table.schema.party for table in tables]
    helpers = [f"helper-{i + 1}" for i in range(n_helpers)]
    return Job.model_validate(
        {
            "analysis": "clustering",
            "inputs": [{"party": owner, "table": "people"} for owner in owners],
            "compute": helpers or owners,
            **({"order": "trusted"} if len(owners) > 1 and not tables[0].schema.has_ids else {}),
            "privacy": {"epsilon": epsilon, "delta": delta, "view": view},
            "parameters": {"k": 4, "max_rows": 5000, **parameters},
        }
    )


def plan_for(job, tables):
    """Return the plan of a job on these tables."""
    schemas = {table.schema.party: table.schema for table in tables}
    return clustering.ANALYSIS.plan(job, [schemas.get(m, BlockSchema(party=m)) for m in job.members])


def network_of(plan, seed="fixed", **options):
    """Return the network of a job's members, with reproducible entropy."""
    return local_network(plan, entropy_of=lambda m: InsecureTestEntropy(f"{seed} {m}"), **options)


async def run_parties(plan, tables, network, with_coordinator=False):
    """Run all parties, and the coordinator too where asked for; return member number to result or error."""
    by_party = {table.schema.party: table for table in tables}
    absent = () if with_coordinator else (COORDINATOR,)
    return (await run_plan(plan, by_party, network, absent=absent)).ends


async def run(plan, tables, seed="fixed", **options):
    """Run all members; return member number to result or error, and the network."""
    network = network_of(plan, seed, **options)
    return await run_parties(plan, tables, network, with_coordinator=True), network
