"""Reads the rows of a source, batch by batch: numbers and kinds become encoded values, all else stays as it is."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analyses.job.schema import ColumnSchema
from party.tables.config import TableConfig
from party.tables.encoding import LARGEST, Encoding, encode
from party.tables.filters import Condition, Mask
from party.tables.id_column import IdColumn
from party.tables.kept_values import KeptValues
from party.tables.sources.source import NO_ROWS, SourceError, TableSource
from party.tables.spelling.numbers import numbers_of

_EVERY_ROW: Mapping[str, Condition] = MappingProxyType({})
ROWS_TURNED = 1 << 10
"""Rows of which columns become rows at once: each line of memory is written by eight columns, and is still near."""

ROWS_MULTIPLIED = 1 << 16
"""Rows of which products are in memory at once, where rows become one beforehand."""

OUT_OF_RANGE = "its number of rows is outside the range that its owner declares"


class RowsOfSource(NamedTuple):
    """All rows. Private.

    Attributes:
        values: shape (rows, encoded columns), float64, finite, read-only.
        keys: the other columns that were asked for, of all rows that were read, whether they pass or not.
        passes: which of those rows pass the filter, shape (rows that were read,); `values` holds these.
        gaps, others: per column of the table, how many gaps and values of another kind were encoded; only those that
            have some.
    """

    values: NDArray[np.float64]
    keys: Mapping[str, pl.Series]
    passes: Mask
    gaps: dict[str, int]
    others: dict[str, int]


def read_rows(
    table: TableConfig,
    wanted: Sequence[ColumnSchema],
    keys: Sequence[str],
    kept: KeptValues,
    most: int | None,
    conditions: Mapping[str, Condition] = _EVERY_ROW,
    ids: IdColumn | None = None,
) -> RowsOfSource:
    """Read the rows of a table.

    Memory: a few batches, the keys, and what `kept` has in memory.

    Args:
        table: the owner's declaration.
        wanted: encoded columns.
        keys: columns of the table that are taken as they are.
        kept: what keeps the values, empty.
        most: rows beyond this number are not read; None for no limit.
        conditions: column of the table to what it must be in the rows that are kept.
        ids: gets the ids of all rows; None where nobody asks for them.

    Raises:
        SourceError: the source raises it, a column is not what its place asks for, there are no rows or more than most.
    """
    source = table.make_source()
    asked = (*(column.source for column in without_products(table, wanted)), *conditions)
    numbers = list(dict.fromkeys(name for name in asked if name in table.bounds))
    encoded = list(dict.fromkeys(name for name in asked if name in table.columns))
    parts: list[pl.DataFrame] = []
    masks: list[Mask] = []
    gaps, others = Counter[str](), Counter[str]()
    n_read = 0
    texts = list(dict.fromkeys((*encoded, *keys, *(() if ids is None else (ids.name,)))))
    for batch in source.batches(numbers, texts):
        _check_batch(batch, (*numbers, *texts))
        if batch.is_empty():
            continue
        n_read += batch.height
        if most is not None and n_read > most:
            raise SourceError(OUT_OF_RANGE)
        columns = {name: as_numbers(batch[name], source) for name in numbers}
        passes = [one.holds_for(columns[name]) for name, one in conditions.items() if name in columns]
        for name in encoded:
            encoding = encoded_by_kind(table, batch[name], source)
            columns |= encoding.columns
            gaps[name] += int(np.count_nonzero(encoding.gaps))
            others[name] += int(np.count_nonzero(encoding.others))
            if name in conditions:
                passes.append(conditions[name].holds_of(name, table.columns[name], encoding))
        block = _block_of(table, columns, wanted, batch.height)
        if passes:
            masks.append(np.logical_and.reduce(passes))
            block = block[masks[-1]]
        if ids is not None:
            ids.add(batch[ids.name], masks[-1] if passes else None)
        kept.append(block)
        parts.append(batch.select(keys))
    if not n_read:
        raise SourceError(NO_ROWS)
    whole = pl.concat(parts, how="vertical_relaxed")
    of_keys = {name: whole[name] for name in keys}
    all_pass = np.broadcast_to(np.True_, n_read)  # which takes no memory
    passes_of_all = np.concatenate(masks) if masks else all_pass
    return RowsOfSource(kept.finish(), of_keys, passes_of_all, dict(+gaps), dict(+others))


def read_blocks(table: TableConfig, wanted: Sequence[ColumnSchema], start: int) -> Iterator[NDArray[np.float64]]:
    """Yield the rows of a table from a number on as encoded values; nothing is counted or kept.

    Args:
        table: the owner's declaration.
        wanted: encoded columns.
        start: the first row.

    Raises:
        SourceError: the source raises it, or a column is not what its place asks for.
    """
    source = table.make_source()
    asked = dict.fromkeys(column.source for column in without_products(table, wanted))
    numbers = [name for name in asked if name in table.bounds]
    encoded = [name for name in asked if name in table.columns]
    for batch in source.batches_from(start, numbers, encoded):
        _check_batch(batch, (*numbers, *encoded))
        columns = {name: as_numbers(batch[name], source) for name in numbers}
        for name in encoded:
            columns |= encoded_by_kind(table, batch[name], source).columns
        yield _block_of(table, columns, wanted, batch.height)


def without_products(table: TableConfig, wanted: Sequence[ColumnSchema]) -> tuple[ColumnSchema, ...]:
    """Return columns with the factors of products in place of these, each once."""
    of_name = {column.name: column for column in table.encoded}
    found: dict[str, ColumnSchema] = {}
    for column in wanted:
        found |= {one.name: one for one in ([of_name[name] for name in column.factors] or [column])}
    return tuple(found.values())


def with_products(
    table: TableConfig,
    values: NDArray[np.float64],
    given: Sequence[ColumnSchema],
    wanted: Sequence[ColumnSchema],
    kept: KeptValues,
) -> NDArray[np.float64]:
    """Return rows of columns and products of such.

    Args:
        table: the owner's declaration.
        values: shape (rows, given columns).
        given: encoded columns.
        wanted: some of them, and products of them.
        kept: what keeps the values, empty.

    Raises:
        SourceError: there is no place for them.
    """
    for start in range(0, len(values), ROWS_MULTIPLIED):
        part = values[start : start + ROWS_MULTIPLIED]
        columns = {column.name: part[:, place] for place, column in enumerate(given)}
        kept.append(_block_of(table, columns, wanted, len(part)))
    return kept.finish()


def _block_of(
    table: TableConfig, columns: Mapping[str, NDArray[np.float64]], wanted: Sequence[ColumnSchema], n_rows: int
) -> NDArray[np.float64]:
    if any(column.factors for column in wanted):
        of_name = {column.name: column for column in table.encoded}
        columns = {**columns, **{c.name: product_of(c, columns, of_name) for c in wanted if c.factors}}
    block = np.empty((n_rows, len(wanted)))
    for start in range(0, n_rows, ROWS_TURNED):
        part = block[start : start + ROWS_TURNED]
        for place, column in enumerate(wanted):
            part[:, place] = columns[column.name][start : start + ROWS_TURNED]
    return block


def product_of(
    column: ColumnSchema, values: Mapping[str, NDArray[np.float64]], of_name: Mapping[str, ColumnSchema]
) -> NDArray[np.float64]:
    """Return the product of columns, each clipped to its bounds first: so it lies within its own, and is finite.

    Args:
        column: the product.
        values: values of its factors among others.
        of_name: their bounds.
    """
    found = np.ones(())
    for name in column.factors:
        found = found * np.clip(values[name], of_name[name].lower, of_name[name].upper)
    return np.clip(found, column.lower, column.upper)


def _check_batch(batch: pl.DataFrame, wanted: Sequence[str]) -> None:
    present = batch.columns
    for place, name in enumerate(dict.fromkeys(wanted)):
        if place >= len(present) or present[place] != name:
            raise SourceError(f"column {name!r} was asked for, and another one came")
    if batch.width > len(set(wanted)):
        raise SourceError(f"column {batch.columns[-1]!r} was read, but was not requested")


def encoded_by_kind(table: TableConfig, column: pl.Series, source: TableSource) -> Encoding:
    """Encode a column by its kind.

    Raises:
        SourceError: a value is one that its owner's declaration refuses.
    """
    encoding = encode(
        table.columns[column.name], column, decimal_comma=source.has_decimal_comma, thousands=source.thousands_mark
    )
    if (encoding.refused & encoding.gaps).any():
        raise SourceError(f"column {column.name!r} has an empty value, and its section declares no other rule for gaps")
    if encoding.refused.any():
        raise SourceError(f"column {column.name!r} has a value that is not of the kind that its section declares")
    return encoding


def from_texts(column: pl.Series, source: TableSource) -> pl.Series:
    """Return the numbers of a column of texts, null where one is empty; another column as it is.

    Raises:
        SourceError: a text is no number, or in a spelling that its source does not declare.
    """
    if column.dtype != pl.String or not source.has_numbers_in_text:
        return column
    texts = column.set(column.str.strip_chars() == "", None)
    read = numbers_of(texts, decimal_comma=source.has_decimal_comma, thousands=source.thousands_mark).values
    if read.null_count() > texts.null_count():
        raise SourceError(f"column {column.name!r} is not numeric")
    return read


def as_numbers(column: pl.Series, source: TableSource) -> NDArray[np.float64]:
    """Return a column as float64, infinite values as the largest of their sign.

    An infinite value is outside all bounds, and is clipped like any other that does. NaN is no value at all.

    Args:
        column: column of numbers, or of texts that are numbers.
        source: says how numbers in its texts are written.

    Raises:
        SourceError: it is not numeric, or a value is missing or NaN.
    """
    column = from_texts(column, source)
    if not (column.dtype.is_numeric() or column.dtype in {pl.Boolean, pl.Null}):
        raise SourceError(f"column {column.name!r} is not numeric")
    if column.has_nulls():
        raise SourceError(f"column {column.name!r} has an empty value; fill it in or leave the row out at every party")
    values: NDArray[np.float64] = column.cast(pl.Float64).to_numpy()
    if np.isfinite(values).all():  # as hardly any column is not: nothing to clip, and nothing to copy
        return values
    if np.isnan(values).any():
        raise SourceError(f"column {column.name!r} has a value that is not a number (NaN)")
    clipped: NDArray[np.float64] = np.clip(values, -LARGEST, LARGEST)
    return clipped
