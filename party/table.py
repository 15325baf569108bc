"""Reads the columns of a job from the owner's table: CSV, CSV compressed with gzip, or Parquet.

Every error text may reach the analyst. It names the party, the table and a column of the job or the configuration, and
never a path, a row number, a value or a count. Errors of the reader, which quote values, are not chained.
"""

import csv
import gzip
import threading
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from algorithms.job import JobInput
from algorithms.schema import BlockSchema, Table, digest_of_ids
from party.config import PartyConfig, TableConfig

COLUMNS_AT_ONCE = 4
"""Of a Parquet file: the reader holds several copies of what it reads at once."""


class TableError(ValueError):
    """A table that cannot serve a job; the text is public."""


@dataclass(frozen=True)
class _Source:
    """The file of one table, and how to speak of it in public."""

    table: TableConfig
    label: str

    @property
    def path(self) -> Path:
        return self.table.path

    @property
    def is_parquet(self) -> bool:
        return self.path.suffix == ".parquet"

    def error(self, what: str) -> TableError:
        return TableError(f"{self.label}: {what}")


class TableReader:
    """Reads a party's tables. Remembers the last one read, for the next job on the same columns.

    One table is remembered, not all, because it may fill half of the memory. It is read again when its file was changed
    or replaced. May be called from several threads.
    """

    def __init__(self, config: PartyConfig) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._last: tuple[object, Table] | None = None

    def describe(self, brought: JobInput) -> BlockSchema:
        """As `describe_table`."""
        return describe_table(self._config, brought)

    def load(self, brought: JobInput) -> Table:
        """As `load_table`; the values are shared between jobs and read-only."""
        source = _source_of(self._config, brought)
        version = (brought, *_version_of(source))
        with self._lock:
            if self._last is None or self._last[0] != version:
                self._last = None  # frees the old table before the new one is read
                self._last = (version, load_table(self._config, brought))
            return self._last[1]


def describe_table(config: PartyConfig, brought: JobInput) -> BlockSchema:
    """Return the public part of what a job asks for; looks at the names of the file's columns, not at its rows.

    Args:
        config: the party's configuration.
        brought: table and columns. No columns means all that have public bounds and need not be named, in the
            order of the configuration.

    Raises:
        TableError: there is no such table; its file is missing, unreadable or of an unknown format; a column is asked
            for twice, has no public bounds, is missing in the file or stands there twice.
    """
    source = _source_of(config, brought)
    table = source.table
    names = brought.columns or table.usual_columns
    for name in names:
        if names.count(name) > 1:
            raise source.error(f"column {name!r} is asked for more than once")
        if name == table.id_column:
            raise source.error(f"column {name!r} identifies the rows and cannot be used as a feature")
        if name not in table.bounds:
            raise source.error(f"column {name!r} has no public bounds, so it cannot be used")
    present = _column_names(source)
    for name in (*names, *([] if table.id_column is None else [table.id_column])):
        if name not in present:
            raise source.error(f"column {name!r} is missing in its file")
        if present.count(name) > 1:
            raise source.error(f"column {name!r} appears more than once in its file")
    return BlockSchema(
        party=config.name,
        columns=tuple(map(table.column, names)),
        has_ids=table.id_column is not None,
        rows=table.rows,
    )


def load_table(config: PartyConfig, brought: JobInput) -> Table:
    """Read the columns that a job asks for.

    Values outside the public bounds are no error: analyses clip and count them.

    Memory: at the peak the float64 values and the ids; for a CSV file the values twice, and its text too where it is
    compressed.

    Args:
        config: the party's configuration.
        brought: table and columns, as for `describe_table`.

    Returns:
        float64 values, row-major and read-only, with the digest of the ids in row order.

    Raises:
        TableError: as `describe_table`; or a column is not numeric, has an empty value or one that is no finite number,
            ids are empty or repeated, there are no rows, fewer or more than are declared, or the file is changed
            meanwhile.
    """
    schema = describe_table(config, brought)
    source = _source_of(config, brought)
    names = [column.name for column in schema.columns]
    values, ids = _from_parquet(source, names) if source.is_parquet else _from_csv(source, names)
    if not schema.admits(len(values)):
        raise source.error("it does not have as many rows as its owner declares")
    digest = b""
    if ids is not None:
        _check_ids(source, ids)
        digest = digest_of_ids(ids)
    values.setflags(write=False)
    return Table(schema, values, digest)


def count_rows(config: PartyConfig, table: str) -> int:
    """Return the number of rows of a table. For its owner only.

    Raises:
        TableError: there is no such table, or its file cannot be read.
    """
    source = _source_of(config, JobInput(party=config.name, table=table))
    try:
        scan = pl.scan_parquet if source.is_parquet else pl.scan_csv
        return int(scan(source.path, glob=False).select(pl.len()).collect().item())
    except (OSError, pl.exceptions.PolarsError):
        raise source.error("its file is missing or unreadable") from None


def _source_of(config: PartyConfig, brought: JobInput) -> _Source:
    label = f"table {brought.table!r} of party {config.name!r}"
    for table in config.tables:
        if table.name == brought.table:
            return _Source(table, label)
    raise TableError(f"party {config.name!r} has no table {brought.table!r}")


def _column_names(source: _Source) -> list[str]:
    """Return the names of all columns of the file, repeated ones included."""
    try:
        if source.is_parquet:
            return list(pl.read_parquet_schema(source.path))
        if not source.path.name.endswith((".csv", ".csv.gz")):
            raise source.error("its file has an unknown format; .csv, .csv.gz and .parquet can be read")
        open_text = gzip.open if source.path.suffix == ".gz" else open
        # Text decoding runs ahead of the first line: bad bytes further down are for the reader of the rows to find.
        with open_text(source.path, "rt", encoding="utf-8-sig", errors="surrogateescape", newline="") as lines:
            return next(csv.reader(lines), [])
    except (OSError, EOFError, zlib.error) as error:
        raise source.error("its file is missing or unreadable") from error
    except pl.exceptions.DuplicateError:
        raise source.error("a column appears more than once in its file") from None
    except (csv.Error, pl.exceptions.PolarsError):
        raise source.error("the names of its columns cannot be read") from None


def _from_csv(source: _Source, names: Sequence[str]) -> tuple[NDArray[np.float64], pl.Series | None]:
    """Return values and ids, if there are any; see `load_table`.

    The last column of the file is read in any case: only then does the reader notice lines with too many fields, in
    which values stand in the wrong columns.
    """
    last = _column_names(source)[-1]
    types: dict[str, pl.DataType | type[pl.DataType]] = {last: pl.String, **dict.fromkeys(names, pl.Float64)}
    if source.table.id_column is not None:
        types[source.table.id_column] = pl.String
    try:
        frame = pl.read_csv(source.path, columns=list(types), schema_overrides=types, glob=False)
    except (OSError, pl.exceptions.PolarsError):
        raise _reason_of_failure(source, names) from None
    for name in names:
        _check_numbers(source, frame[name])
    id_column = source.table.id_column
    return frame.select(names).to_numpy(order="c"), None if id_column is None else frame[id_column]


def _reason_of_failure(source: _Source, names: Sequence[str]) -> TableError:
    """Find the column that is not numeric, if that is why the file could not be read; one by one to save memory."""
    for name in names:
        try:
            text = pl.read_csv(source.path, columns=[name], infer_schema=False, glob=False)[name]
        except (OSError, pl.exceptions.PolarsError):
            break
        if text.str.strip_chars().cast(pl.Float64, strict=False).null_count() > text.null_count():
            return source.error(f"column {name!r} is not numeric")
    return source.error("its file cannot be read: lines with too many fields, or bytes that are not UTF-8 text")


def _from_parquet(source: _Source, names: Sequence[str]) -> tuple[NDArray[np.float64], pl.Series | None]:
    """Return values and ids, if there are any; see `load_table`.

    A few columns are read at a time, so that all of them are in memory only once.
    """
    before = _version_of(source)
    id_column = source.table.id_column
    types = _parquet_types(source)
    for name in names:
        if not (types[name].is_numeric() or types[name] == pl.Boolean):
            raise source.error(f"column {name!r} is not numeric")
    if id_column is not None and not (types[id_column].is_integer() or types[id_column] == pl.String):
        raise source.error(f"id column {id_column!r} holds neither text nor whole numbers")
    values: NDArray[np.float64] | None = None
    for start in range(0, len(names), COLUMNS_AT_ONCE):
        chosen = names[start : start + COLUMNS_AT_ONCE]
        frame = _columns_of_parquet(source, chosen)
        if values is None:
            values = np.empty((len(frame), len(names)))
        if _version_of(source) != before:
            raise source.error("its file was changed while it was read")
        for number, name in enumerate(chosen, start):
            column = frame[name].cast(pl.Float64)
            _check_numbers(source, column)
            values[:, number] = column.to_numpy()
    assert values is not None, "a schema has at least one column"
    ids = None if id_column is None else _columns_of_parquet(source, [id_column])[id_column].cast(pl.String)
    if _version_of(source) != before:
        raise source.error("its file was changed while it was read")
    return values, ids


def _parquet_types(source: _Source) -> Mapping[str, pl.DataType]:
    try:
        return pl.read_parquet_schema(source.path)
    except (OSError, pl.exceptions.PolarsError):
        raise source.error("its file cannot be read as Parquet") from None


def _columns_of_parquet(source: _Source, names: Sequence[str]) -> pl.DataFrame:
    try:
        return pl.read_parquet(source.path, columns=list(names), glob=False)
    except (OSError, pl.exceptions.PolarsError):
        raise source.error("its file cannot be read as Parquet") from None


def _version_of(source: _Source) -> tuple[int, int, int]:
    """Return what changes when the file is changed or replaced."""
    try:
        status = source.path.stat()
    except OSError as error:
        raise source.error("its file is missing or unreadable") from error
    return status.st_ino, status.st_size, status.st_mtime_ns


def _check_numbers(source: _Source, column: pl.Series) -> None:
    if column.is_empty():
        raise source.error("it has no rows")
    if column.has_nulls():
        raise source.error(f"column {column.name!r} has an empty value; fill it in or leave the row out at every party")
    if not column.is_finite().all():
        raise source.error(f"column {column.name!r} has a value that is not a finite number")


def _check_ids(source: _Source, ids: pl.Series) -> None:
    if ids.has_nulls() or (ids == "").any():
        raise source.error(f"id column {ids.name!r} has an empty value")
    if ids.n_unique() != len(ids):
        raise source.error(f"id column {ids.name!r} names a row twice")
