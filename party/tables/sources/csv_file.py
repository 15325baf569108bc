"""Tables in files of comma-separated values, which may be compressed by gzip."""

import codecs
import csv
import gzip
import zlib
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Self

from pydantic import Field, model_validator

from party.tables.sources.columnar_file import ROWS_AT_ONCE
from party.tables.sources.file import CHANGED, NAMES_UNREADABLE, UNREADABLE, TableFile, check_names
from party.tables.sources.source import SourceError

if TYPE_CHECKING:
    import polars as pl

_UTF_16_MARKS = ("\udcff\udcfe", "\udcfe\udcff")
"""The byte order marks of UTF-16, as they are read here."""

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
"""What stands between columns, and how it is called."""


class CsvFile(TableFile):
    """A `.csv` or `.csv.gz` file whose first line names the columns.

    Memory: some batches, whatever the number of rows; of a file that is not UTF-8, its text besides.

    Attributes:
        delimiter: the character between columns.
        encoding: of the text, by one of Python's names, such as `latin-1`, `cp1252` or `utf-16`.
        decimal_comma: whether numbers have a comma before their fraction.
    """

    delimiter: Annotated[str, Field(pattern=r"^[^\"\r\n0-9A-Za-z]$")] = ","
    encoding: Annotated[str, Field(min_length=1)] = "utf-8"
    decimal_comma: bool = False

    @model_validator(mode="after")
    def _is_a_form(self) -> Self:
        try:
            if not codecs.lookup(self.encoding)._is_text_encoding:
                raise LookupError
        except LookupError:
            raise ValueError(f"encoding: {self.encoding!r} is not the name of a text encoding") from None
        if self.decimal_comma and self.delimiter == ",":
            raise ValueError("decimal_comma, delimiter: a comma cannot stand between columns and within numbers")
        return self

    @property
    def has_decimal_comma(self) -> bool:
        """See `TableSource`."""
        return self.decimal_comma

    @property
    def is_utf_8(self) -> bool:
        """Whether its text is declared to be UTF-8, of which ASCII is a part."""
        return codecs.lookup(self.encoding).name in ("utf-8", "utf-8-sig", "ascii")

    def batches(self, numbers: Sequence[str], texts: Sequence[str]) -> Iterator["pl.DataFrame"]:
        """See `TableSource`.

        All columns of the file are read: only then does the reader notice lines with too many fields, in which values
        stand in the wrong columns.
        """
        import polars as pl  # the configuration of a table is read without

        present, wanted = self.column_names(), (*numbers, *texts)
        check_names(present, wanted)
        types = dict.fromkeys(numbers, pl.Float64)
        before = self.version()
        try:
            scanned = self._scanned(infer_schema=False, schema_overrides=types)
            for batch in scanned.collect_batches(chunk_size=ROWS_AT_ONCE, lazy=True):
                yield batch.select(wanted)
        except (OSError, EOFError, zlib.error, UnicodeError, pl.exceptions.PolarsError):
            raise self._reason_of_failure(numbers) from None
        if self.version() != before:
            raise SourceError(CHANGED)

    def count_rows(self) -> int:
        """See `TableSource`."""
        import polars as pl  # the configuration of a table is read without

        try:
            return int(self._scanned(infer_schema=False).select(pl.len()).collect().item())
        except (OSError, EOFError, zlib.error, UnicodeError, pl.exceptions.PolarsError):
            raise SourceError(UNREADABLE) from None

    def open_text(self) -> IO[str]:
        """Open it as text; bytes that are none are replaced, for readers that report them.

        Raises:
            OSError: it cannot be opened.
        """
        opened = gzip.open if self.path.suffix == ".gz" else open
        encoding = "utf-8-sig" if self.is_utf_8 else self.encoding
        return opened(self.path, "rt", encoding=encoding, errors="surrogateescape", newline="")

    def column_names(self) -> list[str]:
        """Return the names of all columns of the file, repeated ones included.

        Raises:
            SourceError: it cannot be read, or its first line does not name columns.
        """
        try:
            # Text decoding runs ahead of the first line: bad bytes further down are for the reader of the rows to find.
            with self.open_text() as lines:
                names = next(csv.reader(lines, delimiter=self.delimiter), [])
        except (OSError, EOFError, zlib.error):
            raise SourceError(UNREADABLE) from None
        except (csv.Error, UnicodeError):
            raise SourceError(NAMES_UNREADABLE) from None
        _check_form(names, self.delimiter)
        return names

    def _scanned(self, **options: Any) -> "pl.LazyFrame":
        """Return it as the library reads it, which knows UTF-8 only: other text is turned into that in memory."""
        import polars as pl  # the configuration of a table is read without

        source: Path | BytesIO = self.path
        if not self.is_utf_8:
            opened = gzip.open if self.path.suffix == ".gz" else open
            with opened(self.path, "rt", encoding=self.encoding, newline="") as text:
                source = BytesIO(text.read().encode())
        return pl.scan_csv(source, separator=self.delimiter, decimal_comma=self.decimal_comma, glob=False, **options)

    def _reason_of_failure(self, numbers: Sequence[str]) -> SourceError:
        """Find the column that is not numeric, if that is why the file could not be read; one by one to save memory."""
        import polars as pl  # the configuration of a table is read without

        for name in numbers:
            try:
                text = self._scanned(infer_schema=False).select(name).collect()[name].str.strip_chars()
            except (OSError, EOFError, zlib.error, UnicodeError, pl.exceptions.PolarsError):
                break
            plain = text.str.replace(",", ".", literal=True) if self.decimal_comma else text
            if plain.cast(pl.Float64, strict=False).null_count() > text.null_count():
                return SourceError(f"column {name!r} is not numeric")
        declared = "UTF-8" if self.is_utf_8 else self.encoding
        return SourceError(
            f"its file cannot be read: lines with too many fields, or bytes that are not {declared} text"
        )


def _check_form(names: Sequence[str], delimiter: str) -> None:
    """Refuse a file whose first line shows that it is empty, in another encoding, or separated by something else.

    Raises:
        SourceError: says which.
    """
    if not any(names):
        raise SourceError("its file is empty, or its first line does not name the columns")
    if names[0].startswith(_UTF_16_MARKS):
        raise SourceError('its file is UTF-16 text; declare encoding = "utf-16", or save it as UTF-8')
    if len(names) == 1:
        for separator, what in SEPARATORS.items():
            if separator != delimiter and separator in names[0]:
                raise SourceError(f"its columns are separated by {what}; declare that as `delimiter` of its source")
