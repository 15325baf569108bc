"""Tables in files of comma-separated values, which may be compressed by gzip."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self

from pydantic import AfterValidator, Field, model_validator

from party.tables.sources.columnar_file import ROWS_AT_ONCE
from party.tables.sources.csv_lines import BadLine, CsvLines
from party.tables.sources.csv_text import codec_of
from party.tables.sources.file import CHANGED, NAMES_UNREADABLE, TableFile, check_names
from party.tables.sources.source import SourceError, library_errors

if TYPE_CHECKING:
    import polars as pl

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
"""What stands between columns, and how it is called."""

LONGEST_NAME = 10_000

_NUMBER = re.compile(
    r"[+-]?(\d+([.,]\d*)?|[.,]\d+)(e[+-]?\d+)?|\d{4}-\d\d-\d\d|\d\d?[./]\d\d?[./]\d{2,4}", re.IGNORECASE
)
"""A number, or a date."""

_OF_SPREADSHEETS = re.compile(r"\s*sep=.?\s*", re.IGNORECASE)


class FirstLineError(SourceError):
    """The first line does not name the columns."""


class Record(NamedTuple):
    """One row as it stands in the file: the line in which it begins, and its fields as text, empty ones too."""

    line: int
    fields: tuple[str, ...]


def _one_character(delimiter: str) -> str:
    if len(delimiter) != 1 or not "\0" < delimiter <= "\x7f":
        raise ValueError("one ASCII character stands between columns")
    return delimiter


Delimiter = Annotated[str, AfterValidator(_one_character)]


class CsvFile(TableFile):
    """A `.csv` or `.csv.gz` file whose first line names the columns; `docs/tables.md` says which lines are rows.

    Memory: some batches, whatever the number of rows and the encoding.

    Attributes:
        delimiter: the character between columns, ASCII.
        encoding: encoding of the text, one of Python's names, such as `latin-1`, `cp1252` or `utf-16`.
        decimal_comma: whether numbers have a comma before their fraction; they are quoted where one separates columns.
        thousands: what stands between groups of three digits of numbers; without, numbers with such a mark are refused.
    """

    delimiter: Delimiter = ","
    encoding: Annotated[str, Field(min_length=1)] = "utf-8"
    decimal_comma: bool = False
    thousands: Literal["", ".", ",", "'", " "] = ""

    @model_validator(mode="after")
    def _is_a_form(self) -> Self:
        if self.delimiter.isalnum() or self.delimiter in '"\r\n\x1a':
            raise ValueError(
                "delimiter: a letter, a digit, a quotation mark or a line end cannot stand between columns"
            )
        try:
            codec_of(self.encoding)
        except LookupError:
            raise ValueError(f"encoding: {self.encoding!r} is not the name of a text encoding") from None
        if self.thousands == ("," if self.decimal_comma else "."):
            raise ValueError(f"thousands: {self.thousands!r} stands before the fraction of numbers (decimal_comma)")
        return self

    @property
    def has_numbers_in_text(self) -> bool:
        """See `TableSource`."""
        return True

    @property
    def thousands_mark(self) -> str:
        """See `TableSource`."""
        return self.thousands

    @property
    def has_decimal_comma(self) -> bool:
        """See `TableSource`."""
        return self.decimal_comma

    def batches(self, numbers: Sequence[str], texts: Sequence[str]) -> Iterator["pl.DataFrame"]:
        """See `TableSource`. Lines are looked at before the library reads values (`party.tables.sources.csv_lines`)."""
        import polars as pl  # the configuration of a table is read without

        before, lines, wanted = self.version(), self.lines(), (*numbers, *texts)
        names = self.names_in(lines)
        try:
            check_names(names, wanted)
        except SourceError as error:
            doubt = why_no_names(names)
            raise SourceError(f"{error}; {doubt}" if doubt else str(error)) from None
        check_differ(names)
        place_of = {name: str(place) for place, name in enumerate(names)}
        name_of = {place_of[name]: name for name in wanted}
        # The library turns plain numbers faster than we do. Others come as text, and so do all where it would take a
        # point for a comma.
        as_text: dict[str, Any] = dict.fromkeys(name_of, pl.String)
        is_plain = not (self.decimal_comma or self.thousands)
        types = as_text | dict.fromkeys((place_of[name] for name in numbers if is_plain), pl.Float64)
        for block in lines.blocks():
            try:
                frame = self._parsed(lines, block.text, types).rename(name_of)
            except SourceError:
                frame = self._parsed(lines, block.text, as_text).rename(name_of)
            yield from frame.select(wanted).iter_slices(ROWS_AT_ONCE)
        if self.version() != before:
            raise SourceError(CHANGED)

    def records(self, noted: list[BadLine] | None = None) -> Iterator[Record]:
        """Yield the rows one by one, for the owner's eyes only.

        Args:
            noted: see `CsvLines.blocks`.

        Raises:
            SourceError: the file cannot be read, or a line is no row and none are noted.
        """
        lines = self.lines()
        for block in lines.blocks(noted):
            rows = self._parsed(lines, block.text).rows()
            for line, row in zip(block.line_numbers(), rows, strict=True):
                yield Record(line, tuple(field or "" for field in row))

    def count_rows(self) -> int:
        """See `TableSource`."""
        return sum(block.n_rows for block in self.lines().blocks())

    def column_names(self) -> list[str]:
        """Return the names of all columns of the file, repeated ones included.

        Raises:
            SourceError: it cannot be read, or its first line does not name columns.
        """
        return self.names_in(self.lines())

    def lines(self) -> CsvLines:
        """Open it and read its first line.

        Raises:
            SourceError: it cannot be read, or its first line is no row.
        """
        return CsvLines(self.path, self.delimiter, self.encoding)

    def names_in(self, lines: CsvLines) -> list[str]:
        """Return the names of the columns of the opened file.

        Raises:
            SourceError: its first line does not name columns.
        """
        first = self._parsed(lines, lines.header + lines.line_end).rows()
        names = [name or "" for name in first[0]]
        _check_form(names, self.delimiter)
        return names

    def _parsed(self, lines: CsvLines, text: bytes, types: Mapping[str, Any] | None = None) -> "pl.DataFrame":
        """Return the columns of some rows, called by their places: those with a type, or all as text where None.

        Raises:
            SourceError: a value is not of the type of its column.
        """
        import polars as pl  # the configuration of a table is read without

        schema = dict.fromkeys(map(str, range(lines.n_fields)), pl.String) | dict(types or {})
        if not text:
            return pl.DataFrame(schema=schema)
        with library_errors("its rows cannot be read"):
            return pl.read_csv(
                text,
                has_header=False,
                schema=schema,
                columns=sorted(map(int, types)) if types else None,
                separator=self.delimiter,
                eol_char=lines.line_end.decode(),
            )


class TabbedFile(CsvFile):
    """A `.tsv` or `.tsv.gz` file: the same with tabs between columns."""

    delimiter: Delimiter = "\t"


def likeliest_delimiter(header: bytes) -> str | None:
    """Return what stands most often between the names of a first line, outside of quoted ones; None for nothing."""
    bare = re.sub(rb'"[^"]*"', b"", header)
    most = max(SEPARATORS, key=lambda one: bare.count(one.encode()))
    return most if most.encode() in bare else None


def check_differ(names: Sequence[str]) -> None:
    """Refuse a first line that names two columns alike, or several not at all.

    Raises:
        FirstLineError: it does.
    """
    if names.count("") > 1:
        raise FirstLineError("its first line leaves several columns without a name")
    for name, times in Counter(names).items():
        if times > 1:
            raise FirstLineError(f"column {name!r} appears more than once in its file")


def why_no_names(names: Sequence[str]) -> str | None:
    """Return why a first line seems to hold no names, for whoever cannot ask for the names that its owner declares.

    Whole numbers may be names, as years are, and as programs number columns; a row of texts cannot be told from names.
    """
    if names[0].lstrip().startswith(("#", "//", "--")):
        return "its first line seems to be a comment and not to name the columns"
    numbers = [name.strip() for name in names if _NUMBER.fullmatch(name.strip())]
    whole = [int(one) for one in numbers if one.isascii() and one.isdigit()]
    is_numbered = bool(whole) and whole[0] in (0, 1) and whole == list(range(whole[0], whole[0] + len(whole)))
    if len(whole) < len(numbers) or not (is_numbered or all(1800 <= one < 2200 for one in whole)):
        return "its first line seems to be a row, for it has numbers in it, and not to name the columns"
    return None


def _check_form(names: Sequence[str], delimiter: str) -> None:
    """Refuse a first line that shows that the file is empty, separated by something else, or begins otherwise.

    Raises:
        FirstLineError: says which.
    """
    if any(len(name) > LONGEST_NAME for name in names):
        raise FirstLineError(f"{NAMES_UNREADABLE}: one is longer than {LONGEST_NAME} letters")
    if not any(name.strip() for name in names):
        raise FirstLineError("its file is empty, or its first line does not name the columns")
    if _OF_SPREADSHEETS.fullmatch(delimiter.join(names)):
        raise FirstLineError("its first line, sep=, is one for spreadsheets and does not name the columns: remove it")
    if len(names) == 1:
        for separator, what in SEPARATORS.items():
            if separator != delimiter and separator in names[0]:
                raise FirstLineError(f"its columns are separated by {what}; declare that as `delimiter` of its source")
