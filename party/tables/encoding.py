"""Turns the values of one column of a table into numbers, as its owner declares (`party.tables.kinds`).

Each value is encoded by itself, by public rules: one row of the table moves one row of the result, in the same way
in any table (docs/decisions/018-public-mapping.md, docs/decisions/038-kinds-of-columns.md). A group has at most one
column away from its lower bound because a row gets one code: one indicator is set by it, or the gap's, and a number
whose value is missing is put on its lower bound. No value can set two.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from party.tables.kinds import (
    BinsKind,
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
from party.tables.spelling.canonical import canonical, of_number
from party.tables.spelling.dates import day_of, days_of
from party.tables.spelling.numbers import numbers_of

LARGEST = float(np.finfo(np.float64).max)

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Encoding:
    """What a column became. Private.

    Attributes:
        columns: encoded column's name to its values, shape (rows,), finite.
        gaps: which values were missing.
        others: which values were there and not of the kind.
        refused: which values the owner's declaration refuses; their rows of `columns` mean nothing. Numbers in a
            spelling that is not declared are among them, whatever is declared of others.
        unclear: which values are such numbers.
    """

    columns: Mapping[str, NDArray[np.float64]] = field(repr=False)
    gaps: Mask = field(repr=False)
    others: Mask = field(repr=False)
    refused: Mask = field(repr=False)
    unclear: Mask = field(repr=False)


class _Codes(NamedTuple):
    """What a reader made of values.

    Attributes:
        codes: null for a gap, and for what is not of the kind.
        is_gap: which values the declaration calls gaps.
        unclear: which are numbers that do not say which one; None where none is.
    """

    codes: pl.Series
    is_gap: pl.Series
    unclear: pl.Series | None = None


class _Form(NamedTuple):
    """How numbers in texts are written, see `party.tables.spelling.numbers.numbers_of`."""

    decimal_comma: bool
    thousands: str


def encode(kind: ColumnKind, column: pl.Series, *, decimal_comma: bool = False, thousands: str = "") -> Encoding:
    """Encode a column.

    Args:
        kind: what its owner declares.
        column: its values, of whatever type the source has; spaces around texts do not count.
        decimal_comma: how numbers in texts are written, see `party.tables.spelling.numbers.numbers_of`.
        thousands: separator of thousands, see `party.tables.spelling.numbers.numbers_of`.
    """
    if (plain := _plain_numbers(kind, column)) is not None:
        values, gaps, others = plain
        unclear = np.zeros_like(gaps)
    else:
        given = _without_spaces(column)
        found = _READERS[type(kind)](kind, given, _Form(decimal_comma, thousands))
        codes, gaps = found.codes.cast(pl.Float64), (given.is_null() | found.is_gap.fill_null(False)).to_numpy()
        unclear = np.zeros_like(gaps) if found.unclear is None else found.unclear.to_numpy() & ~gaps
        values = codes.fill_null(0.0).fill_nan(0.0).clip(-LARGEST, LARGEST).to_numpy()
        others = codes.is_null().to_numpy() & ~gaps
    if not isinstance(kind, CategoryKind) or kind.others != "other":
        is_gap = gaps | others if kind.others == "missing" else gaps
        refused = others if kind.others == "refuse" else unclear
    else:
        is_gap, refused = gaps, np.zeros_like(gaps)
        values = np.where(others, float(len(kind.values)), values)
    if kind.missing == "refuse":
        refused = refused | is_gap
    elif isinstance(kind.missing, Constant):
        code = kind.code_of_constant(kind.missing.value)
        assert code is not None, "a configuration with another constant is refused"
        values = np.where(is_gap, code, values)
    return Encoding(_columns(kind, column.name, values, is_gap), gaps, others, refused, unclear)


def _plain_numbers(kind: ColumnKind, column: pl.Series) -> tuple[NDArray[np.float64], Mask, Mask] | None:
    """Return what a reader would make of numbers among which no spelling is a gap; None for any other column.

    A reader calls polars 14 times for each batch, half a millisecond: for 16,384 numbers twenty times what this takes.

    Returns:
        values, 0 where there is none; which are missing; which are there and not of the kind.
    """
    is_plain = column.dtype.is_float() or column.dtype.is_integer()
    if type(kind) not in (NumberKind, IntegerKind) or kind.gaps or not is_plain or column.has_nulls():
        return None
    numbers = column.cast(pl.Float64).to_numpy()
    gaps = np.isnan(numbers)
    others = np.zeros_like(gaps)
    if type(kind) is IntegerKind and column.dtype.is_float():
        others = (np.floor(numbers) != numbers) & np.isfinite(numbers)
    if gaps.any() or others.any():
        numbers = np.where(gaps | others, 0.0, numbers)
    return np.clip(numbers, -LARGEST, LARGEST), gaps, others


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


def _without_spaces(column: pl.Series) -> pl.Series:
    """Return a column with null where a value is empty or NaN; texts without the spaces around them."""
    if isinstance(column.dtype, pl.Categorical | pl.Enum):
        column = column.cast(pl.String)
    if column.dtype == pl.String:
        text = column.str.strip_chars()
        return text.set(text == "", None)
    return column.fill_nan(None) if column.dtype.is_float() else column


def _numbers(kind: ColumnKind, given: pl.Series, form: _Form) -> _Codes:
    read = numbers_of(pl.Series(kind.gaps, dtype=pl.String), **form._asdict())
    gaps = read.values.fill_nan(None).drop_nulls()
    if given.dtype == pl.String:
        values, unclear = numbers_of(given, **form._asdict())
        is_gap = values.is_nan() | _is_listed(given, kind.gaps, form)
        return _Codes(values.fill_nan(None), is_gap | _is_among(values, gaps), unclear)
    if not (given.dtype.is_numeric() or given.dtype == pl.Boolean):
        return _nothing(given)
    values = given.cast(pl.Float64)
    return _Codes(values, _is_among(values, gaps))


def _integers(kind: ColumnKind, given: pl.Series, form: _Form) -> _Codes:
    found = _numbers(kind, given, form)
    has_fraction = (found.codes.floor() != found.codes) & found.codes.is_finite()
    return found._replace(codes=found.codes.set(has_fraction, None))


def _truths(kind: ColumnKind, given: pl.Series, form: _Form) -> _Codes:
    assert isinstance(kind, YesNoKind), "the table of readers says so"
    if given.dtype == pl.String:
        return _of_list(given.str.to_lowercase(), kind.codes, [text.lower() for text in kind.gaps], form)
    return _of_list(given, kind.codes_of_types, kind.gaps, form)


def _places(kind: ColumnKind, given: pl.Series, form: _Form) -> _Codes:
    assert isinstance(kind, ListKind), "the table of readers says so"
    with_comma = {value: place for place, value in enumerate(_canonical(kind.values, form))}
    return _of_list(given, with_comma | kind.places, kind.gaps, form)


def _bins(kind: ColumnKind, given: pl.Series, form: _Form) -> _Codes:
    assert isinstance(kind, BinsKind), "the table of readers says so"
    found = _numbers(kind, given, form)
    values = found.codes.fill_null(0.0).fill_nan(0.0).to_numpy()
    places = pl.Series(np.searchsorted(kind.edges[1:-1], values, side="right").astype(np.float64))
    return found._replace(codes=places.set(found.codes.is_null() | found.codes.is_nan(), None))


def _days(kind: ColumnKind, given: pl.Series, form: _Form) -> _Codes:
    assert isinstance(kind, DateKind), "the table of readers says so"
    gaps = days_of(pl.Series(kind.gaps, dtype=pl.String), kind.form).drop_nulls()
    listed = None
    if given.dtype == pl.String:
        listed, given = _is_listed(given, kind.gaps, form), days_of(given, kind.form)
    elif isinstance(given.dtype, pl.Date | pl.Datetime):
        given = day_of(given, kind.zone)
    else:
        return _nothing(given)
    is_gap = _is_among(given, gaps) if listed is None else _is_among(given, gaps) | listed
    return _Codes(given.cast(pl.Int32).cast(pl.Float64) - float((kind.origin - date(1970, 1, 1)).days), is_gap)


def _of_list(given: pl.Series, code_of: Mapping[str, int], gaps: Sequence[str], form: _Form) -> _Codes:
    """Return the code of each value's canonical spelling."""
    if given.dtype == pl.Boolean:
        given = given.replace_strict({True: "true", False: "false"}, return_dtype=pl.String)
    if given.dtype.is_float():
        known = given.unique().drop_nulls()
        texts = pl.Series([of_number(value) for value in known], dtype=pl.String)
        given = given.replace_strict(known, texts, return_dtype=pl.String)
    if not (given.dtype == pl.String or given.dtype.is_integer() or given.dtype.is_decimal()):
        return _nothing(given)
    texts = given.cast(pl.String)
    known = texts.unique().drop_nulls()
    codes = pl.Series([code_of.get(one) for one in _canonical(known, form)], dtype=pl.Float64)
    found = texts.replace_strict(known, codes, default=None, return_dtype=pl.Float64)
    is_gap = _is_listed(texts, gaps, form)
    return _Codes(found.set(is_gap, None), is_gap)


def _is_listed(texts: pl.Series, values: Sequence[str], form: _Form) -> pl.Series:
    """Return which texts are one of some values, in whatever spelling."""
    wanted = {*_canonical(values, form), *_canonical(values, _Form(False, ""))}
    known = texts.unique().drop_nulls()
    meant = [one for one, value in zip(known, _canonical(known, form), strict=True) if value in wanted]
    return _is_among(texts, pl.Series(meant, dtype=pl.String))


def _is_among(given: pl.Series, values: pl.Series) -> pl.Series:
    if values.is_empty():
        return pl.repeat(False, len(given), dtype=pl.Boolean, eager=True)
    return given.is_in(values.to_list()).fill_null(False)


def _canonical(texts: Iterable[str], form: _Form) -> list[str]:
    return [canonical(one, decimal_comma=form.decimal_comma) for one in texts]


def _nothing(given: pl.Series) -> _Codes:
    """Return that a column has no value: none of the given type can be of the kind."""
    return _Codes(pl.Series(given.name, [None] * len(given), dtype=pl.Float64), given.is_null())


_READERS: Mapping[type[ColumnKind], Callable[[ColumnKind, pl.Series, _Form], _Codes]] = {
    NumberKind: _numbers,
    IntegerKind: _integers,
    YesNoKind: _truths,
    OrdinalKind: _places,
    CategoryKind: _places,
    BinsKind: _bins,
    DateKind: _days,
}
"""Kind to what reads codes of it."""
