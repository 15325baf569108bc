"""Names of rows, persons, users and items as they stand in a table: one text for each, however it is spelled.

What programs add to a whole number or a text by themselves is taken off before anything else is done: the `.0` with
which pandas writes whole numbers beside a gap, spaces around, characters that nobody sees. Zeros in front stay.
"""

import polars as pl

from party.tables.spelling.canonical import INVISIBLE

SPACES = (
    "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
"""What `str.split` takes for space."""

_FRACTION_OF_ZEROS = r"^([+-]?[0-9]+)[.,](?:0{1,2}|0{4,})$"
"""Three zeros can be thousands: `1.000` stays."""

UNCLEAR = r"^[+-]?(?:[0-9]+[.,]000|[0-9]+[.,][0-9]+[eE][+-]?[0-9]+|[0-9]+[eE]\+[0-9]+)$"
"""Texts of which the digits are no id: `1.000` is a thousand or one, and `1.2E+11` has lost digits."""


def as_written(texts: pl.Series) -> pl.Series:
    """Return names without what a program added: `7.0` is `7`, ` A` is `A`; nulls stay.

    Args:
        texts: a column of text.
    """
    if not (texts.str.len_bytes() == texts.str.len_chars()).all():
        texts = texts.str.replace_all(f"[{INVISIBLE}]", "")
    stripped = texts.str.strip_chars(SPACES)
    texts = stripped.zip_with(stripped != "", texts)  # spaces alone stay: an empty name is none
    has_zeros = texts.str.ends_with("0") & texts.str.contains(_FRACTION_OF_ZEROS)
    if not has_zeros.any():
        return texts
    return texts.str.replace(_FRACTION_OF_ZEROS, "${1}").zip_with(has_zeros, texts)
