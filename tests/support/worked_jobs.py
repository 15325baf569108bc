"""Federations whose parties have workers, and tables large enough that workers are used."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from demo.local_deployment import LocalTable
from demo.loopback import tls_files
from mpc.protocol.shards import LEAST_SHARD_ROWS
from service.identity import Role

OWNERS = {"bank": 3, "hospital": 2, "telco": 2}
"""Party to the number of its columns."""

N_WORKERS = 2
N_ROWS = N_WORKERS * LEAST_SHARD_ROWS + 1234
BOUNDS = (-1.0, 3.0)
OUTSIDE = 17
"""Values of x0 at every owner that lie outside its bounds."""


def values_of(seed: int, n_columns: int, n_rows: int = N_ROWS) -> np.ndarray:
    values = np.random.default_rng(seed).uniform(*BOUNDS, (n_rows, n_columns)).round(6)
    values[:: n_rows // OUTSIDE][:OUTSIDE, 0] = 7.5
    return values


def local_tables(folder: Path, n_rows: int = N_ROWS, ending: str = "parquet") -> dict[str, list[LocalTable]]:
    """Write the owners' tables."""
    tables = {}
    for seed, (owner, n_columns) in enumerate(OWNERS.items()):
        names = [f"x{i}" for i in range(n_columns)]
        frame = pl.DataFrame(values_of(seed, n_columns, n_rows), schema=names)
        frame = frame.with_columns(id=pl.Series([f"row-{row}" for row in range(n_rows)]))
        path = folder / f"{owner}.{ending}"
        frame.write_parquet(path, row_group_size=8192) if ending == "parquet" else frame.write_csv(path)
        bounds = dict.fromkeys(names, BOUNDS)
        tables[owner] = [LocalTable("people", path, bounds, (2, 400_000), id_column="id")]
    return tables


def certified_workers(owners=OWNERS) -> list[tuple[Role, str]]:
    return [(Role.WORKER, owner) for owner in owners]


def worker_tls(owner: str) -> dict[str, str]:
    return tls_files(owner) | {"certificate": f"worker-{owner}.pem", "key": f"worker-{owner}.key"}


def processes_of(owner: str, n_workers: int = N_WORKERS) -> dict:
    """The section `[engine]` of a party whose workers are processes."""
    return {"kind": "processes", "workers": n_workers, "tls": worker_tls(owner)}


def assert_sums_right(result: dict[str, Any], n_rows: int = N_ROWS) -> None:
    """The matrix that a result of all components states is that of the joint table, but for noise and rounding.

    That is X^T X, each column scaled to a range of length 1 and clipped, of a lower bound of 0.
    """
    values, vectors = np.array(result["eigenvalues"]), np.array(result["components"])
    lower, upper = BOUNDS
    blocks = [values_of(seed, width, n_rows) for seed, width in enumerate(OWNERS.values())]
    scaled = np.clip((np.hstack(blocks) - lower) / (upper - lower), 0.0, 1.0)
    assert np.abs((vectors.T * values) @ vectors - scaled.T @ scaled).max() < n_rows / 1000
