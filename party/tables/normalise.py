"""Steps that make different spellings of one id equal. Public, few and fixed: all owners of a job go through the same.

| step | what becomes of a text |
| --- | --- |
| `trim` | Spaces at both ends go, and several between words become one. |
| `nfkc` | Unicode normalisation form KC: one way to write an accent, a ligature, a digit of another width [UAX15]. |
| `lower` | Full case folding: capitals do not matter, and a German sharp s is ss [Unicode, 3.13]. |
| `digits` | Decimal digits stay, of any script, as 0 to 9; all else goes. |
| `letters` | Letters stay, of any script; all else goes. |
| `integer` | A whole number without leading zeros or plus sign: 007 becomes 7. Any other text is no id. |
| `date` | A date as year-month-day. Any other text is no id. |

An id of which nothing is left is missing. `tests/vectors/row_ids.json` has examples of each step, and digests.
"""

import re
import unicodedata
from collections.abc import Callable, Mapping

import polars as pl

from analyses.job.matching import Recipe, Step
from party.tables.sources.source import SourceError

ISO_DATE = "%Y-%m-%d"

MAX_DIGITS = 4000
"""Longest text that is read as a whole number: Python converts no longer ones."""

_INTEGER = re.compile(r"[+-]?[0-9]+")
_FIRST_INEXACT = float(1 << 53)
"""From here on a float stands for several whole numbers: 2^53 + 1 is read as 2^53."""


def _trim(text: str) -> str:
    return " ".join(text.split())


def _nfkc(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


def _digits(text: str) -> str:
    return "".join(str(unicodedata.decimal(one)) for one in text if one.isdecimal())


def _letters(text: str) -> str:
    return "".join(one for one in text if one.isalpha())


def _integer(text: str) -> str:
    is_one = len(text) <= MAX_DIGITS and _INTEGER.fullmatch(text) is not None
    return str(int(text)) if is_one else ""


_STEPS: Mapping[Step, Callable[[str], str]] = {
    "trim": _trim,
    "nfkc": _nfkc,
    "lower": str.casefold,
    "digits": _digits,
    "letters": _letters,
    "integer": _integer,
}
"""Step to what it makes of a text; `date` is read column by column."""


def normalised(column: pl.Series, steps: Recipe, date_format: str = ISO_DATE) -> list[str]:
    """Return the normalised texts of one column that identifies rows; an empty one where there is no id.

    Whole numbers are read as their decimal digits, also where gaps have turned a column of them into one of floats;
    dates as year-month-day.

    Args:
        column: as the source has it.
        steps: in their order.
        date_format: how dates are written in texts.

    Raises:
        SourceError: it is of a type that identifies nothing, or holds numbers with a fraction.
    """
    is_date = isinstance(column.dtype, pl.Date | pl.Datetime)
    texts = _as_texts(column, steps).fill_null("")
    for step in steps:
        if step == "date":
            dates = texts.str.to_date(ISO_DATE if is_date else date_format, strict=False)
            texts = dates.dt.strftime(ISO_DATE).fill_null("")
        else:
            texts = pl.Series(texts.name, list(map(_STEPS[step], texts.to_list())), dtype=pl.String)
    return texts.to_list()


def _as_texts(column: pl.Series, steps: Recipe) -> pl.Series:
    name, kind = column.name, column.dtype
    if kind.is_float():
        column = column.fill_nan(None)
        if ((column.floor() != column) | (column.abs() >= _FIRST_INEXACT)).any():
            raise SourceError(f"column {name!r} identifies rows, and holds numbers that are not whole or too large")
        return column.cast(pl.Int64).cast(pl.String)
    if isinstance(kind, pl.Datetime):
        if "date" not in steps:
            raise SourceError(f"column {name!r} identifies rows by points in time; declare the step 'date' for it")
        return column.dt.date().cast(pl.String)  # of its own time zone: a cast would take that of UTC
    if kind.is_integer() or kind in {pl.String, pl.Date, pl.Null} or isinstance(kind, pl.Categorical | pl.Enum):
        return column.cast(pl.String)
    raise SourceError(f"column {name!r} identifies rows, and holds neither text nor whole numbers nor dates")
