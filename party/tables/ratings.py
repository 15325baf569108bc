"""Reads a table of ratings from its source.

What of it can be no rating at all rules the table out, in the same public words as for any other table: a value that is
no finite number, an empty user or item. All else is mapped by rules that look at one user's rows alone, and counted by
the analysis for the owner's report (docs/decisions/018-public-mapping.md).
"""

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analyses.job.ratings import UNKNOWN, RatingRows
from party.tables.ratings_config import RatingsTableConfig
from party.tables.rows_of_source import from_texts
from party.tables.sources.source import SourceError
from party.tables.spelling.canonical import canonical, of_number
from party.tables.spelling.ids import as_written


def read_ratings(table: RatingsTableConfig) -> RatingRows:
    """Read the users, items and ratings of a table.

    Args:
        table: where it is stored, and what its columns are called.

    Raises:
        SourceError: the source raises it; a column is not what its place asks for; there are no rows; a rating is empty
            or not a finite number; a user or an item is empty.
    """
    source = table.make_source()
    values, users, items = source.read((table.rating,), (table.user, table.item))
    wanted = (table.rating, table.user, table.item)
    if (values.name, users.name, items.name) != wanted or not len(values) == len(users) == len(items):
        raise SourceError("other columns than those of ratings came, or columns of different lengths")
    ratings = _finite(from_texts(values, source))
    user_names, user_codes = _coded(_names(users))
    item_names, item_codes = _coded(_names(items))
    ascending = user_names.arg_sort().to_numpy()
    place_of_code = np.empty(len(ascending), dtype=np.int64)
    place_of_code[ascending] = np.arange(len(ascending))
    return RatingRows(
        place_of_code[user_codes],
        _places(item_names, table.items)[item_codes],
        ratings,
        tuple(user_names.gather(ascending).to_list()),
    )


def _coded(names: pl.Series) -> tuple[pl.Series, NDArray[np.int64]]:
    """Return the different names, and for each of a column's names its place among them.

    A table repeats few names often, so whatever is asked of a name is asked of each different one once. Texts are put
    in order by their UTF-8 bytes, which is the order of their characters.
    """
    known = names.unique(maintain_order=True)
    return known, names.cast(pl.Enum(known)).to_physical().cast(pl.Int64).to_numpy()


def _finite(column: pl.Series) -> NDArray[np.float64]:
    if column.is_empty():
        raise SourceError("it has no rows")
    if not column.dtype.is_numeric():
        raise SourceError(f"column {column.name!r} is not numeric")
    if column.has_nulls():
        raise SourceError(f"column {column.name!r} has an empty value")
    values = column.cast(pl.Float64)
    if not values.is_finite().all():
        raise SourceError(f"column {column.name!r} has a value that is not a finite number")
    return values.to_numpy()


def _names(column: pl.Series) -> pl.Series:
    if column.dtype.is_float() and (column.floor() == column).all():
        known = column.unique().drop_nulls()
        column = column.replace_strict(known, pl.Series(map(of_number, known), dtype=pl.String), return_dtype=pl.String)
    if not (column.dtype.is_integer() or column.dtype == pl.String):
        raise SourceError(f"column {column.name!r} holds neither text nor whole numbers")
    names = as_written(column.cast(pl.String))
    if names.has_nulls() or (names == "").any():
        raise SourceError(f"column {column.name!r} has an empty value")
    return names


def _places(names: pl.Series, items: int | tuple[str, ...]) -> NDArray[np.int64]:
    """Return the place of each item in the public list, `UNKNOWN` where it has none."""
    if isinstance(items, int):
        return number_of(names, items)
    place_of = {canonical(item): place for place, item in enumerate(items)}
    return np.array([place_of.get(canonical(name), UNKNOWN) for name in names], dtype=np.int64)


def number_of(names: pl.Series, end: int) -> NDArray[np.int64]:
    """Return the whole number that each text is, `UNKNOWN` where it is none in 0 .. end - 1."""
    numbers = names.cast(pl.Int64, strict=False).fill_null(UNKNOWN).to_numpy()
    return np.where((numbers >= 0) & (numbers < end), numbers, UNKNOWN)
