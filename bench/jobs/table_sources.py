"""What it takes to read a table from PostgreSQL, DuckDB and Delta Lake: by a party's source, and bare by its engine.

    python -m bench.jobs.table_sources
    python -m bench.jobs.table_sources --rows 10000000 --repeats 1 --peer adbc

The table has an id of text and 10 numbers. Each reading is a process of its own, in turns, and throws away what it has
read, batch by batch. *Bare*: `SELECT *` by the engine's own Python library with its own settings; for PostgreSQL by
ADBC (`--peer adbc`), which is installed for the comparison. *Source*: a party's source, with all that it promises:
one thread, order, no other file, a child process where a damaged file could end the reader. *Table*: what a job does,
which checks ids, encodes the values and keeps them, in memory as far as `table_memory_mib` allows.

Reported of the processes that read, in the median: seconds, processor seconds, and the largest resident set of the
reader and of its child. The server of PostgreSQL is told apart.
"""

import argparse
import importlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from bench.analyses.table import cells
from bench.machine import ONE_THREAD, describe_machine, peak_resident_bytes, processor_s
from bench.peers.environment import UNAVAILABLE, PeerUnavailableError, ensure_environment
from demo.throwaway_postgres import throwaway_cluster

NUMBERS = tuple(f"x{i}" for i in range(10))
BLOCK_ROWS = 1 << 19
ENGINES = ("postgres", "duckdb", "delta")
WAYS = ("bare", "source", "table")
TABLE_MEMORY_MIB = 128
"""Of values in memory, the default of a party."""

ADBC = ("adbc-driver-postgresql==1.13.0",)

SECTION = """\
## Tables in databases and lakes

A table of an id and 10 numbers, read by a process of its own: bare by the engine's library (PostgreSQL by ADBC), by a
party's source, and as a job reads it, which checks ids and keeps at most {table_memory_mib} MiB of values in memory
([decision 136](decisions/136-postgres-by-binary-copy.md)). *Speed* is the processor time of the bare reading over that
of the source, and in brackets the same of the time on the clock. Memory is the largest resident set of the reader and,
after the plus sign, of the child that reads files for it.
"""


def write_postgres(url: str, n_rows: int) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as database:
        columns = ", ".join(f"{name} FLOAT8" for name in NUMBERS)
        database.execute(f"CREATE UNLOGGED TABLE t (id TEXT, {columns})")
        drawn = ", ".join(["random()"] * len(NUMBERS))
        database.execute(f"INSERT INTO t SELECT 'row-' || i, {drawn} FROM generate_series(1, {n_rows}) AS i")
        database.execute("VACUUM ANALYZE t")


def write_duckdb(path: str, n_rows: int) -> None:
    import duckdb

    with duckdb.connect(path) as database:
        drawn = ", ".join(f"random() AS {name}" for name in NUMBERS)
        database.execute(f"CREATE TABLE t AS SELECT 'row-' || i AS id, {drawn} FROM range({n_rows}) AS one(i)")


def write_delta(path: str, n_rows: int) -> None:
    import polars as pl

    rng = np.random.default_rng(1)
    for start in range(0, n_rows, BLOCK_ROWS):
        ids = pl.Series("id", np.arange(start, min(n_rows, start + BLOCK_ROWS))).cast(pl.String)
        frame = pl.DataFrame(rng.random((len(ids), len(NUMBERS))), schema=NUMBERS)
        frame.insert_column(0, ("row-" + ids).alias("id")).write_delta(path, mode="append")


WRITE: dict[str, Callable[[str, int], None]] = {
    "postgres": write_postgres,
    "duckdb": write_duckdb,
    "delta": write_delta,
}


def rows_of_stream(stream: object) -> int:
    import polars as pl
    from arro3.core import RecordBatchReader

    return sum(pl.DataFrame(batch).height for batch in RecordBatchReader.from_arrow(stream))


def bare(engine: str, place: str) -> int:
    """Read by the engine's library; return how many rows there were."""
    if engine == "postgres":
        from adbc_driver_postgresql import dbapi

        with dbapi.connect(place) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT * FROM t")
            return rows_of_stream(cursor.fetch_arrow())
    if engine == "duckdb":
        import duckdb

        with duckdb.connect(place, read_only=True) as connection:
            return rows_of_stream(connection.sql("SELECT * FROM t"))
    import deltalake

    table = deltalake.DeltaTable(place)
    return rows_of_stream(deltalake.QueryBuilder().register("t", table).execute("SELECT * FROM t"))


def section_of(engine: str, place: str) -> dict[str, str]:
    at = {"postgres": "url", "duckdb": "path", "delta": "path"}[engine]
    return {"kind": engine, at: place} | ({} if engine == "delta" else {"table": "t"})


def by_source(engine: str, place: str) -> int:
    from party.tables.sources.registry import source_of_section

    source = source_of_section(section_of(engine, place), None)
    return sum(batch.height for batch in source.batches(NUMBERS, ("id",)))


def as_a_table(engine: str, place: str) -> int:
    from analyses.job.job import JobInput
    from party.tables.config import TableConfig
    from party.tables.table import load_table

    columns = {name: {"kind": "number", "bounds": (0.0, 1.0)} for name in NUMBERS}
    given = {
        "name": "t",
        "source": section_of(engine, place),
        "columns": columns,
        "id_column": "id",
        "rows": (1, 10**8),
    }
    with tempfile.TemporaryDirectory(prefix="moiety-bench-") as folder:
        table: Any = TableConfig.model_validate(given)
        owner: Any = SimpleNamespace(
            name="owner", tables=(table,), data_dir=Path(folder), table_memory_mib=TABLE_MEMORY_MIB
        )
        return len(load_table(owner, JobInput(party="owner", table="t", columns=NUMBERS)).values)


LIBRARIES = {
    "postgres": ("adbc_driver_postgresql.dbapi",),
    "duckdb": ("duckdb",),
    "delta": ("deltalake",),
    "ours": ("psycopg", "party.tables.contents", "party.tables.sources.sql.copy_kernels"),
}
"""What a process that reads has imported: a party runs for long."""

READ: dict[str, Callable[[str, str], int]] = {"bare": bare, "source": by_source, "table": as_a_table}


def read_here(engine: str, place: str, way: str) -> None:
    """Read once, in this process, and print what it took, but for imports."""
    for name in (*LIBRARIES[engine if way == "bare" else "ours"], "polars", "arro3.core"):
        importlib.import_module(name)
    before_s, before = time.perf_counter(), os.times()
    n_rows = READ[way](engine, place)
    seconds, after = time.perf_counter() - before_s, os.times()
    found = {
        "rows": n_rows,
        "seconds": seconds,
        "processor_s": sum(after[:4]) - sum(before[:4]),
        "reader_mb": peak_resident_bytes(os.getpid()) / 1e6,
        "child_mb": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e6,
    }
    sys.stdout.write(json.dumps(found) + "\n")


def reading(engine: str, place: str, way: str, packages: Sequence[str]) -> dict[str, float]:
    """Read once, in a process that finds some more packages."""
    command = [sys.executable, "-m", "bench.jobs.table_sources", "--read", engine, place, way]
    path = os.pathsep.join((*packages, *filter(None, (os.environ.get("PYTHONPATH"),))))
    environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": path}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return dict(json.loads(done.stdout))


def server_s(url: str) -> float:
    """Return the processor time of all processes of a server so far, those that have ended included."""
    import psycopg

    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT pg_read_file('postmaster.pid')").fetchone()
        assert row is not None
    main = int(row[0].split()[0])
    fields = Path(f"/proc/{main}/stat").read_text().rpartition(")")[2].split()
    return processor_s(main) + sum(map(int, fields[13:15])) / os.sysconf("SC_CLK_TCK")


def measured(
    engine: str, place: str, n_rows: int, repeats: int, adbc: Sequence[str] | None
) -> Iterator[dict[str, Any]]:
    """Yield what each way to read took, in the median of some readings in turns."""
    ways = WAYS[1:] if engine == "postgres" and adbc is None else WAYS
    runs: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
    for _ in range(repeats):
        for way in ways:
            before_s = server_s(place) if engine == "postgres" else 0.0
            run = reading(engine, place, way, adbc or ())
            run["server_s"] = server_s(place) - before_s if engine == "postgres" else 0.0
            assert run["rows"] == n_rows, run
            runs[way].append(run)
    for way in ways:
        taken = {kind: round(statistics.median(run[kind] for run in runs[way]), 3) for kind in runs[way][0]}
        yield {"engine": engine, "way": way, **taken, "rows": n_rows}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--engines", default=",".join(ENGINES), help="with commas between")
    parser.add_argument("--repeats", type=int, default=3, help="readings of each way")
    parser.add_argument("--peer", choices=("adbc",), help="what reads PostgreSQL bare")
    parser.add_argument("--read", nargs=3, metavar=("ENGINE", "PLACE", "WAY"), help="read once, and print what it took")
    parser.add_argument("--format", choices=("json",), default="json")
    options = parser.parse_args(arguments)
    if options.read:
        read_here(*options.read)
        return 0
    try:
        adbc = [str(next(ensure_environment("adbc", ADBC).glob("lib/*/site-packages")))] if options.peer else None
    except PeerUnavailableError as error:
        sys.stderr.write(f"{error}\n")
        return UNAVAILABLE
    found: list[dict[str, Any]] = []
    for engine in options.engines.split(","):
        with ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="moiety-bench-"))
            place = stack.enter_context(throwaway_cluster()) if engine == "postgres" else f"{folder}/t.{engine}"
            WRITE[engine](place, options.rows)
            for one in measured(engine, place, options.rows, options.repeats, adbc):
                found.append(one)
                sys.stderr.write(json.dumps(one) + "\n")
    report = {"bench": "table_sources", "readings": found, "table_memory_mib": TABLE_MEMORY_MIB}
    sys.stdout.write(json.dumps({**report, "machine": describe_machine()}, indent=2) + "\n")
    return 0


def section(reports: dict[str, Any]) -> str:
    """Return the part of the page of benchmarks."""
    kept = [reports[name] for name in ("table_sources", "table_sources_1e7") if name in reports]
    if not kept:
        return ""
    lines = []
    for report in kept:
        found = {(one["engine"], one["way"]): one for one in report["readings"]}
        for engine in dict.fromkeys(engine for engine, _ in found):
            bare, ours, table = (found.get((engine, way)) for way in WAYS)
            assert ours is not None
            assert table is not None
            speed = "not compared"
            if bare is not None:
                ratios = (bare[kind] / ours[kind] for kind in ("processor_s", "seconds"))
                speed = "{:.2f} ({:.2f})".format(*ratios)
            lines.append((engine, f"{ours['rows']:,}", *map(_shown, (bare, ours)), speed, _shown(table)))
    head = ("engine", "rows", "bare: processor, memory", "source", "speed", "as a job reads it")
    return SECTION.format(table_memory_mib=kept[0]["table_memory_mib"]) + "\n" + cells(head, lines)


def _shown(one: dict[str, Any] | None) -> str:
    if one is None:
        return ""
    child = f" + {one['child_mb']:.0f}" if one["child_mb"] else ""
    return f"{one['processor_s']:.2f} s, {one['reader_mb']:.0f}{child} MB"


if __name__ == "__main__":
    sys.exit(main())
