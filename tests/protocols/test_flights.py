"""How many messages of a job wait for one another: what a network of long delays costs, counted and not claimed."""

import asyncio

import numpy as np
from virtual_time import run_in_virtual_time

from analyses.job.job import Job
from analyses.job.schema import BlockSchema, ColumnSchema, Table
from analyses.run_locally import run_locally

DELAY_S = 1.0


def tables_of(n_rows: int) -> dict[str, Table]:
    values = np.random.default_rng(1).uniform(-1, 1, (3, n_rows, 2))
    columns = tuple(ColumnSchema(name=name, lower=-1, upper=1) for name in "xy")
    names = ("one", "two", "three")
    return {
        n: Table(BlockSchema(party=n, columns=columns, rows=(1, 100)), v) for n, v in zip(names, values, strict=True)
    }


def flights_of(analysis: str, parameters: dict[str, object], n_rows: int = 50) -> int:
    """Return how often one delay passes in a job in which each message takes one, and nothing else takes time."""
    tables = tables_of(n_rows)
    job = Job.model_validate(
        {
            "analysis": analysis,
            "inputs": [{"party": name, "table": "rows"} for name in tables],
            "deadline_s": 1000.0,
            "order": "trusted",
            "privacy": {"epsilon": 4.0, "delta": 1e-6},
            "parameters": {"max_rows": 100, **parameters},
        }
    )

    async def timed() -> float:
        loop = asyncio.get_running_loop()
        started_s = loop.time()
        run = await run_locally(job, tables, fault=lambda message: (message.delayed(DELAY_S),))
        assert not run.failures
        return loop.time() - started_s

    return round(run_in_virtual_time(timed()) / DELAY_S)


def test_a_gram_job_of_three_parties_takes_six_flights_beside_the_gate():
    """Keys; confirmation; row counts and the test of equality; its verdict; the table; the opening.

    Shares of degree 2 of the noise are all derived. A service adds one: owners tell that they have committed.
    """
    assert flights_of("pca", {"components": 2}) == 6


def test_the_flights_of_a_job_do_not_grow_with_its_rows():
    assert flights_of("pca", {"components": 2}, n_rows=5) == flights_of("pca", {"components": 2}, n_rows=100)
