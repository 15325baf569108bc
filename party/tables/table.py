"""Describes a table from the owner's configuration, and reads its columns: CSV, CSV with gzip, or Parquet.

The description opens no file: policy, plan and budget are asked with it, and only then is anything read. What is found
in the file is the owner's business. Where it rules the table out, the coordinator and the analyst read the same words
whatever it is (`UnusableTableError`), and the owner's log says what. That names columns, and never a path, a row
number, a value or a count. Errors of the reader, which quote values, are not chained.
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

from analyses.job.job import JobInput
from analyses.job.row_ids import Persons, digest_of_ids
from analyses.job.schema import BlockSchema, Table
from party.config import PartyConfig, TableConfig

COLUMNS_AT_ONCE = 4
"""Of a Parquet file: the reader holds several copies of what it reads at once."""


LARGEST = float(np.finfo(np.float64).max)


class TableError(ValueError):
    """A table that cannot serve a job; the text is public."""


class UnusableTableError(TableError):
    """A table whose file is missing, or holds what no job can use. The text is public, and the same for all of that.

    Attributes:
        detail: what it is, for the owner.
    """

    def __init__(self, label: str, detail: str) -> None:
        super().__init__(f"{label} cannot be used; its owner finds the reason in the log of the service")
        self.detail = detail


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

    def refusal(self, what: str) -> TableError:
        """Return why the configuration does not let a job have this; public."""
        return TableError(f"{self.label}: {what}")

    def unusable(self, what: str) -> UnusableTableError:
        """Return that the file does not serve; what is wrong is for the owner."""
        return UnusableTableError(self.label, what)


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
    """Return the public part of what a job asks for: from the configuration alone, the file is not touched.

    Args:
        config: the party's configuration.
        brought: table and columns. No columns means all that have public bounds and need not be named, in the
            order of the configuration.

    Raises:
        TableError: there is no such table; a column is asked for twice, identifies the rows or has no public bounds.
    """
    source = _source_of(config, brought)
    table = source.table
    names = brought.columns or table.usual_columns
    for name in names:
        if names.count(name) > 1:
            raise source.refusal(f"column {name!r} is asked for more than once")
        if name in table.key_columns:
            what = "rows" if name == table.id_column else "persons"
            raise source.refusal(f"column {name!r} identifies the {what} and cannot be used as a feature")
        if name not in table.bounds:
            raise source.refusal(f"column {name!r} has no public bounds, so it cannot be used")
    return BlockSchema(
        party=config.name,
        columns=tuple(map(table.column, names)),
        has_ids=table.id_column is not None,
        rows=table.rows,
        most_rows_per_person=table.most_rows_per_person,
    )


def load_table(config: PartyConfig, brought: JobInput) -> Table:
    """Read the columns that a job asks for.

    Values outside the public bounds are no error: analyses clip and count them. So is an infinite one, which is read
    as the largest float64 of its sign.

    Memory: at the peak the float64 values, the ids and the persons; for a CSV file the values twice, and its text too
    where it is compressed.

    Args:
        config: the party's configuration.
        brought: table and columns, as for `describe_table`.

    Returns:
        float64 values, row-major and read-only, with the digest of the ids in row order, and whose the rows are.

    Raises:
        TableError: as `describe_table`.
        UnusableTableError: the file is missing, unreadable or of an unknown format; a column is missing in it or stands
            there twice, is not numeric, has an empty value or one that is no number (NaN); ids are empty or repeated;
            persons are empty; there are no rows, fewer or more than are declared; or the file is changed meanwhile.
    """
    schema = describe_table(config, brought)
    source = _source_of(config, brought)
    names = [column.name for column in schema.columns]
    _check_names(source, names)
    values, keys = _from_parquet(source, names) if source.is_parquet else _from_csv(source, names)
    if not schema.admits(len(values)):
        raise source.unusable("it does not have as many rows as its owner declares")
    digest, persons = b"", None
    for name, key in keys.items():
        _check_named(source, key, is_unique=name == source.table.id_column)
    if source.table.id_column is not None:
        digest = digest_of_ids(keys[source.table.id_column])
    if source.table.person_column is not None:
        persons = Persons.of(keys[source.table.person_column])
    values.setflags(write=False)
    return Table(schema, values, digest, persons)


def count_rows(config: PartyConfig, table: str) -> int:
    """Return the number of rows of a table. For its owner only.

    Raises:
        TableError: there is no such table.
        UnusableTableError: its file cannot be read.
    """
    source = _source_of(config, JobInput(party=config.name, table=table))
    try:
        scan = pl.scan_parquet if source.is_parquet else pl.scan_csv
        return int(scan(source.path, glob=False).select(pl.len()).collect().item())
    except (OSError, pl.exceptions.PolarsError):
        raise source.unusable("its file is missing or unreadable") from None


def _source_of(config: PartyConfig, brought: JobInput) -> _Source:
    label = f"table {brought.table!r} of party {config.name!r}"
    for table in config.tables:
        if table.name == brought.table:
            return _Source(table, label)
    raise TableError(f"party {config.name!r} has no table {brought.table!r}")


def _check_names(source: _Source, names: Sequence[str]) -> None:
    """Refuse a file in which a column, the ids or the persons are missing or stand twice."""
    present = _column_names(source)
    for name in (*names, *source.table.key_columns):
        if name not in present:
            raise source.unusable(f"column {name!r} is missing in its file")
        if present.count(name) > 1:
            raise source.unusable(f"column {name!r} appears more than once in its file")


def _column_names(source: _Source) -> list[str]:
    """Return the names of all columns of the file, repeated ones included."""
    try:
        if source.is_parquet:
            return list(pl.read_parquet_schema(source.path))
        if not source.path.name.endswith((".csv", ".csv.gz")):
            raise source.unusable("its file has an unknown format; .csv, .csv.gz and .parquet can be read")
        open_text = gzip.open if source.path.suffix == ".gz" else open
        # Text decoding runs ahead of the first line: bad bytes further down are for the reader of the rows to find.
        with open_text(source.path, "rt", encoding="utf-8-sig", errors="surrogateescape", newline="") as lines:
            return next(csv.reader(lines), [])
    except (OSError, EOFError, zlib.error) as error:
        raise source.unusable("its file is missing or unreadable") from error
    except pl.exceptions.DuplicateError:
        raise source.unusable("a column appears more than once in its file") from None
    except (csv.Error, pl.exceptions.PolarsError):
        raise source.unusable("the names of its columns cannot be read") from None


def _from_csv(source: _Source, names: Sequence[str]) -> tuple[NDArray[np.float64], Mapping[str, pl.Series]]:
    """Return values, and ids and persons as text, as far as there are any; see `load_table`.

    The last column of the file is read in any case: only then does the reader notice lines with too many fields, in
    which values stand in the wrong columns.
    """
    last = _column_names(source)[-1]
    types: dict[str, pl.DataType | type[pl.DataType]] = {last: pl.String, **dict.fromkeys(names, pl.Float64)}
    types |= dict.fromkeys(source.table.key_columns, pl.String)
    try:
        frame = pl.read_csv(source.path, columns=list(types), schema_overrides=types, glob=False)
    except (OSError, pl.exceptions.PolarsError):
        raise _reason_of_failure(source, names) from None
    frame = frame.with_columns([_finite(source, frame[name]) for name in names])
    return frame.select(names).to_numpy(order="c"), {name: frame[name] for name in source.table.key_columns}


def _reason_of_failure(source: _Source, names: Sequence[str]) -> TableError:
    """Find the column that is not numeric, if that is why the file could not be read; one by one to save memory."""
    for name in names:
        try:
            text = pl.read_csv(source.path, columns=[name], infer_schema=False, glob=False)[name]
        except (OSError, pl.exceptions.PolarsError):
            break
        if text.str.strip_chars().cast(pl.Float64, strict=False).null_count() > text.null_count():
            return source.unusable(f"column {name!r} is not numeric")
    return source.unusable("its file cannot be read: lines with too many fields, or bytes that are not UTF-8 text")


def _from_parquet(source: _Source, names: Sequence[str]) -> tuple[NDArray[np.float64], Mapping[str, pl.Series]]:
    """Return values, and ids and persons as text, as far as there are any; see `load_table`.

    A few columns are read at a time, so that all of them are in memory only once.
    """
    before = _version_of(source)
    types = _parquet_types(source)
    for name in names:
        if not (types[name].is_numeric() or types[name] == pl.Boolean):
            raise source.unusable(f"column {name!r} is not numeric")
    for name in source.table.key_columns:
        if not (types[name].is_integer() or types[name] == pl.String):
            raise source.unusable(f"{_role(source, name)} column {name!r} holds neither text nor whole numbers")
    values: NDArray[np.float64] | None = None
    for start in range(0, len(names), COLUMNS_AT_ONCE):
        chosen = names[start : start + COLUMNS_AT_ONCE]
        frame = _columns_of_parquet(source, chosen)
        if values is None:
            values = np.empty((len(frame), len(names)))
        if _version_of(source) != before:
            raise source.unusable("its file was changed while it was read")
        for number, name in enumerate(chosen, start):
            values[:, number] = _finite(source, frame[name].cast(pl.Float64)).to_numpy()
    assert values is not None, "a schema has at least one column"
    keys = {name: _columns_of_parquet(source, [name])[name].cast(pl.String) for name in source.table.key_columns}
    if _version_of(source) != before:
        raise source.unusable("its file was changed while it was read")
    return values, keys


def _parquet_types(source: _Source) -> Mapping[str, pl.DataType]:
    try:
        return pl.read_parquet_schema(source.path)
    except (OSError, pl.exceptions.PolarsError):
        raise source.unusable("its file cannot be read as Parquet") from None


def _columns_of_parquet(source: _Source, names: Sequence[str]) -> pl.DataFrame:
    try:
        return pl.read_parquet(source.path, columns=list(names), glob=False)
    except (OSError, pl.exceptions.PolarsError):
        raise source.unusable("its file cannot be read as Parquet") from None


def _version_of(source: _Source) -> tuple[int, int, int]:
    """Return what changes when the file is changed or replaced."""
    try:
        status = source.path.stat()
    except OSError as error:
        raise source.unusable("its file is missing or unreadable") from error
    return status.st_ino, status.st_size, status.st_mtime_ns


def _finite(source: _Source, column: pl.Series) -> pl.Series:
    """Return a column of numbers, infinite ones as the largest of their sign.

    An infinite value lies outside all bounds, and is clipped like any other that does. NaN is no value at all.

    Raises:
        UnusableTableError: there are no rows, or a value is missing or NaN.
    """
    if column.is_empty():
        raise source.unusable("it has no rows")
    if column.has_nulls():
        raise source.unusable(
            f"column {column.name!r} has an empty value; fill it in or leave the row out at every party"
        )
    if column.is_nan().any():
        raise source.unusable(f"column {column.name!r} has a value that is no number (NaN)")
    return column.clip(-LARGEST, LARGEST) if column.is_infinite().any() else column


def _role(source: _Source, name: str) -> str:
    return "id" if name == source.table.id_column else "person"


def _check_named(source: _Source, key: pl.Series, *, is_unique: bool) -> None:
    if key.has_nulls() or (key == "").any():
        raise source.unusable(f"{_role(source, key.name)} column {key.name!r} has an empty value")
    if is_unique and key.n_unique() != len(key):
        raise source.unusable(f"id column {key.name!r} names a row twice")
