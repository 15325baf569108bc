"""Matrix factorization over three real services: time, memory and bytes of a party at ten million ratings.

    python -m bench.utility.factor_services                      p = 8, T = 5, and offsets alone
    python -m bench.utility.factor_services --ratings 1000000    fewer

A coordinator and three parties run as processes on this machine, each party with its ratings in a CSV file. Wall time
is that from submission to the result. All members and this program share the machine's cores, so processor seconds
stand beside it; they are those that the operating system counts for the party's process.

A round may take 1.5 times its kernel and its masking. The rounds are those of a second job like the first: by then the
party has the table in memory, so the difference of the two is what reading takes. The kernel is what a party computes
from its ratings, timed in this process for each round of the job. Masking is what the same job takes over the same
services with a thousandth of the ratings: noise, masks, messages, the ledger, and all else that does not depend on the
ratings. What maps the table to ratings in order, and stage 3, are no part of a round; they are timed in this process
and taken off.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
import time
import uuid
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from analyses.job.job import Job
from analyses.job.schema import Table
from analyses.matrix_factorization import protocol
from analyses.matrix_factorization.horizontal import Estimates, FactorResult, member_vector, offsets_of, own_choice
from analyses.matrix_factorization.job_plan import FactorJobPlan
from analyses.matrix_factorization.model import FactorModel
from analyses.matrix_factorization.protocol import PRIOR
from analyst.connection import ClientConfig, connect
from bench.machine import ONE_THREAD, describe_machine, peak_resident_bytes, processor_s
from bench.utility.factor_speed import (
    BOUNDS,
    N_ITEMS,
    N_RATINGS,
    N_USERS,
    SCHEDULES,
    masked_bytes,
    plan_of,
    tables_of,
    timed,
)
from demo.local_deployment import LocalDeployment, LocalRatings, LocalTable
from dp.cost.views import PERSON_AT_PARTY_UNIT
from party.tables.ratings import read_ratings
from party.tables.ratings_config import RatingsTableConfig
from transport.calls.coordinator_client import JobView

MANY, FEW = "many", "few"
"""Tables: all ratings, and a thousandth of them."""

FEWER = 1000
COLUMNS = ("user", "item", "stars")


def write(folder: Path, name: str, table: Table) -> LocalTable:
    """Write a party's ratings as CSV, users and items as they are called, in no order."""
    rows, schema = table.ratings, table.schema
    assert rows is not None
    assert schema.ratings is not None
    order = np.random.default_rng(4).permutation(len(rows.values))
    users = pl.Series(rows.user_names).gather(rows.users[order])
    path = folder / f"{schema.party}-{name}.csv"
    pl.DataFrame({"user": users, "item": rows.items[order], "stars": rows.values[order]}).write_csv(path)
    declared = schema.ratings
    ratings = LocalRatings(*COLUMNS, declared.items, declared.users, declared.ratings_per_user)
    bounds = {COLUMNS[2]: BOUNDS}
    return LocalTable(name, path, bounds, None, unit=PERSON_AT_PARTY_UNIT, ratings=ratings)


def fewer(table: Table) -> Table:
    """Return a table with a part of its ratings and the same declarations."""
    rows = table.ratings
    assert rows is not None
    kept = slice(None, None, FEWER)
    few = type(rows)(rows.users[kept], rows.items[kept], rows.values[kept], rows.user_names)
    return Table(table.schema, np.empty((len(few.values), 0)), ratings=few)


def job_on(name: str, plan: FactorJobPlan) -> Job:
    """Return the job of a plan, asked of other tables."""
    tree = json.loads(plan.job.canonical_json())
    tree["inputs"] = [{**one, "table": name} for one in tree["inputs"]]
    return Job.from_json(json.dumps(tree))


async def run(deployment: LocalDeployment, job: Job) -> JobView:
    """Submit a job and wait for its end."""
    async with connect(ClientConfig.load(deployment.client_config)) as coordinator:
        job_id = await coordinator.submit(job.canonical_json(), uuid.uuid4().hex)
        async for _ in coordinator.watch(job_id):
            pass
        return await coordinator.show(job_id)


def measured(deployment: LocalDeployment, job: Job) -> dict[str, Any]:
    """Return what a job took.

    Raises:
        RuntimeError: it failed.
    """
    parties = [brought.party for brought in job.inputs]
    pids = {name: process.pid for name, process in deployment.processes.items()}
    before = {name: processor_s(pid) for name, pid in pids.items()}
    begun_s = time.perf_counter()
    view = asyncio.run(run(deployment, job))
    seconds = time.perf_counter() - begun_s
    if view.state != "DONE":
        raise RuntimeError(f"the job {view.state}: {view.reason}")
    traffic = [deployment.report(party, view.job_id)["traffic"] for party in parties]
    spent = {name: processor_s(pid) - before[name] for name, pid in pids.items()}
    return {
        "seconds": seconds,
        "processor_s": spent,
        "processor_s_of_a_party": statistics.median(spent[party] for party in parties),
        "sent_bytes_of_a_party": max(sum(stage["sent_bytes"] for stage in of.values()) for of in traffic),
        "peak_resident_bytes": {name: peak_resident_bytes(pid) for name, pid in pids.items()},
    }


def parts_of(plan: FactorJobPlan, table: Table) -> dict[str, float]:
    """Return what mapping, the kernels of all rounds and stage 3 take one party: processor seconds in this process.

    Args:
        plan: of the job.
        table: as it is read.
    """
    mapped = [timed(lambda: protocol.read_table(plan, table)) for _ in range(3)]
    own = mapped[0][0]
    rng, n_items = np.random.default_rng(2), plan.factors.params.n_items
    vectors = 0.2 * rng.normal(size=(n_items, plan.rank))
    model = FactorModel.nearest(0.3 * rng.normal(size=n_items), vectors, 1 << 12)

    def kernel(t: int) -> float:
        member_vector(plan.factors, t, model if t else None, own.ratings, PRIOR)  # what is compiled, is now
        return timed(lambda: member_vector(plan.factors, t, model if t else None, own.ratings, PRIOR))[1].processor_s

    opened = member_vector(plan.factors, 0, None, own.ratings, PRIOR)
    result = FactorResult(model, offsets_of(plan.factors, Estimates(PRIOR), opened), plan.n_sums - 1)
    _, improved = timed(lambda: own_choice(plan.factors, result, own.ratings, PRIOR, plan.deviation_bounds))
    kernels = [kernel(min(t, 1)) for t in range(min(plan.n_sums, 2))]
    return {
        "ratings": own.ratings.n_ratings,
        "mapping": min(took.processor_s for _, took in mapped),  # the least: no round looks shorter than it is
        "kernels": kernels[0] + (plan.n_sums - 1) * kernels[-1],
        "stage_3": improved.processor_s,
    }


def compared(again: dict[str, Any], few: dict[str, Any], parts: dict[str, float]) -> dict[str, float]:
    """Return how many times its kernels and its masking the rounds of a party take."""
    rounds_s = again["processor_s_of_a_party"] - parts["mapping"] - parts["stage_3"]
    alone_s = parts["kernels"] + few["processor_s_of_a_party"]
    return {"rounds_processor_s": rounds_s, "kernels_and_masking_processor_s": alone_s, "times": rounds_s / alone_s}


def main() -> None:
    """Measure and print the report as JSON."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.utility.factor_services",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--ratings", type=int, default=N_RATINGS)
    parser.add_argument("--users", type=int, default=N_USERS)
    parser.add_argument("--items", type=int, default=N_ITEMS)
    options = parser.parse_args()
    report: dict[str, Any] = {"machine": describe_machine(), "ratings": options.ratings}
    with tempfile.TemporaryDirectory(prefix="moiety-bench-") as name:
        folder = Path(name)
        tables = tables_of(options.ratings, options.users, options.items)
        plans = {what: plan_of(tables, parameters) for what, parameters in SCHEDULES.items()}
        written = {
            party: [write(folder, MANY, table), write(folder, FEW, fewer(table))] for party, table in tables.items()
        }
        first = next(iter(tables.values()))
        (folder / "services").mkdir()
        with LocalDeployment(folder / "services", written, environment=ONE_THREAD) as deployment:
            jobs = {}
            for what, plan in plans.items():
                measured(deployment, job_on(FEW, plan))  # what is loaded once
                jobs[what] = [measured(deployment, job_on(table, plan)) for table in (FEW, MANY, MANY)]
        read = read_ratings(config_of(written[first.schema.party][0]))
        for what, (few, many, again) in jobs.items():
            parts = parts_of(plans[what], Table(first.schema, first.values, ratings=read))
            masked = [masked_bytes(plans[what], number) for number in range(plans[what].n_sums)]
            report[what] = {
                **many,
                "masked_vector_bytes": masked,
                "parts_processor_s": parts,
                "once_more_without_reading": again,
                "masking": few,
            }
            if plans[what].n_sums > 1:  # one round of counts and sums takes less than the mapping's time varies
                report[what]["rounds"] = compared(again, few, parts)
    print(json.dumps(report, indent=1))


def config_of(table: LocalTable) -> RatingsTableConfig:
    """Return a table as its owner's configuration has it."""
    assert table.ratings is not None
    return RatingsTableConfig.model_validate(
        {"name": table.name, "kind": "ratings", "path": table.path, "bounds": table.bounds, **asdict(table.ratings)}
    )


if __name__ == "__main__":
    main()
