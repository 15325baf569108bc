"""Turns the values of one column of a table into numbers, as its owner declares (`party.tables.kinds`).

Each value is encoded by itself, by public rules: one row of the table moves one row of the result, in the same way
in any table (docs/decisions/018-public-mapping.md, docs/decisions/038-kinds-of-columns.md). A group has at most one
column away from its lower bound because a row gets one code: one indicator is set by it, or the gap's, and a number
whose value is missing is put on its lower bound. No value can set two.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date

import numpy as np
import polars as pl
from numpy.typing import NDArray

from party.tables.kinds import (
    CategoryKind,
    ColumnKind,
    Constant,
    DateKind,
    IntegerKind,
    ListKind,
    NumberKind,
    OrdinalKind,
    YesNoKind,
)

LARGEST = float(np.finfo(np.float64).max)

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Encoding:
    """What a column became. Private.

    Attributes:
        columns: encoded column's name to its values, shape (rows,), finite.
        gaps: which values were missing.
        others: which values were there and not of the kind.
        refused: which values the owner's declaration refuses; their rows of `columns` mean nothing.
    """

    columns: Mapping[str, NDArray[np.float64]] = field(repr=False)
    gaps: Mask = field(repr=False)
    others: Mask = field(repr=False)
    refused: Mask = field(repr=False)


def encode(kind: ColumnKind, column: pl.Series, *, decimal_comma: bool = False) -> Encoding:
    """Encode a column.

    Args:
        kind: what its owner declares.
        column: its values, of whatever type the source has; spaces around texts do not count.
        decimal_comma: whether numbers in texts have a comma before their fraction.
    """
    given = _without_gaps(kind, column)
    codes = _READERS[type(kind)](kind, given, decimal_comma).cast(pl.Float64)
    gaps = given.is_null().to_numpy()
    values = codes.fill_null(0.0).fill_nan(0.0).clip(-LARGEST, LARGEST).to_numpy()
    others = codes.is_null().to_numpy() & ~gaps
    if not isinstance(kind, CategoryKind) or kind.others != "other":
        is_gap = gaps | others if kind.others == "missing" else gaps
        refused = others if kind.others == "refuse" else np.zeros_like(gaps)
    else:
        is_gap, refused = gaps, np.zeros_like(gaps)
        values = np.where(others, float(len(kind.values)), values)
    if kind.missing == "refuse":
        refused = refused | is_gap
    elif isinstance(kind.missing, Constant):
        code = kind.code_of_constant(kind.missing.value)
        assert code is not None, "a configuration with another constant is refused"
        values = np.where(is_gap, code, values)
    return Encoding(_columns(kind, column.name, values, is_gap), gaps, others, refused)


def _columns(kind: ColumnKind, name: str, codes: NDArray[np.float64], is_gap: Mask) -> dict[str, NDArray[np.float64]]:
    """Return the encoded columns of codes: indicators, or the code itself, and the indicator of gaps."""
    stands = ~is_gap if kind.missing == "column" else np.ones_like(is_gap)
    indicators = kind.indicators(name)
    if indicators is None:
        columns = {name: np.where(stands, codes, kind.bounds_of_code[0])}
    else:
        columns = {one: ((codes == place) & stands).astype(np.float64) for place, one in enumerate(indicators)}
    if kind.missing == "column":
        columns[f"{name}=missing"] = is_gap.astype(np.float64)
    return columns


def _without_gaps(kind: ColumnKind, column: pl.Series) -> pl.Series:
    """Return a column with null where a value is missing; texts without the spaces around them."""
    if isinstance(column.dtype, pl.Categorical | pl.Enum):
        column = column.cast(pl.String)
    if column.dtype == pl.String:
        text = column.str.strip_chars()
        more = ("nan", "NaN") if isinstance(kind, NumberKind) else ()
        return text.set(text.is_in(["", *more, *kind.gaps]), None)
    return column.fill_nan(None) if column.dtype.is_float() else column


def _numbers(kind: ColumnKind, given: pl.Series, decimal_comma: bool) -> pl.Series:
    if given.dtype == pl.String:
        plain = given.str.replace(",", ".", literal=True) if decimal_comma else given
        return plain.cast(pl.Float64, strict=False).fill_nan(None)
    is_numeric = given.dtype.is_numeric() or given.dtype == pl.Boolean
    return given.cast(pl.Float64) if is_numeric else _nothing(given)


def _integers(kind: ColumnKind, given: pl.Series, decimal_comma: bool) -> pl.Series:
    numbers = _numbers(kind, given, decimal_comma)
    return numbers.set((numbers.floor() != numbers) & numbers.is_finite(), None)


def _truths(kind: ColumnKind, given: pl.Series, decimal_comma: bool) -> pl.Series:
    assert isinstance(kind, YesNoKind), "the table of readers says so"
    if given.dtype == pl.String:
        return _codes(given.str.to_lowercase(), kind.codes)
    numbers = _numbers(kind, given, decimal_comma)
    return numbers.set(~numbers.is_in([0.0, 1.0]), None)


def _places(kind: ColumnKind, given: pl.Series, decimal_comma: bool) -> pl.Series:
    assert isinstance(kind, ListKind), "the table of readers says so"
    if given.dtype == pl.Boolean:
        given = given.replace_strict({True: "true", False: "false"}, return_dtype=pl.String)
    if not (given.dtype == pl.String or given.dtype.is_integer()):
        return _nothing(given)
    return _codes(given.cast(pl.String), {value: place for place, value in enumerate(kind.values)})


def _days(kind: ColumnKind, given: pl.Series, decimal_comma: bool) -> pl.Series:
    assert isinstance(kind, DateKind), "the table of readers says so"
    if given.dtype == pl.String:
        given = given.str.to_date(kind.format, strict=False)
    if not isinstance(given.dtype, pl.Date | pl.Datetime):
        return _nothing(given)
    given = given.dt.date()  # of its own time zone: a cast would take that of UTC
    return given.cast(pl.Int32).cast(pl.Float64) - float((kind.origin - date(1970, 1, 1)).days)


def _codes(texts: pl.Series, code_of: Mapping[str, int]) -> pl.Series:
    return texts.replace_strict(code_of, default=None, return_dtype=pl.Float64)


def _nothing(given: pl.Series) -> pl.Series:
    """Return a column without any value: none of the given type can be of the kind."""
    return pl.Series(given.name, [None] * len(given), dtype=pl.Float64)


_READERS: Mapping[type[ColumnKind], Callable[[ColumnKind, pl.Series, bool], pl.Series]] = {
    NumberKind: _numbers,
    IntegerKind: _integers,
    YesNoKind: _truths,
    OrdinalKind: _places,
    CategoryKind: _places,
    DateKind: _days,
}
"""Kind to what reads codes of it: null for a gap, and for a value that is not of the kind."""
