"""Jobs of logistic regression over three services, with the parameters that all measurements of it share."""

import tempfile
from pathlib import Path
from typing import Any

import polars as pl

from bench.datasets.labelled_tables import LabelledTables
from bench.jobs.federation import JobRun, running_federation
from demo.local_deployment import LocalTable

LEARNING: dict[str, Any] = {"optimiser": "adam", "learning_rate": 0.1}
WEIGHT_NORM = 8.0


async def run_over_services(data: LabelledTables, parameters: dict[str, Any]) -> JobRun:
    """Run one job on real services, each party with its table in a file."""
    with tempfile.TemporaryDirectory(prefix="moiety-bench-") as folder:
        files = {}
        for table in data.training:
            path = Path(folder) / f"{table.schema.party}.parquet"
            names = [c.name for c in table.schema.columns]
            pl.DataFrame(table.values, schema=names).write_parquet(path)
            bounds = {c.name: (c.lower, c.upper) for c in table.schema.columns}
            assert table.schema.rows is not None
            files[table.schema.party] = [LocalTable(data.name, path, bounds, rows=table.schema.rows)]
        async with running_federation(files) as federation:
            return await federation.run(data.job(**parameters))
