"""Tables for the measurements: made up, or the KDD connections, split over parties by columns."""

from pathlib import Path

import numpy as np
import polars as pl

from analyses.job.schema import BlockSchema, ColumnSchema, Table
from demo.data_sets.kdd import write_kdd_parties
from demo.local_deployment import LocalTable

Tables = list[tuple[LocalTable, Table]]
"""Per party, in the order of the joint table's columns: the file, and the same in memory."""


def synthetic_tables(folder: Path, *, rows: int, columns: int, parties: int, seed: int = 0) -> Tables:
    """Write uniform values in [0, 1], `party-<i>.parquet`; the columns are spread evenly.

    Raises:
        ValueError: fewer columns than parties.
    """
    if columns < parties:
        raise ValueError(f"{columns} columns cannot be spread over {parties} parties")
    values = np.random.default_rng(seed).random((rows, columns))
    tables = []
    for number, block in enumerate(np.array_split(values, parties, axis=1), start=1):
        bounds = {f"x{column}": (0.0, 1.0) for column in range(block.shape[1])}
        path = folder / f"party-{number}.parquet"
        pl.DataFrame(block, schema=list(bounds)).write_parquet(path)
        tables.append(
            _both(f"party-{number}", LocalTable(name="rows", path=path, bounds=bounds, rows=(rows, rows)), block)
        )
    return tables


def kdd_tables(folder: Path, *, rows: int | None = None) -> Tables:
    """Write the tables of the demo's three parties; `rows` as in `demo.data_sets.kdd.write_kdd_parties`."""
    made = write_kdd_parties(folder, rows=rows)
    widths = np.cumsum([len(table.usual_bounds) for table in made.tables.values()])[:-1]
    blocks = np.split(made.pooled, widths, axis=1)
    return [_both(party, table, block) for (party, table), block in zip(made.tables.items(), blocks, strict=True)]


def _both(party: str, local: LocalTable, values: np.ndarray) -> tuple[LocalTable, Table]:
    bounds = local.usual_bounds.items()
    columns = tuple(ColumnSchema(name=name, lower=lower, upper=upper) for name, (lower, upper) in bounds)
    schema = BlockSchema(party=party, columns=columns, has_ids=local.id_column is not None, rows=local.rows)
    return local, Table(schema, values)
