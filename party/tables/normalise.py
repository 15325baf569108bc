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

What a step does to a text is defined by Python's own `str` and `unicodedata`, row by row; the tests have it so. It is
done column by column: by expressions of polars where the texts are ASCII or the step asks for ASCII alone; where it
asks what kinds of characters there are, by expressions that name those of the column; and for `nfkc` and `lower` of
other texts by one call of Python for thousands of them, with a control character between them that none of them has:
it stays as it is, combines with no other, and nothing becomes one.
"""

import unicodedata
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import polars as pl

from analyses.job.matching import Recipe, Step
from party.tables.sources.source import SourceError
from party.tables.spelling.dates import ISO_DATE, DateForm, day_of, days_of
from party.tables.spelling.ids import SPACES

MAX_DIGITS = 4000
"""Longest text that is read as a whole number: Python converts no longer ones."""

TEXTS_AT_ONCE = 1 << 14
"""How many texts go through one call of Python."""

_FIRST_INEXACT = float(1 << 53)
"""From here on a float stands for several whole numbers: 2^53 + 1 is read as 2^53."""

_CONTROLS = [chr(code) for code in range(0x20)]

_TEXT = pl.first()


def _trimmed() -> pl.Expr:
    return _TEXT.str.replace_all(f"[{SPACES}]+", " ").str.strip_chars(" ")


def _whole_number() -> pl.Expr:
    sign = pl.when(_TEXT.str.starts_with("-")).then(pl.lit("-")).otherwise(pl.lit(""))
    digits = _TEXT.str.strip_chars_start("+-").str.strip_chars_start("0")
    number = pl.when(digits == "").then(pl.lit("0")).otherwise(sign + digits)
    is_one = _TEXT.str.contains(r"^[+-]?[0-9]+$") & (_TEXT.str.len_bytes() <= MAX_DIGITS)
    return pl.when(is_one).then(number).otherwise(pl.lit(""))


_FOR_ALL: Mapping[Step, pl.Expr] = {"trim": _trimmed(), "integer": _whole_number()}
"""Steps that polars does to any text."""

_FOR_ASCII: Mapping[Step, pl.Expr] = {
    "nfkc": _TEXT,
    "lower": _TEXT.str.to_lowercase(),
    "digits": _TEXT.str.replace_all("[^0-9]+", ""),
    "letters": _TEXT.str.replace_all("[^A-Za-z]+", ""),
}
"""What the other steps make of texts of ASCII characters."""


_FOR_OTHERS: Mapping[Step, Callable[[str], str]] = {
    "nfkc": lambda text: unicodedata.normalize("NFKC", text),
    "lower": str.casefold,
}
"""What becomes of any text, or of many with control characters between them."""


def _only_digits(texts: pl.Series) -> pl.Series:
    characters = _characters_of(texts)
    decimals = {one for one in characters if one.isdecimal()}
    others = sorted(decimals - set("0123456789"))
    texts = _without(texts, characters - decimals)
    return texts.str.replace_many(others, [str(unicodedata.decimal(one)) for one in others]) if others else texts


def _only_letters(texts: pl.Series) -> pl.Series:
    return _without(texts, {one for one in _characters_of(texts) if not one.isalpha()})


_BY_CHARACTERS: Mapping[Step, Callable[[pl.Series], pl.Series]] = {"digits": _only_digits, "letters": _only_letters}
"""What becomes of texts with other characters than those of ASCII."""


def _characters_of(texts: pl.Series) -> set[str]:
    found: set[str] = set()
    for some in _parts_of(texts):
        found.update("".join(some))
    return found


def _parts_of(texts: pl.Series) -> Iterator[list[str]]:
    for start in range(0, len(texts), TEXTS_AT_ONCE):
        yield texts[start : start + TEXTS_AT_ONCE].to_list()


def _without(texts: pl.Series, characters: set[str]) -> pl.Series:
    if not characters:
        return texts
    codes = np.array(sorted(map(ord, characters)))
    runs = np.split(codes, np.flatnonzero(np.diff(codes) > 1) + 1)  # a class of single ones can be too long
    named = "".join(f"\\x{{{run[0]:x}}}-\\x{{{run[-1]:x}}}" for run in runs)
    return texts.str.replace_all(f"[{named}]+", "")


def normalised(column: pl.Series, steps: Recipe, date_format: str | DateForm = ISO_DATE) -> pl.Series:
    """Return the normalised texts of one column that identifies rows, without gaps; empty where there is no id.

    Whole numbers are read as their decimal digits, also where gaps have turned a column of them into one of floats;
    dates as year-month-day.

    Args:
        column: column as the source has it.
        steps: steps in their order.
        date_format: how dates are written in texts, and in which zone a point in time has its day.

    Raises:
        SourceError: it is of a type that identifies nothing, or holds numbers with a fraction.
    """
    form = DateForm(format=date_format) if isinstance(date_format, str) else date_format
    of_texts = DateForm() if isinstance(column.dtype, pl.Date | pl.Datetime) else form
    texts = _as_texts(column, steps, form).fill_null("")
    for step in steps:
        is_date = step == "date"
        texts = days_of(texts, of_texts).dt.strftime(ISO_DATE).fill_null("") if is_date else _after(step, texts)
    return texts


def _after(step: Step, texts: pl.Series) -> pl.Series:
    if step in _FOR_ALL:
        return _evaluated(_FOR_ALL[step], texts)
    is_ascii = texts.str.len_bytes() == texts.str.len_chars()
    if is_ascii.all():
        return _evaluated(_FOR_ASCII[step], texts)
    plain = _evaluated(_FOR_ASCII[step], texts.filter(is_ascii))
    places = np.concatenate([np.flatnonzero(is_ascii), np.flatnonzero(~is_ascii)])
    return pl.concat([plain, _of_others(step, texts.filter(~is_ascii))]).gather(np.argsort(places))


def _evaluated(expression: pl.Expr, texts: pl.Series) -> pl.Series:
    return texts.to_frame().select(expression.alias(texts.name)).to_series()


def _of_others(step: Step, texts: pl.Series) -> pl.Series:
    if step in _BY_CHARACTERS:
        return _BY_CHARACTERS[step](texts)
    work, found = _FOR_OTHERS[step], list[pl.Series]()
    for some in _parts_of(texts):
        whole = "".join(some)
        mark = next((one for one in _CONTROLS if one not in whole), None)
        # Texts with all control characters among them are nobody's ids, and right all the same.
        done = list(map(work, some)) if mark is None else work(mark.join(some)).split(mark)
        found.append(pl.Series(texts.name, done, dtype=pl.String))
    return pl.concat(found)


def _as_texts(column: pl.Series, steps: Recipe, form: DateForm) -> pl.Series:
    name, kind = column.name, column.dtype
    if kind.is_float():
        column = column.fill_nan(None)
        if ((column.floor() != column) | (column.abs() >= _FIRST_INEXACT)).any():
            raise SourceError(f"column {name!r} identifies rows, and holds numbers that are not whole or too large")
        return column.cast(pl.Int64).cast(pl.String)
    if isinstance(kind, pl.Datetime):
        if "date" not in steps:
            raise SourceError(f"column {name!r} identifies rows by points in time; declare the step 'date' for it")
        return day_of(column, form.zone).cast(pl.String)
    if kind.is_integer() or kind in {pl.String, pl.Date, pl.Null} or isinstance(kind, pl.Categorical | pl.Enum):
        return column.cast(pl.String)
    raise SourceError(f"column {name!r} identifies rows, and holds neither text nor whole numbers nor dates")
