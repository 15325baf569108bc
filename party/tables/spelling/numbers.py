"""Numbers in texts: which texts are numbers, and which could be one but do not say which one.

A number is `12`, `+1.5`, `-.5`, `1e-3`, `inf`: with a point before its fraction, or a comma where the source declares
`decimal_comma`. Groups of three digits have a mark between them only where the source declares it as `thousands`.
Spaces around a number, characters that nobody sees, and digits of other scripts make no difference.

A text is **unclear** where it has digits and, besides, only marks between them, a currency, a percent sign, or a minus
sign in another place: `1.234` under `decimal_comma`, `1,234` without, `1'299`, `12 %`. It is some number, so it is
neither a gap nor another value: it is refused, whatever is declared of others.
"""

from typing import NamedTuple

import polars as pl

from party.tables.spelling.canonical import INVISIBLE, plain

MARKS = {".": r"\.", ",": ",", "'": "['\u2019]", " ": "[ \u00a0\u2009\u202f]"}
"""What `thousands` may be, to the pattern of what stands for it in texts."""

_BESIDE = r"(?:[$€£¥₹₽₩¢¤%‰]|[A-Z]{3})?"
_BETWEEN = "[.,'\u2019_ \u00a0\u2009\u202f]"
_DIGITS = (
    rf"(?:[0-9]{{1,3}}(?:{_BETWEEN}[0-9]{{2,3}})*{_BETWEEN}[0-9]{{3}}(?:[.,][0-9]*)?"
    r"|[0-9]+(?:[.,][0-9]*)?(?:[eE][+-]?[0-9]+)?|[.,][0-9]+)"
)
_UNCLEAR = rf"^\(?{_BESIDE} ?[+-]?{_BESIDE} ?{_DIGITS} ?{_BESIDE} ?-?\)?$"
_HAS_DIGIT = "[0-9]"


class Numbers(NamedTuple):
    """The numbers of a column of texts. Private.

    Attributes:
        values: float64, null where a text is none.
        unclear: which texts could be a number, and do not say which.
    """

    values: pl.Series
    unclear: pl.Series


def numbers_of(texts: pl.Series, *, decimal_comma: bool = False, thousands: str = "") -> Numbers:
    """Read the numbers in some texts.

    Args:
        texts: a column of text; nulls are neither numbers nor unclear.
        decimal_comma: whether a comma, and no point, stands before a fraction.
        thousands: what stands between groups of three digits, a key of `MARKS`; empty for nothing.
    """
    values = _read(texts, decimal_comma)
    rest = values.is_null() & texts.is_not_null()
    unclear = pl.repeat(False, len(texts), dtype=pl.Boolean, eager=True)
    if not rest.any():
        return Numbers(values, unclear)
    places = rest.arg_true()
    others = _plain(texts.filter(rest))
    grouped = others if not thousands else _ungrouped(others, decimal_comma, thousands)
    read = _read(grouped, decimal_comma)
    values = values.scatter(places, read)
    return Numbers(values, unclear.scatter(places, read.is_null() & others.str.contains(_UNCLEAR)))


def _read(texts: pl.Series, decimal_comma: bool) -> pl.Series:
    if decimal_comma:
        texts = texts.set(texts.str.contains(".", literal=True), None).str.replace(",", ".", literal=True)
    return texts.cast(pl.Float64, strict=False)


def _plain(texts: pl.Series) -> pl.Series:
    """Return texts without spaces around them and what cannot be seen, and with the digits 0 to 9."""
    is_ascii = texts.str.len_bytes() == texts.str.len_chars()
    if is_ascii.all():
        return texts.str.strip_chars()
    known = texts.filter(~is_ascii & texts.str.contains(rf"\d|[{INVISIBLE}]")).unique()
    return texts.replace(known, pl.Series([plain(one) for one in known], dtype=pl.String)).str.strip_chars()


def _ungrouped(texts: pl.Series, decimal_comma: bool, thousands: str) -> pl.Series:
    """Return texts without the declared mark where it stands between groups of three digits of a whole number."""
    point = "," if decimal_comma else r"\."
    mark = MARKS[thousands]
    is_grouped = texts.str.contains(rf"^[+-]?[0-9]{{1,3}}(?:{mark}[0-9]{{3}})+(?:{point}[0-9]*)?$")
    without = texts.str.replace_all(mark, "")
    return without.zip_with(is_grouped, texts)
