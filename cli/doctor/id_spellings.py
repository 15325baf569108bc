"""Tells an owner how the ids of a table are spelled, by their shape: of two tables that share no id, each looks well.

Owners compare the shape with each other's. No id is shown, nor a part of one.
"""

import unicodedata
from typing import TYPE_CHECKING

import polars as pl

from party.tables.sources.source import SourceError
from party.tables.spelling.canonical import INVISIBLE
from party.tables.spelling.ids import SPACES, as_written
from service.reach.check import Check, passed, warning

if TYPE_CHECKING:
    from party.tables.config import TableConfig

MOST_TEXTS = 1 << 16
"""Different texts that are looked at one by one."""


def check_id_spellings(table: "TableConfig") -> list[Check]:
    """Check the shape of what identifies the rows of a table."""
    names = (table.id_column,) if table.matching is None else table.matching.columns
    wanted = tuple(name for name in names if name is not None)
    if not wanted:
        return []
    try:
        columns = list(table.make_source().read((), wanted))
    except SourceError as error:  # it was changed meanwhile
        return [warning(f"spelling of ids of {table.name}", str(error), "Look again.")]
    return [_check(table, column) for column in columns if column.dtype == pl.String and column.len()]


def check_text_columns(table: "TableConfig") -> list[Check]:
    """Check that the text of a table is not UTF-8 that was read as another encoding."""
    texts = tuple(name for name in (*table.columns, *table.key_columns))
    try:
        columns = table.make_source().read((), texts)
        broken = [one.name for one in columns if one.dtype == pl.String and has_mojibake(one)]
    except SourceError:  # the check before says so
        return []
    if not broken:
        return []
    what = "a letter such as an umlaut stands there as two characters: UTF-8 was read as another encoding"
    found = f"{', '.join(broken)}: {what}"
    return [warning(f"encoding of {table.name}", found, 'Declare encoding = "utf-8", or export the table again.')]


def has_mojibake(column: pl.Series) -> bool:
    """Return whether a text is what UTF-8 looks like where it is read as Windows-1252."""
    texts = column.filter(column.str.len_bytes() != column.str.len_chars()).unique()
    return any(_was_utf_8(text) for text in texts[:MOST_TEXTS] if text is not None)


def _was_utf_8(text: str) -> bool:
    try:
        return text.encode("cp1252").decode("utf-8") != text
    except UnicodeError:
        return False


def _check(table: "TableConfig", column: pl.Series) -> Check:
    steps = () if table.matching is None else table.matching.steps[column.name]
    raw = column.drop_nulls()
    texts = as_written(raw)
    n_texts = max(1, len(texts))
    digits, zeros = texts.str.contains(r"^[0-9]+$"), texts.str.contains(r"^0[0-9]+$")
    upper, lower = texts.str.contains(r"\p{Lu}"), texts.str.contains(r"\p{Ll}")
    lengths = texts.str.len_chars()
    shortest, longest = int(lengths.to_numpy().min()), int(lengths.to_numpy().max())
    shape = [
        f"{shortest} characters" if shortest == longest else f"{shortest} to {longest} characters",
        f"{_part(digits, n_texts)} of digits alone, {_part(zeros, n_texts)} with zeros in front",
        f"{_part(upper, n_texts)} with capitals, {_part(lower, n_texts)} with small letters",
    ]
    hints = []
    if raw.str.contains(f"^[{SPACES}]|[{SPACES}]$").any():
        hints.append("spaces around, which are taken off")
    if raw.str.contains(f"[{INVISIBLE}]").any():
        hints.append("characters that nobody sees, which are taken off")
    if raw.str.contains(r"^[0-9]+[.,]0+$").any():
        hints.append("whole numbers with a fraction of zeros, such as pandas writes beside a gap")
    advice = []
    if 0 < zeros.sum() < digits.sum() and "integer" not in steps:
        advice.append('some have zeros in front and others not: the step "integer" makes them alike')
    if digits.all() and not zeros.any() and lengths.n_unique() > 1 and "integer" not in steps:
        hints.append("no zeros in front and several lengths: were zeros lost? Others may have them")
    if (upper & ~lower).any() and (lower & ~upper).any() and "lower" not in steps:
        advice.append('capitals in some and small letters in others: the step "lower" makes them alike')
    if "nfkc" not in steps and any(not unicodedata.is_normalized("NFC", one) for one in texts.unique()[:MOST_TEXTS]):
        advice.append('accents apart from their letters: the step "nfkc" makes them alike')
    name = f"spelling of ids of {table.name}"
    found = f"{column.name}: {'; '.join([*shape, *hints])}. Do the other owners' look so, too?"
    if advice:
        fix = f"{'; '.join(advice)}. All owners declare the same steps."
        return warning(name, found, fix[:1].upper() + fix[1:])
    return passed(name, found)


def _part(mask: pl.Series, n_texts: int) -> str:
    return f"{100 * mask.sum() / n_texts:.0f} %"
