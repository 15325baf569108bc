"""Searches a CSV file for all that keeps jobs from it, with lines and values, which no service ever tells."""

import codecs
import csv
import gzip
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import IO, NamedTuple

from party.tables.csv_file import CsvFile
from party.tables.source import SourceError

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
    NAN = Wording("values", "values that are no finite number", "Fill them in, or leave these rows out at every party.")
    NO_ID = Wording("ids", "rows without an id or a name", "Give every row what identifies it.")
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


def guess_form(path: Path) -> Form:
    """Guess encoding and separator of a file, and read its first line as services do.

    Raises:
        OSError: it cannot be read, or is not whole.
        EOFError: likewise, where it is compressed.
    """
    encoding, bad_line = _encoding(path)
    if encoding == "UTF-16":
        return Form("UTF-16 text, as spreadsheets save it", [], "Save it as UTF-8.")
    try:
        names = CsvFile(path=path).column_names()
    except SourceError as error:
        separator = _separator(path)
        return Form(f"{encoding} text, {separator} between the columns; {error}", [], _form_fix(separator))
    if bad_line:
        return Form(
            f"line {bad_line} has bytes that are not UTF-8; it seems to be Latin-1 or Windows-1252",
            [],
            "Save it as UTF-8.",
        )
    return Form(f"{encoding} text, commas between {len(names)} columns", names)


def find_faults(path: Path, wanted: Wanted) -> Faults:
    """Read all rows of a CSV file and note what no job can use.

    Memory: the ids, and a note for each fault.
    """
    faults, first_line_of = Faults(), dict[str, int]()
    with _opened(path) as file:
        records = _records(file)
        _, names = next(records, (1, []))
        numbers = [(names.index(name), name) for name in wanted.numbers]
        texts = [(names.index(name), name) for name in wanted.texts]
        for line, record in records:
            faults.n_rows += 1
            if len(record) != len(names):
                faults.add(Kind.FIELDS, line, "", "")
                continue
            for place, name in numbers:
                if (kind := _fault_of(record[place], is_finite=wanted.is_finite)) is not None:
                    faults.add(kind, line, name, record[place])
            for place, name in texts:
                if not record[place]:
                    faults.add(Kind.NO_ID, line, name, "")
                elif name == wanted.id_column and first_line_of.setdefault(record[place], line) != line:
                    faults.add(Kind.REPEATED, line, name, record[place])
    return faults


def lines_of_rows(path: Path | None, rows: Sequence[int]) -> list[str]:
    """Return where some rows of a table stand, in ascending order: the line of a CSV file, or else the row's number."""
    if path is None:
        return [f"row {row + 1}" for row in rows]
    lines: list[str] = []
    with _opened(path) as file:
        records = _records(file)
        next(records, None)
        wanted = list(rows)
        for number, (line, _) in enumerate(records):
            while wanted and wanted[0] == number:
                lines.append(f"line {line}")
                wanted.pop(0)
            if not wanted:
                break
    return lines


def _records(file: IO[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the line in which each record begins, and its fields."""
    reader = csv.reader(file)
    line = 1
    for record in reader:
        yield line, record
        line = reader.line_num + 1


def _fault_of(text: str, *, is_finite: bool) -> Kind | None:
    if not text:
        return Kind.EMPTY
    try:
        value = float(text)
    except ValueError:
        return Kind.TEXT
    if "_" in text:  # which Python allows
        return Kind.TEXT
    return Kind.NAN if math.isnan(value) or (is_finite and math.isinf(value)) else None


def _opened(path: Path) -> IO[str]:
    open_text = gzip.open if path.suffix == ".gz" else open
    return open_text(path, "rt", encoding="utf-8-sig", errors="surrogateescape", newline="")


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


def _separator(path: Path) -> str:
    with _opened(path) as file:
        first = file.readline(_SAMPLE_BYTES)
    counts = {"commas": ",", "semicolons": ";", "tabs": "\t", "vertical bars": "|"}
    most = max(counts, key=lambda name: first.count(counts[name]))
    return most if first.count(counts[most]) else "nothing"


def _form_fix(separator: str) -> str:
    if separator in ("nothing", "commas"):
        return "Export the table again as CSV with the names of the columns in the first line."
    return f"Export it with commas instead of {separator}, and with a point in decimal numbers."
