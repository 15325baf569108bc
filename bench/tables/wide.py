"""`python -m bench.tables.wide [COLUMNS]`: what tables of many columns and few rows take, as JSON.

Processor seconds to read a configuration, to describe all columns of a table, unnamed and by name, and to read its
values; and seconds of a whole job, a sum over all columns of three owners. All of it for COLUMNS / 2 and for COLUMNS:
what is linear takes twice as long.
"""

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from analyses.job.job import Job, JobInput
from bench.jobs.federation import running_federation
from bench.jobs.reading import Owner
from bench.machine import describe_machine
from demo.local_deployment import LocalTable
from party.tables.config import TableConfig
from party.tables.table import describe_table, load_table

N_ROWS = 60
OWNERS = ("bank", "clinic", "shop")


def write(path: Path, n_columns: int) -> dict[str, tuple[float, float]]:
    """Write a table of zeros and ones, and return the bounds of its columns."""
    values = np.random.default_rng(1).integers(0, 2, (N_ROWS, n_columns))
    names = [f"x{i}" for i in range(n_columns)]
    pl.DataFrame(values, schema=names).write_csv(path)
    return dict.fromkeys(names, (0.0, 1.0))


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the processor seconds of some work, and its answer."""
    began_s = time.process_time()
    answer = work()
    return round(time.process_time() - began_s, 3), answer


def of_tables(folder: Path, n_columns: int) -> dict[str, float]:
    """Return what one table takes."""
    path = folder / "people.csv"
    section = {"name": "people", "path": str(path), "bounds": write(path, n_columns), "rows": (10, 100)}
    read_s, table = timed(lambda: TableConfig.model_validate(section))
    owner = Owner((table,), folder)
    all_of_it = JobInput(party="bank", table="people")
    named = JobInput(party="bank", table="people", columns=tuple(section["bounds"]))
    return {
        "configuration_s": read_s,
        "describe_s": timed(lambda: describe_table(owner, all_of_it))[0],
        "describe_named_s": timed(lambda: describe_table(owner, named))[0],
        "load_s": timed(lambda: load_table(owner, all_of_it))[0],
    }


async def of_a_job(folder: Path, n_columns: int) -> float:
    """Return how long a sum over all columns of three owners takes, in seconds."""
    tables = {}
    for owner in OWNERS:
        bounds = write(folder / f"{owner}.csv", n_columns)
        tables[owner] = [LocalTable("people", folder / f"{owner}.csv", bounds, (10, 100))]
    inputs = [{"party": owner, "table": "people"} for owner in OWNERS]
    job = Job.model_validate(
        {
            "analysis": "secure-sum",
            "inputs": inputs,
            "deadline_s": 600.0,
            "privacy": {"epsilon": 0.1, "delta": 1e-9},
            "parameters": {"max_rows": 100},
            "anyway": True,
        }
    )
    async with running_federation(tables) as federation:
        return round((await federation.run(job)).seconds, 2)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("columns", nargs="?", type=int, default=5000)
    parser.add_argument("--without-job", action="store_true", help="Measure the tables only.")
    given = parser.parse_args()
    answer: dict[str, Any] = {"machine": describe_machine(), "rows": N_ROWS}
    for n_columns in (given.columns // 2, given.columns):
        with tempfile.TemporaryDirectory() as folder:
            answer[str(n_columns)] = of_tables(Path(folder), n_columns)
        if not given.without_job:
            with tempfile.TemporaryDirectory() as folder:
                answer[str(n_columns)]["job_s"] = asyncio.run(of_a_job(Path(folder), n_columns))
    print(json.dumps(answer, indent=2))


if __name__ == "__main__":
    main()
