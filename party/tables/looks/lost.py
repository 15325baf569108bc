"""Finds columns of a table of which nearly all values are lost: gaps, others, clipped, or dropped.

Such a table serves jobs, and they are paid for; what is declared is mostly not what stands there. What is found is the
owner's alone: counts and values are told by commands on its terminal, and its log names columns.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from analyses.job.ratings import UNKNOWN
from party.tables.config import TableConfig
from party.tables.filters import Mask
from party.tables.identify import fields_of
from party.tables.kinds import DateKind, NumberKind
from party.tables.ratings import read_ratings
from party.tables.ratings_config import RatingsTableConfig
from party.tables.rows_of_source import as_numbers, encoded_by_kind
from party.tables.sources.source import TableSource
from party.tables.spelling.canonical import of_number

NEARLY_ALL = 0.9
"""From this part on an owner is told."""

KEPT_VALUES = 1000
"""Different values of one batch that are counted."""

GAPS, OTHERS, CLIPPED = "gaps", "not of the declared kind", "outside of their bounds"
DROPPED, UNNAMED = "of no declared item", "without an id, and left out"


@dataclass
class Lost:
    """The lost values of one column. Private.

    Attributes:
        column: column of the owner's table.
        how: they are lost.
        n_lost: number of lost values.
        n_rows: rows of the table.
        values: how often each of them stands there.
    """

    column: str
    how: str
    n_lost: int = field(default=0, repr=False)
    n_rows: int = field(default=0, repr=False)
    values: Counter[str] = field(default_factory=Counter, repr=False)

    def add(self, column: pl.Series, mask: Mask) -> None:
        """Count the values of some rows that are lost."""
        self.n_rows += len(column)
        self.n_lost += int(np.count_nonzero(mask))
        if self.n_lost and mask.any():
            counts = column.filter(pl.Series(mask)).value_counts(sort=True)[:KEPT_VALUES]
            for value, times in counts.iter_rows():
                self.values[of_number(value) if isinstance(value, float) else str(value or "")] += times

    @property
    def is_nearly_all(self) -> bool:
        """Whether nearly all values of the column are lost."""
        return self.n_lost >= NEARLY_ALL * max(1, self.n_rows)

    @property
    def commonest(self) -> list[str]:
        """The commonest of the lost values."""
        return [value for value, _ in self.values.most_common(3)]


def lost_of(table: TableConfig, most_rows: int | None = None) -> list[Lost]:
    """Return what is lost of each column, by how it is lost, where anything is.

    Args:
        table: the owner's declaration.
        most_rows: rows beyond are not read; None for no limit.

    Raises:
        SourceError: see `TableSource.batches`; or a column holds what its owner's declaration refuses.
    """
    found = _of_ratings(table) if isinstance(table, RatingsTableConfig) else _of_columns(table, most_rows)
    return [one for one in found if one.n_lost]


def _of_columns(table: TableConfig, most_rows: int | None) -> list[Lost]:
    source, found, n_read = table.make_source(), dict[tuple[str, str], Lost](), 0
    numbers, kinds = tuple(table.bounds), table.columns
    ids = () if table.matching is None else table.matching.columns
    for batch in source.batches(numbers, (*kinds, *table.key_columns)):
        for name in numbers:
            lower, upper = table.bounds[name]
            values = as_numbers(batch[name], source)
            _lost(found, name, CLIPPED).add(batch[name], (values < lower) | (values > upper))
        for name in kinds:
            for how, mask in _of_kind(table, batch[name], source):
                _lost(found, name, how).add(batch[name], mask)
        if table.matching is not None:
            columns = [batch[name] for name in ids]
            for name, texts in zip(ids, fields_of(table.matching, columns), strict=True):
                _lost(found, name, UNNAMED).add(batch[name], (texts == "").to_numpy())
        n_read += batch.height
        if most_rows is not None and n_read >= most_rows:
            break
    return list(found.values())


def _lost(found: dict[tuple[str, str], Lost], column: str, how: str) -> Lost:
    return found.setdefault((column, how), Lost(column, how))


def _of_kind(table: TableConfig, column: pl.Series, source: TableSource) -> Iterator[tuple[str, Mask]]:
    kind, encoding = table.columns[column.name], encoded_by_kind(table, column, source)
    yield GAPS, encoding.gaps
    yield OTHERS, encoding.others
    if isinstance(kind, NumberKind | DateKind):
        codes, (lower, upper) = encoding.columns[column.name], kind.bounds_of_code
        yield CLIPPED, ((codes < lower) | (codes > upper)) & ~encoding.gaps & ~encoding.others


def _of_ratings(table: RatingsTableConfig) -> list[Lost]:
    ratings = read_ratings(table)
    lower, upper = table.bounds[table.rating]
    items, values = Lost(table.item, DROPPED), Lost(table.rating, CLIPPED)
    _, names = table.make_source().read((table.rating,), (table.item,))
    items.add(names, ratings.items == UNKNOWN)
    values.add(pl.Series(ratings.values), (ratings.values < lower) | (ratings.values > upper))
    return [items, values]


def in_words(lost: Sequence[Lost]) -> list[str]:
    """Return for the log which columns lose nearly all of their values, without any value or count."""
    return [f"{one.column}: {one.how}" for one in lost if one.is_nearly_all]
