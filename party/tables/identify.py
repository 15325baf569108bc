"""Gives each row of a table the digest of its id, and makes one row of those that have the same id.

What the owner declares holds for every job about the table (`MatchingConfig`): one id is one row of what is read,
however many rows of the source have it. So where one person is one id, one person is one row, and the protection of a
row is a person's. Values are combined by columns of the owner's table, so that of those that were encoded from one at
most one is away from its lower bound afterwards, as before (docs/decisions/038-kinds-of-columns.md).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analyses.job.matching import DuplicateRule, Recipe
from analyses.job.row_ids import RowIds, digests_of_encoded, digests_of_ids
from analyses.job.schema import ColumnSchema
from party.tables.encoding import LARGEST
from party.tables.kinds import MISSING
from party.tables.matching_config import MatchingConfig
from party.tables.normalise import normalised
from party.tables.sources.source import SourceError
from party.tables.spelling.dates import ISO_DATE
from party.tables.spelling.ids import UNCLEAR, as_written

Rows = NDArray[np.int64]
Values = NDArray[np.float64]


LARGEST_ADDED = LARGEST * 2.0**-40
"""To this a value is clipped before rows of one id are added up, so that no sum of 2^40 rows is infinite.

A constant, because a limit that depended on the other rows of the table would let one row move the rows of all ids.
"""

_ONE_BYTE = 128
_LENGTHS = pl.Series([length.to_bytes(8, "big").decode() for length in range(_ONE_BYTE)], dtype=pl.String)
"""How a length stands before a field (`mpc.transcript.encode_fields`): as text, since all of its bytes are ASCII."""


@dataclass(frozen=True)
class Identified:
    """The rows of a source that have an id, by id. Private.

    Attributes:
        ids: digest of each id, in the order in which the ids come first, shape (ids, 32).
        rows: all rows that have one, those of one id after each other, each id's in their order.
        starts: shape (ids,), where in `rows` those of each id begin; in the order of `ids`.
    """

    ids: RowIds = field(repr=False)
    rows: Rows = field(repr=False)
    starts: Rows = field(repr=False)

    @property
    def first(self) -> Rows:
        """The first row of each id."""
        return self.rows[self.starts]

    @property
    def last(self) -> Rows:
        """The last row of each id."""
        last: Rows = self.rows[self.starts + self.sizes - 1]
        return last

    @property
    def sizes(self) -> Rows:
        """How many rows each id has."""
        return np.diff(self.starts, append=np.int64(len(self.rows)))


def fields_of(config: MatchingConfig, columns: Sequence[pl.Series]) -> list[pl.Series]:
    """Return of each column that identifies rows its normalised texts; an empty one where there is no id.

    Raises:
        SourceError: see `normalised`.
    """
    steps, formats = config.steps, config.date_formats
    return [
        normalised(_written(one, steps[one.name]), steps[one.name], formats.get(one.name, ISO_DATE)) for one in columns
    ]


def _written(column: pl.Series, steps: Recipe) -> pl.Series:
    """Return a column of texts as its values are meant, null where the digits of one are no id."""
    if column.dtype != pl.String:
        return column
    texts = as_written(column)
    return texts.set(texts.str.contains(UNCLEAR), None) if "digits" in steps else texts


def identify(fields: Sequence[pl.Series]) -> Identified:
    """Return the rows of each id; rows of which a field is empty have none and are left out.

    Args:
        fields: at least one; see `fields_of`.
    """
    has_id = np.ones(len(fields[0]), dtype=np.bool_)
    for one in fields:
        has_id &= (one != "").to_numpy()
    of_rows = np.flatnonzero(has_id)
    ids = _digests([one if len(of_rows) == len(has_id) else one.gather(of_rows) for one in fields])
    by_id = np.lexsort(ids.view(np.uint64).T[::-1])  # stable: rows of one id stay in their order
    is_new = np.ones(len(by_id), dtype=np.bool_)
    is_new[1:] = (ids[by_id[1:]] != ids[by_id[:-1]]).any(axis=1)
    first_of_rows = np.empty(len(by_id), dtype=np.int64)
    first_of_rows[by_id] = by_id[is_new][np.cumsum(is_new) - 1]
    order = np.argsort(first_of_rows, kind="stable")
    starts = np.flatnonzero(np.diff(first_of_rows[order], prepend=-1))
    found = ids[order[starts]]
    found.setflags(write=False)
    return Identified(found, of_rows[order], starts)


def _digests(fields: Sequence[pl.Series]) -> RowIds:
    """Return `digests_of_ids` of some fields, which polars puts together where they are short."""
    lengths = [one.str.len_bytes().to_numpy() for one in fields]
    if any(len(one) and one.max() >= _ONE_BYTE for one in lengths):  # a length that is no ASCII character
        return digests_of_ids([one.to_list() for one in fields])
    encoded: list[pl.Series] = []
    for place, (one, length) in enumerate(zip(fields, lengths, strict=True)):
        encoded += [_LENGTHS.gather(length).alias(f"{place} length"), one.alias(f"{place}")]
    rows = pl.select(pl.concat_str(encoded).cast(pl.Binary)).to_series()
    return digests_of_encoded(rows, len(fields))


def check_identified(config: MatchingConfig, found: Identified, n_rows: int) -> None:
    """Refuse rows without an id, or several of one id, where the owner declares that.

    Raises:
        SourceError: says which, and names the columns.
    """
    columns = ", ".join(map(repr, config.columns))
    if config.missing == "refuse" and len(found.rows) < n_rows:
        raise SourceError(f"a row has no id in {columns}, and its section [tables.matching] refuses that")
    if config.duplicates == "refuse" and len(found.ids) < len(found.rows):
        raise SourceError(f"two rows have the same id in {columns}, and its section [tables.matching] refuses that")


def one_row_each(config: MatchingConfig, found: Identified, values: Values, columns: Sequence[ColumnSchema]) -> Values:
    """Return one row for each id.

    Args:
        config: matching section with the rule for rows of one id.
        found: the rows of each id.
        values: values of all rows, shape (rows, columns), finite.
        columns: columns of `values`, in their order.
    """
    if len(found.ids) == len(found.rows):
        return values if len(found.rows) == len(values) else values[found.rows]
    merged = np.empty((len(found.ids), len(columns)))
    for source in dict.fromkeys(column.source for column in columns):
        places = [place for place, column in enumerate(columns) if column.source == source]
        _combine(config.rule_of(source), found, values, columns, places, merged)
    return merged


def _combine(
    rule: DuplicateRule,
    found: Identified,
    values: Values,
    columns: Sequence[ColumnSchema],
    places: Sequence[int],
    merged: Values,
) -> None:
    """Write what the columns of one column of the table become."""
    if rule in ("first", "last"):
        merged[:, places] = values[found.first if rule == "first" else found.last][:, places]
        return
    gaps = [p for p in places if columns[p].name == f"{columns[p].source}={MISSING}"]
    is_gap = values[found.rows, gaps[0]] > 0 if gaps else np.zeros(len(found.rows), dtype=np.bool_)
    n_known = np.add.reduceat((~is_gap).astype(np.int64), found.starts)
    for place in places:
        if place in gaps:
            merged[:, place] = n_known == 0
        else:
            combined = _combined(rule, values[found.rows, place], is_gap, found.starts, n_known)
            merged[:, place] = np.where(n_known > 0, combined, columns[place].lower)


def _combined(rule: DuplicateRule, values: Values, is_gap: NDArray[np.bool_], starts: Rows, n_known: Rows) -> Values:
    """Return the mean, sum, largest or smallest of the values that are no gaps; anything where all are."""
    if rule == "max":
        found: Values = np.maximum.reduceat(np.where(is_gap, -LARGEST, values), starts)
    elif rule == "min":
        found = np.minimum.reduceat(np.where(is_gap, LARGEST, values), starts)
    else:
        found = np.add.reduceat(np.where(is_gap, 0.0, np.clip(values, -LARGEST_ADDED, LARGEST_ADDED)), starts)
        if rule == "mean":
            found = found / np.maximum(n_known, 1)
        found = np.where(np.diff(starts, append=len(values)) == 1, values[starts], found)  # as without a merged id
    return found
