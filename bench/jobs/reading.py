"""`python -m bench.jobs.reading [ROWS]`: how a party reads its table, beside the library alone, as JSON.

Tables of ROWS and of ROWS / 10 rows are written in each form, and read by a process of their own: as the service reads
them for a job, with the values beyond 64 MiB in a file, and by polars into one matrix. Processor seconds, of its
children too, and the largest resident set of the process less what it had after its imports. `flat` is the growth of
that from the smaller to the larger table, in bytes per value: a matrix in memory takes 8.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from analyses.job.job import JobInput
from bench.machine import ONE_THREAD, describe_machine, peak_resident_bytes
from party.tables.config import TableConfig
from party.tables.table import load_table

FORMS = ("parquet", "arrow", "csv")
ROWS_PER_GROUP = 1 << 16
BLOCK = 4096


@dataclass(frozen=True)
class Owner:
    """A party with one table."""

    tables: tuple[TableConfig, ...]
    data_dir: Path
    name: str = "bank"
    table_memory_mib: int = 64


def write(path: Path, n_rows: int, n_columns: int, *, seed: int = 1, has_ids: bool = False) -> None:
    """Write a table of random numbers x0, x1 ..., some rows at a time; if asked, columns `id` and `code` besides."""
    rng = np.random.default_rng(seed)
    parts = path.with_suffix(".parts")
    parts.mkdir()
    for start in range(0, n_rows, ROWS_PER_GROUP):
        drawn = rng.random((min(ROWS_PER_GROUP, n_rows - start), n_columns))
        frame = pl.DataFrame(drawn, schema=[f"x{i}" for i in range(n_columns)])
        if has_ids:
            numbers = np.arange(start, start + len(drawn)) * 7919 % 10**9  # in no order that sorting would find
            ids = pl.Series("id", numbers).cast(pl.String).str.zfill(10)
            frame = frame.with_columns(id="R" + ids, code=pl.Series(rng.integers(0, 4, len(drawn))))
        frame.write_parquet(parts / f"{start:012}.parquet")
    rows = pl.scan_parquet(parts / "*.parquet")
    if path.suffix == ".parquet":
        rows.sink_parquet(path, row_group_size=ROWS_PER_GROUP)
    elif path.suffix == ".arrow":
        rows.sink_ipc(path, record_batch_size=ROWS_PER_GROUP)
    else:
        rows.sink_csv(path)
    shutil.rmtree(parts)


def processor_s() -> float:
    """Return the processor seconds of this process and of the children that have ended."""
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in spent)


def child(how: str, path: Path, n_columns: int) -> None:
    """Read a table in this process and print what it took."""
    names = [f"x{i}" for i in range(n_columns)]
    before, began_s = peak_resident_bytes("self"), processor_s()
    if how == "service":
        section = {"name": "people", "path": str(path), "bounds": dict.fromkeys(names, (0, 1))}
        owner = Owner((TableConfig.model_validate(section),), path.parent)
        table = load_table(owner, JobInput(party="bank", table="people"))
        total = sum(float(table.block(slice(at, at + BLOCK)).sum()) for at in range(0, table.n_rows, BLOCK))
    else:
        readers = {".parquet": pl.read_parquet, ".arrow": pl.read_ipc, ".csv": pl.read_csv}
        values = np.ascontiguousarray(readers[path.suffix](path).to_numpy())
        total = sum(float(values[at : at + BLOCK].sum()) for at in range(0, len(values), BLOCK))
    spent_s = processor_s() - began_s
    found = {"processor_s": spent_s, "memory_mib": (peak_resident_bytes("self") - before) / 2**20, "total": total}
    print(json.dumps(found))


def measured(how: str, path: Path, n_columns: int) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.jobs.reading", "--child", how, str(path), "--columns", str(n_columns)]
    done = subprocess.run(command, check=True, capture_output=True, env={**os.environ, **ONE_THREAD})
    return dict(json.loads(done.stdout))


def compared(folder: Path, form: str, n_rows: int, n_columns: int) -> dict[str, object]:
    """Return what reading a form takes, and what the library takes alone."""
    paths = {n: folder / f"{n}.{form}" for n in (n_rows // 10, n_rows)}
    for n, path in paths.items():
        write(path, n, n_columns)
    service = {n: measured("service", path, n_columns) for n, path in paths.items()}
    alone = measured("alone", paths[n_rows], n_columns)
    assert abs(service[n_rows]["total"] - alone["total"]) < 1e-6 * alone["total"]
    grown = (service[n_rows]["memory_mib"] - service[n_rows // 10]["memory_mib"]) * 2**20
    return {
        "processor_s": round(service[n_rows]["processor_s"], 2),
        "polars_processor_s": round(alone["processor_s"], 2),
        "speed_to_polars": round(alone["processor_s"] / service[n_rows]["processor_s"], 2),
        "memory_mib": {str(n): round(one["memory_mib"]) for n, one in service.items()},
        "polars_memory_mib": round(alone["memory_mib"]),
        "flat": round(grown / (0.9 * n_rows * n_columns), 3),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="?", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--forms", default=",".join(FORMS), help="Which to measure, with commas between.")
    parser.add_argument("--child", nargs=2, metavar=("HOW", "FILE"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(given.child[0], Path(given.child[1]), given.columns)
        return
    answer: dict[str, object] = {"machine": describe_machine(), "rows": given.rows, "columns": given.columns}
    for form in given.forms.split(","):
        with tempfile.TemporaryDirectory() as folder:
            answer[form] = compared(Path(folder), form, given.rows, given.columns)
    print(json.dumps(answer, indent=2))


if __name__ == "__main__":
    main()
