"""How a party's memory and processor time grow with the rows of its table, in jobs of whole services.

    python -m bench.jobs.growth --ids
    python -m bench.jobs.growth --ids --rows 10000000 --analyses pca,moments

Three parties have Parquet files of random numbers, of which each job has a federation of its own: a coordinator and
three parties as processes, mutual TLS on loopback, one BLAS thread each. The job is the first that the services get, so
its time and its memory are those of reading the table, too. Reported of the party that has most:

* `processor_s`, and `ns_per_cell`, of a value of the joint table;
* `peak_resident_mb`, of which `own_mb` at its largest is anonymous memory, and `file_mb` are pages of files, the
  libraries of a service and what of its table is mapped: the system drops those when memory runs short. The last two
  are looked at every 20 ms;
* `kept_mb`, anonymous memory when the job is done: the table that is remembered for the next one.

With the folder of `deploy/image/compile-kernels` in LD_LIBRARY_PATH services have no compiler, as in images: some 70 MB
less, and `compiler` is false.
"""

import argparse
import asyncio
import contextlib
import json
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from analyses.job.job import Job, JobInput, PrivacyTarget
from bench.jobs.federation import Federation, running_federation
from bench.machine import describe_machine
from demo.local_deployment import LocalTable, largest_delta

N_PARTIES = 3
DEADLINE_S = 600.0
SAMPLE_S = 0.02
ROWS_PER_GROUP = 1 << 16
CODE = ("code",)
TEN = tuple(f"x{i}" for i in range(10))  # parties whose columns are added bring equally many

Analyses = dict[str, tuple[tuple[str, ...], dict[str, Any]]]

ANALYSES: Analyses = {
    "pca": ((), {"components": 5}),
    "low-rank": ((), {"rank": 5}),
    "least-squares": ((), {"label": "party-1.x0"}),
    "pattern-count": (CODE, {}),
    "moments": (CODE, {}),
    "secure-sum": (TEN, {}),
}
"""Analysis to the columns of each party, all numbers where none are named, and parameters."""


def write(path: Path, n_rows: int, n_columns: int, *, seed: int) -> None:
    """Write a table of random numbers x0, x1 ..., and columns `id` and `code`, some rows at a time."""
    rng = np.random.default_rng(seed)
    parts = path.with_suffix(".parts")
    parts.mkdir()
    for start in range(0, n_rows, ROWS_PER_GROUP):
        drawn = rng.random((min(ROWS_PER_GROUP, n_rows - start), n_columns))
        numbers = np.arange(start, start + len(drawn)) * 7919 % 10**9  # in no order that sorting would find
        ids = pl.Series("id", numbers).cast(pl.String).str.zfill(10)
        frame = pl.DataFrame(drawn, schema=[f"x{i}" for i in range(n_columns)])
        frame = frame.with_columns(id="R" + ids, code=pl.Series(rng.integers(0, 4, len(drawn))))
        frame.write_parquet(parts / f"{start:012}.parquet")
    pl.scan_parquet(parts / "*.parquet").sink_parquet(path, row_group_size=ROWS_PER_GROUP)
    shutil.rmtree(parts)


def tables_in(folder: Path, n_rows: int, n_columns: int, *, has_ids: bool) -> dict[str, list[LocalTable]]:
    """Write the parties' files, the columns spread evenly."""
    tables = {}
    for number in range(1, N_PARTIES + 1):
        width = (n_columns + number - 1) // N_PARTIES
        path = folder / f"party-{number}.parquet"
        write(path, n_rows, width, seed=number)
        bounds = {**{f"x{i}": (0.0, 1.0) for i in range(width)}, "code": (0.0, 3.0)}
        id_column = "id" if has_ids else None
        table = LocalTable("rows", path, bounds, (n_rows, n_rows), id_column=id_column, on_request=CODE)
        tables[f"party-{number}"] = [table]
    return tables


def job_of(analysis: str, parties: Iterable[str], n_rows: int, *, has_ids: bool = True) -> Job:
    """Return the job; its privacy does not matter for what is measured."""
    columns, parameters = ANALYSES[analysis]
    return Job(
        analysis=analysis,
        inputs=tuple(JobInput(party=party, table="rows", columns=columns) for party in parties),
        deadline_s=DEADLINE_S,
        privacy=PrivacyTarget(epsilon=1.0, delta=min(1e-6, largest_delta(n_rows))),
        order=None if has_ids else "trusted",
        parameters={**parameters, "max_rows": 1 << n_rows.bit_length()},
    )


@contextlib.asynccontextmanager
async def watched(federation: Federation) -> AsyncIterator[dict[str, dict[str, int]]]:
    """Yield by service and kind the most that was resident so far."""
    most: dict[str, dict[str, int]] = {}

    async def watch() -> None:
        while True:
            for name, now in federation.resident_bytes().items():
                before = most.setdefault(name, dict.fromkeys(now, 0))
                most[name] = {kind: max(before[kind], n) for kind, n in now.items()}
            await asyncio.sleep(SAMPLE_S)

    watching = asyncio.create_task(watch())
    try:
        yield most
    finally:
        watching.cancel()


async def measured(job: Job, tables: dict[str, list[LocalTable]], n_cells: int) -> dict[str, Any]:
    """Run the job as the first of new services."""
    async with running_federation(tables) as federation:
        compiler = federation.have_compiler()
        rest, before_s = federation.resident_bytes(), federation.processor_s()
        async with watched(federation) as most:
            run = await federation.run(job)
        used_s, kept = federation.processor_s(), federation.resident_bytes()
        peak = federation.peak_resident_bytes()
    party_s = max(used_s[name] - before_s[name] for name in tables)

    def mb(found: Iterable[int]) -> float:
        return round(max(found) / 1e6, 1)

    return {
        "compiler": compiler,
        "seconds": round(run.seconds, 2),
        "processor_s": round(party_s, 2),
        "ns_per_cell": round(1e9 * party_s / n_cells, 2),
        "coordinator_processor_s": round(used_s["coordinator"] - before_s["coordinator"], 2),
        "sent_mb": mb(run.sent_bytes.values()),
        "rest_mb": mb(rest[name]["all"] for name in tables),
        "peak_resident_mb": mb(peak[name] for name in tables),
        "own_mb": mb(most[name]["anonymous"] for name in tables),
        "file_mb": mb(most[name]["file"] for name in tables),
        "kept_mb": mb(kept[name]["anonymous"] for name in tables),
        "coordinator_peak_resident_mb": round(peak["coordinator"] / 1e6, 1),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="10000,100000,1000000", help="numbers of rows, with commas between")
    parser.add_argument("--columns", type=int, default=100, help="of the joint table, at least 30")
    parser.add_argument("--analyses", default=",".join(ANALYSES), help="with commas between")
    parser.add_argument("--ids", action="store_true", help="rows have an id of 11 characters each")
    parser.add_argument("--format", choices=("json",), default="json")
    options = parser.parse_args()
    found: list[dict[str, Any]] = []
    for n_rows in map(int, options.rows.split(",")):
        with tempfile.TemporaryDirectory(prefix="moiety-bench-") as name:
            tables = tables_in(Path(name), n_rows, options.columns, has_ids=options.ids)
            for analysis in options.analyses.split(","):
                n_columns = N_PARTIES * len(ANALYSES[analysis][0]) or options.columns
                job = job_of(analysis, tables, n_rows, has_ids=options.ids)
                taken = asyncio.run(measured(job, tables, n_rows * n_columns))
                found.append({"analysis": analysis, "rows": n_rows, "columns": n_columns, "ids": options.ids, **taken})
                sys.stderr.write(json.dumps(found[-1]) + "\n")
    report = {"bench": "growth", "parties": N_PARTIES, "jobs": found, "machine": describe_machine()}
    sys.stdout.write(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
