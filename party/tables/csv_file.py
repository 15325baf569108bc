"""Tables in files of comma-separated values, which may be compressed by gzip."""

import csv
import gzip
import zlib
from collections.abc import Iterator, Sequence

import polars as pl

from party.tables.file import NAMES_UNREADABLE, UNREADABLE, TableFile, check_names
from party.tables.source import SourceError

_UTF_16_MARKS = ("\udcff\udcfe", "\udcfe\udcff")
"""The byte order marks of UTF-16, as they are read here."""

_OTHER_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "vertical bars"}


class CsvFile(TableFile):
    """A `.csv` or `.csv.gz` file in UTF-8 whose first line names the columns.

    Memory: all columns that are wanted are read at once; of a compressed file, its text too.
    """

    def read(self, numbers: Sequence[str], texts: Sequence[str]) -> Iterator[pl.Series]:
        """See `TableSource`.

        The last column of the file is read in any case: only then does the reader notice lines with too many fields, in
        which values stand in the wrong columns.
        """
        present = self.column_names()
        check_names(present, (*numbers, *texts))
        types: dict[str, type[pl.DataType]] = {present[-1]: pl.String, **dict.fromkeys(numbers, pl.Float64)}
        types |= dict.fromkeys(texts, pl.String)
        try:
            frame = pl.read_csv(self.path, columns=list(types), schema_overrides=types, glob=False)
        except (OSError, pl.exceptions.PolarsError):
            raise self._reason_of_failure(numbers) from None
        for name in (*numbers, *texts):
            yield frame[name]

    def count_rows(self) -> int:
        """See `TableSource`."""
        try:
            return int(pl.scan_csv(self.path, glob=False).select(pl.len()).collect().item())
        except (OSError, pl.exceptions.PolarsError):
            raise SourceError(UNREADABLE) from None

    def column_names(self) -> list[str]:
        """Return the names of all columns of the file, repeated ones included.

        Raises:
            SourceError: it cannot be read, or its first line does not name columns.
        """
        open_text = gzip.open if self.path.suffix == ".gz" else open
        try:
            # Text decoding runs ahead of the first line: bad bytes further down are for the reader of the rows to find.
            with open_text(self.path, "rt", encoding="utf-8-sig", errors="surrogateescape", newline="") as lines:
                names = next(csv.reader(lines), [])
        except (OSError, EOFError, zlib.error):
            raise SourceError(UNREADABLE) from None
        except csv.Error:
            raise SourceError(NAMES_UNREADABLE) from None
        _check_form(names)
        return names

    def _reason_of_failure(self, numbers: Sequence[str]) -> SourceError:
        """Find the column that is not numeric, if that is why the file could not be read; one by one to save memory."""
        for name in numbers:
            try:
                text = pl.read_csv(self.path, columns=[name], infer_schema=False, glob=False)[name]
            except (OSError, pl.exceptions.PolarsError):
                break
            if text.str.strip_chars().cast(pl.Float64, strict=False).null_count() > text.null_count():
                return SourceError(f"column {name!r} is not numeric")
        return SourceError("its file cannot be read: lines with too many fields, or bytes that are not UTF-8 text")


def _check_form(names: Sequence[str]) -> None:
    """Refuse a file whose first line shows that it is empty, in another encoding, or separated by something else.

    Raises:
        SourceError: says which.
    """
    if not any(names):
        raise SourceError("its file is empty, or its first line does not name the columns")
    if names[0].startswith(_UTF_16_MARKS):
        raise SourceError("its file is UTF-16 text; save it as UTF-8")
    if len(names) == 1:
        for separator, what in _OTHER_SEPARATORS.items():
            if separator in names[0]:
                raise SourceError(f"its columns are separated by {what}; save it with commas between the columns")
