"""Tables of three owners in files or databases, and neighbours of them, read as a party reads them: for replays."""

import gzip
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from analyses.job.job import Job, JobInput
from analyses.job.plan import Plan
from analyses.job.schema import Table
from analyses.registry import analysis_of
from party.tables.config import TableConfig
from party.tables.table import describe_table, load_table

OWNERS = ("north", "south", "west")
TYPES = {"who": pl.String, "v": pl.Float64, "n": pl.Float64, "b": pl.String, "c": pl.String, "d": pl.String}
KINDS: dict[str, dict[str, Any]] = {
    "n": {"kind": "integer", "bounds": [0, 9]},
    "b": {"kind": "yes/no"},
    "c": {"kind": "category", "values": ["red", "blue", "green"]},
    "d": {"kind": "date", "bounds": ["2020-01-01", "2020-12-31"]},
}
LENIENT = {"missing": "column", "others": "missing"}
ORDINARY = (
    (0.25, 3, "yes", "red", "2020-03-01"),
    (0.5, 9, "no", "green", "2020-11-30"),
    (1.0, 0, "no", "blue", "2020-01-01"),
)
"""Values of rows that both tables hold."""

LARGEST = 1.7976931348623157e308
ODD = (
    (0.0, 0, "no", "red", "2020-01-01"),
    (1.0, 9, "yes", "green", "2020-12-31"),
    (float("inf"), 9, "yes", "blue", "2021-12-31"),
    (float("-inf"), 4, "no", "red", "1999-01-01"),
    (LARGEST, 1e300, "yes", "green", "9999-12-31"),
    (-LARGEST, -1e300, "no", "blue", "0001-01-01"),
    (1e307, 2.5, "perhaps", "violet", "2020-02-30"),
    (None, None, None, None, None),
    (0.5, None, "", "", "yesterday"),
)
"""Values that a row may have at its worst: bounds, far beyond, not of the kind, gaps."""

Rows = Sequence[tuple[Any, ...]]


@dataclass(frozen=True)
class Owner:
    """As `party.tables.config.TableOwner`."""

    name: str
    tables: Sequence[TableConfig]
    data_dir: Path
    table_memory_mib: int = 64


@dataclass(frozen=True)
class Sources:
    """How three owners keep tables of the columns of `TYPES`.

    Attributes:
        folder: of the files.
        kind: of the sources.
        database: URL of a PostgreSQL database, where they lie there.
        table: what a table declares besides.
        job: fields of the job besides.
    """

    folder: Path
    kind: str = "csv"
    database: str = ""
    table: Mapping[str, Any] = field(default_factory=dict)
    job: Mapping[str, Any] = field(default_factory=dict)
    _written_before: Iterator[int] = field(default_factory=itertools.count, compare=False, repr=False)
    _read: dict[tuple[str, str], Table] = field(default_factory=dict, compare=False, repr=False)

    def owner(self, name: str, rows: Rows) -> Owner:
        """Write the table of an owner, and return the owner."""
        frame = pl.DataFrame(rows, schema=TYPES, orient="row")
        declared = {
            "name": "people",
            "source": self._written(name, frame),
            "rows": [1, 40],
            "columns": {"v": {"kind": "number", "bounds": [0, 1], **LENIENT}}
            | {column: {**kind, **LENIENT} for column, kind in KINDS.items()},
            **self.table,
        }
        return Owner(name, [TableConfig.model_validate(declared, context={"folder": self.folder})], self.folder)

    def _written(self, name: str, frame: pl.DataFrame) -> dict[str, Any]:
        if self.database:
            return self._in_database(name, frame)
        if self.kind == "duckdb":
            return self._in_duckdb(name, frame)
        if self.kind == "delta":
            path = self.folder / f"{name}-{next(self._written_before)}"
            frame.with_row_index("place").cast({"place": pl.Int64}).write_delta(str(path))
            return {"kind": "delta", "path": path.name, "order_by": ["place"]}
        ending = {"parquet": "parquet", "arrow": "arrow"}.get(self.kind, "csv")
        path = self.folder / f"{name}.{ending}"
        if ending == "csv":
            frame.write_csv(path)
            if self.kind == "csv.gz":
                packed = path.with_suffix(".csv.gz")
                packed.write_bytes(gzip.compress(path.read_bytes()))
                return {"kind": "csv", "path": packed.name}
        elif ending == "parquet":
            frame.write_parquet(path)
        else:
            frame.write_ipc(path)
        if self.kind == "query":
            return {"kind": "query", "files": {"rows": path.name}, "query": "SELECT * FROM rows WHERE 1 = 1"}
        return {"kind": ending, "path": path.name}

    def _in_duckdb(self, name: str, frame: pl.DataFrame) -> dict[str, Any]:
        import duckdb

        types = {pl.String: "VARCHAR", pl.Float64: "DOUBLE"}
        columns = ", ".join(f"{column} {types[kind]}" for column, kind in TYPES.items())
        path = self.folder / f"{name}-{next(self._written_before)}.duckdb"
        with duckdb.connect(str(path)) as connection:
            connection.execute(f"CREATE TABLE people ({columns})")
            if frame.height:
                connection.executemany(f"INSERT INTO people VALUES ({', '.join('?' * len(TYPES))})", frame.rows())
        return {"kind": "duckdb", "path": path.name, "table": "people"}

    def _in_database(self, name: str, frame: pl.DataFrame) -> dict[str, Any]:
        import psycopg

        types = {pl.String: "text", pl.Float64: "float8"}
        columns = ", ".join(f"{column} {types[kind]}" for column, kind in TYPES.items())
        places = ", ".join(["%s"] * (1 + len(TYPES)))
        with psycopg.connect(self.database, autocommit=True) as connection:
            connection.execute(f"DROP TABLE IF EXISTS {name}")
            connection.execute(f"CREATE TABLE {name} (place int, {columns})")
            for place, row in enumerate(frame.iter_rows()):
                connection.execute(f"INSERT INTO {name} VALUES ({places})", (place, *row))
        return {"kind": "postgres", "url": self.database, "table": name, "order_by": ["place"]}

    def read(self, rows: Mapping[str, Rows]) -> tuple[Plan, dict[str, Table]]:
        """Write the tables of all owners, plan the job, and read what each brings."""
        fields = {
            "analysis": "secure-sum",
            "inputs": [{"party": name, "table": "people"} for name in OWNERS],
            "privacy": {"epsilon": 40.0, "delta": 1e-6},
            "parameters": {"max_rows": 40, "units": 64, "unit": "row"},
            "anyway": True,
            **self.job,
        }
        job = Job.model_validate(fields)
        owners = {name: self.owner(name, rows[name]) for name in OWNERS}
        asked: dict[str, JobInput] = {one.party: one for one in job.inputs}
        plan = analysis_of(job).plan(job, [describe_table(owners[name], asked[name]) for name in job.members])
        for name in OWNERS:  # some kinds are read by a process of their own, and most tables have been read before
            if (name, repr(rows[name])) not in self._read:
                self._read[name, repr(rows[name])] = load_table(owners[name], asked[name])
        return plan, {name: self._read[name, repr(rows[name])] for name in OWNERS}
