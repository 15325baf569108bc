"""Searches a CSV file for all that keeps jobs from it, with lines and values, which no service ever tells."""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

import polars as pl

from party.tables.sources.csv_file import SEPARATORS, CsvFile, FirstLineError, likeliest_delimiter
from party.tables.sources.csv_lines import BadLine
from party.tables.sources.csv_rows import NOT_ENCODED
from party.tables.sources.csv_text import EncodingError, codec_of
from party.tables.sources.source import SourceError
from party.tables.spelling.ids import as_written
from party.tables.spelling.numbers import numbers_of

_PLAIN = {
    comma: re.compile(f"[+-]?[0-9]{{1,15}}(?:{mark}[0-9]{{1,15}})?") for comma, mark in ((False, r"\."), (True, ","))
}
_PLAIN_ID = re.compile(r"[!-+\-/-~]*", re.ASCII)
"""Characters that are never taken off: no space, comma or point."""
_ONLY_A_FRACTION = re.compile(r"[+-]?([0-9]{4,},[0-9]+|[0-9]+,([0-9]{1,2}|[0-9]{4,}))", re.ASCII)
"""A comma that cannot stand between groups of three digits."""


class Form(NamedTuple):
    """What a file seems to be: its encoding and separator, the names in its first line, the fix if one is needed."""

    found: str
    names: list[str]
    fix: str = ""


class Wording(NamedTuple):
    """How a kind of fault is told: the check's name, the finding, the fix."""

    name: str
    found: str
    fix: str


class Kind(Enum):
    """What can be wrong with a row."""

    LINES = Wording(
        "lines",
        "lines that are no rows",
        "Quote values that contain a separator or a line break, and remove lines that are no rows: blank ones, titles, "
        "footers.",
    )
    EMPTY = Wording(
        "values",
        "empty values",
        "Fill them in, or leave these rows out at every party; or declare the column in [tables.columns], with a kind "
        "and what a gap becomes: missing.",
    )
    TEXT = Wording(
        "values",
        "values that are not numbers",
        "Write plain numbers with a point, without units or separators; or declare the column in [tables.columns]: "
        'kind "number" with the texts that mean a gap (gaps, missing), "yes/no" with its true and false values (yes, '
        'no), "category" or "date".',
    )
    MARKED = Wording(
        "values",
        "numbers that can mean two things, or with a sign of a currency or of percent",
        "Does the mark stand between groups of three digits? Then declare it in [tables.source]: thousands. Before the "
        "fraction? Then decimal_comma says which. Take other signs off: what a number is must not be guessed.",
    )
    COMMA = Wording(
        "values",
        "numbers with a comma before their fraction",
        "Declare decimal_comma = true in its [tables.source], or write a point.",
    )
    NAN = Wording("values", "values that are no finite number", "Fill them in, or leave these rows out at every party.")
    GAP = Wording(
        "gaps",
        "gaps that the column's section refuses",
        'Declare what a gap becomes: missing = "column" or a public constant, missing = { value = ... }.',
    )
    OTHER = Wording(
        "kinds",
        "values that are not of the kind that the column's section declares",
        "Do they mean a gap? Then list them: gaps = [...]. If not, correct them or the section, or declare what "
        "becomes of them: `others`.",
    )
    NO_ID = Wording("ids", "rows without an id or a name", "Give every row what identifies it.")
    UNIDENTIFIED = Wording(
        "ids",
        "rows that lack what identifies them",
        'Give every row an id, or declare what becomes of such rows: missing = "leave out" in its [tables.matching].',
    )
    SAME_ID = Wording(
        "ids",
        "rows whose id an earlier row has already",
        "Is that one person with several rows? Then declare in its [tables.matching] what they become: duplicates = "
        '"first", "last", "mean", "sum", "max" or "min". Do two persons share an id? Then add a column that tells them '
        "apart.",
    )
    REPEATED = Wording("ids", "ids that an earlier row has already", "Let every id stand in one row only.")


class Place(NamedTuple):
    """Where a fault is. The value is the owner's."""

    line: int
    column: str
    value: str


class Wanted(NamedTuple):
    """What a table needs: columns of numbers, columns of text, the one whose values differ, whether to refuse inf."""

    numbers: tuple[str, ...]
    texts: tuple[str, ...]
    id_column: str | None
    is_finite: bool


@dataclass
class Faults:
    """What was found, by kind, in the order of the file; the number of rows; and what a place's number counts.

    Attributes:
        broken: why not all of the file could be read; empty where it could.
    """

    n_rows: int = 0
    broken: str = ""
    unit: str = "line"
    by_kind: dict[Kind, list[Place]] = field(default_factory=dict, repr=False)

    def add(self, kind: Kind, line: int, column: str, value: str) -> None:
        """Note one."""
        self.by_kind.setdefault(kind, []).append(Place(line, column, value))


def guess_form(source: CsvFile) -> Form:
    """Read the lines of a file as services do, and say whether it is text as its source declares; guess what it is."""
    called = "UTF-8" if codec_of(source.encoding) == "utf-8" else source.encoding
    again = "Export the table again as CSV with the names of the columns in the first line."
    try:
        names, noted = source.column_names(), list[BadLine]()
        for _ in source.lines().blocks(noted):
            pass
    except EncodingError as error:
        return Form(str(error), [], "Save it as UTF-8, or declare its encoding in its [tables.source].")
    except FirstLineError as error:
        separator = likeliest_delimiter(source.lines().header)
        between = "nothing" if separator is None else SEPARATORS[separator]
        fix = again if separator in (None, source.delimiter) else _separator_fix(separator)
        return Form(f"{called} text, {between} between the columns; {error}", [], fix)
    except SourceError as error:
        return Form(str(error), [], again)
    miscoded = [bad for bad in noted if NOT_ENCODED in bad.what]
    if miscoded and called == "UTF-8":
        return Form(
            f"line {miscoded[0].line} has bytes that are not UTF-8; it seems to be Latin-1 or Windows-1252",
            [],
            'Save it as UTF-8, or declare encoding = "cp1252" in its [tables.source].',
        )
    between = SEPARATORS.get(source.delimiter, repr(source.delimiter))
    comma = ", a comma in decimal numbers" if source.decimal_comma else ""
    return Form(f"{called} text, {between} between {len(names)} columns{comma}", names)


def find_faults(source: CsvFile, wanted: Wanted) -> Faults:
    """Read all rows of a CSV file and note what no job can use.

    Memory: the ids, and a note for each fault.
    """
    faults, first_line_of, noted = Faults(), dict[str, int](), list[BadLine]()
    names = source.column_names()
    numbers = [(names.index(name), name) for name in wanted.numbers]
    texts = [(names.index(name), name) for name in wanted.texts]
    try:
        for line, record in source.records(noted):
            faults.n_rows += 1
            for place, name in numbers:
                if (kind := _fault_of(record[place], source, is_finite=wanted.is_finite)) is not None:
                    faults.add(kind, line, name, record[place])
            for place, name in texts:
                if not record[place]:
                    faults.add(Kind.NO_ID, line, name, "")
                elif name == wanted.id_column and first_line_of.setdefault(_id_of(record[place]), line) != line:
                    faults.add(Kind.REPEATED, line, name, record[place])
    except SourceError as error:  # it ends early, and what is told of the rows before is true
        faults.broken = str(error)
    for bad in noted:
        faults.n_rows += 1
        faults.add(Kind.LINES, bad.line, "", bad.what)
    return faults


def lines_of_rows(source: CsvFile | None, rows: Sequence[int]) -> list[str]:
    """Return where some rows of a table stand, in ascending order: the line of a CSV file, or else the row's number."""
    if source is None:
        return [f"row {row + 1}" for row in rows]
    lines: list[str] = []
    wanted = list(rows)
    for number, record in enumerate(source.records() if wanted else ()):
        while wanted and wanted[0] == number:
            lines.append(f"line {record.line}")
            wanted.pop(0)
        if not wanted:
            break
    return lines


def _id_of(text: str) -> str:
    """Return an id as services read it; hardly any needs a look."""
    return text if _PLAIN_ID.fullmatch(text) is not None else str(as_written(pl.Series([text]))[0])


def _fault_of(text: str, source: CsvFile, *, is_finite: bool) -> Kind | None:
    if not text.strip():
        return Kind.EMPTY
    if _PLAIN[source.decimal_comma].fullmatch(text) is not None:
        return None
    found = numbers_of(pl.Series([text]), decimal_comma=source.decimal_comma, thousands=source.thousands)
    value = found.values[0]
    if value is None:
        if not source.decimal_comma and _ONLY_A_FRACTION.fullmatch(text.strip()) is not None:
            return Kind.COMMA
        return Kind.MARKED if found.unclear[0] else Kind.TEXT
    return Kind.NAN if math.isnan(value) or (is_finite and math.isinf(value)) else None


def _separator_fix(delimiter: str) -> str:
    return (
        f'Declare delimiter = {json.dumps(delimiter)} in its [tables.source], with kind = "csv" and the path, and '
        "decimal_comma = true where numbers have one."
    )
