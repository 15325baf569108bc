"""Searches a CSV file for all that keeps jobs from it, with lines and values, which no service ever tells."""

import codecs
import csv
import gzip
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import IO, NamedTuple

from party.tables.sources.csv_file import SEPARATORS, CsvFile
from party.tables.sources.source import SourceError

_SAMPLE_BYTES = 1 << 20


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

    FIELDS = Wording(
        "lines", "lines with another number of fields than the first one", "Quote values that contain a comma."
    )
    EMPTY = Wording("values", "empty values", "Fill them in, or leave these rows out at every party.")
    TEXT = Wording(
        "values", "values that are not numbers", "Write plain numbers with a point, without units or separators."
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
        "Correct them or the section, or declare what becomes of them: `others`.",
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
    """What was found, by kind, in the order of the file; the number of rows; and what a place's number counts."""

    n_rows: int = 0
    unit: str = "line"
    by_kind: dict[Kind, list[Place]] = field(default_factory=dict, repr=False)

    def add(self, kind: Kind, line: int, column: str, value: str) -> None:
        """Note one."""
        self.by_kind.setdefault(kind, []).append(Place(line, column, value))


def guess_form(source: CsvFile) -> Form:
    """Read the first line of a file as services do, and say whether it is as its source declares; guess what it is.

    Raises:
        OSError: it cannot be read, or is not whole.
        EOFError: likewise, where it is compressed.
    """
    encoding, bad_line = _encoding(source.path) if source.is_utf_8 else (source.encoding, 0)
    if encoding == "UTF-16":
        fix = 'Save it as UTF-8, or declare encoding = "utf-16" in its [tables.source].'
        return Form("UTF-16 text, as spreadsheets save it", [], fix)
    try:
        names = source.column_names()
    except SourceError as error:
        separator = _separator(source)
        return Form(f"{encoding} text, {separator} between the columns; {error}", [], _form_fix(separator, source))
    if bad_line:
        return Form(
            f"line {bad_line} has bytes that are not UTF-8; it seems to be Latin-1 or Windows-1252",
            [],
            'Save it as UTF-8, or declare encoding = "cp1252" in its [tables.source].',
        )
    between = SEPARATORS.get(source.delimiter, repr(source.delimiter))
    comma = ", a comma in decimal numbers" if source.decimal_comma else ""
    return Form(f"{encoding} text, {between} between {len(names)} columns{comma}", names)


def find_faults(source: CsvFile, wanted: Wanted) -> Faults:
    """Read all rows of a CSV file and note what no job can use.

    Memory: the ids, and a note for each fault.
    """
    faults, first_line_of = Faults(), dict[str, int]()
    with source.open_text() as file:
        records = _records(file, source.delimiter)
        _, names = next(records, (1, []))
        numbers = [(names.index(name), name) for name in wanted.numbers]
        texts = [(names.index(name), name) for name in wanted.texts]
        for line, record in records:
            faults.n_rows += 1
            if len(record) != len(names):
                faults.add(Kind.FIELDS, line, "", "")
                continue
            for place, name in numbers:
                if (kind := _fault_of(record[place], source, is_finite=wanted.is_finite)) is not None:
                    faults.add(kind, line, name, record[place])
            for place, name in texts:
                if not record[place]:
                    faults.add(Kind.NO_ID, line, name, "")
                elif name == wanted.id_column and first_line_of.setdefault(record[place], line) != line:
                    faults.add(Kind.REPEATED, line, name, record[place])
    return faults


def lines_of_rows(source: CsvFile | None, rows: Sequence[int]) -> list[str]:
    """Return where some rows of a table stand, in ascending order: the line of a CSV file, or else the row's number."""
    if source is None:
        return [f"row {row + 1}" for row in rows]
    lines: list[str] = []
    with source.open_text() as file:
        records = _records(file, source.delimiter)
        next(records, None)
        wanted = list(rows)
        for number, (line, _) in enumerate(records):
            while wanted and wanted[0] == number:
                lines.append(f"line {line}")
                wanted.pop(0)
            if not wanted:
                break
    return lines


def _records(file: IO[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line in which each record begins, and its fields."""
    reader = csv.reader(file, delimiter=delimiter)
    line = 1
    for record in reader:
        yield line, record
        line = reader.line_num + 1


def _fault_of(text: str, source: CsvFile, *, is_finite: bool) -> Kind | None:
    if not text:
        return Kind.EMPTY
    with_point = text.replace(",", ".", 1)
    try:
        value = float(with_point if source.decimal_comma else text)
    except ValueError:
        return Kind.COMMA if not source.decimal_comma and _is_number(with_point) else Kind.TEXT
    if "_" in text:  # which Python allows
        return Kind.TEXT
    return Kind.NAN if math.isnan(value) or (is_finite and math.isinf(value)) else None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _encoding(path: Path) -> tuple[str, int]:
    """Return the encoding of a file, and the first line that breaks UTF-8, or 0."""
    open_bytes = gzip.open if path.suffix == ".gz" else open
    decoder = codecs.getincrementaldecoder("utf-8")()
    name, line = "UTF-8", 1
    with open_bytes(path, "rb") as file:
        begin = True
        while block := file.read(_SAMPLE_BYTES):
            if begin and block.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                return "UTF-16", 1
            if begin and block.startswith(codecs.BOM_UTF8):
                name = "UTF-8 (with a byte order mark)"
            begin = False
            try:
                decoder.decode(block)
            except UnicodeDecodeError as error:
                return "Latin-1 or Windows-1252", line + error.object.count(b"\n", 0, error.start)
            line += block.count(b"\n")
    return name, 0


def _separator(source: CsvFile) -> str:
    with source.open_text() as file:
        first = file.readline(_SAMPLE_BYTES)
    most = max(SEPARATORS, key=first.count)
    return SEPARATORS[most] if first.count(most) else "nothing"


def _form_fix(separator: str, source: CsvFile) -> str:
    if separator in ("nothing", SEPARATORS.get(source.delimiter)):
        return "Export the table again as CSV with the names of the columns in the first line."
    character = next(character for character, name in SEPARATORS.items() if name == separator)
    return (
        f'Declare delimiter = {json.dumps(character)} in its [tables.source], with kind = "csv" and the path, and '
        "decimal_comma = true where numbers have one."
    )
