"""Tables in Parquet files."""

from collections.abc import Iterator, Sequence

import polars as pl

from party.tables.file import NAMES_UNREADABLE, UNREADABLE, TableFile, check_names
from party.tables.source import SourceError

COLUMNS_AT_ONCE = 4
"""The reader holds several copies of what it reads at once."""


class ParquetFile(TableFile):
    """A `.parquet` file. A few columns are read at a time, so that no second copy of all of them is in memory."""

    def read(self, numbers: Sequence[str], texts: Sequence[str]) -> Iterator[pl.Series]:
        """See `TableSource`."""
        check_names(self._column_names(), (*numbers, *texts))
        before = self.version()
        batches = [numbers[start : start + COLUMNS_AT_ONCE] for start in range(0, len(numbers), COLUMNS_AT_ONCE)]
        for names in (*batches, *([name] for name in texts)):
            frame = self._columns(names)
            if self.version() != before:
                raise SourceError("its file was changed while it was read")
            for name in names:
                yield frame[name]

    def count_rows(self) -> int:
        """See `TableSource`."""
        try:
            return int(pl.scan_parquet(self.path, glob=False).select(pl.len()).collect().item())
        except (OSError, pl.exceptions.PolarsError):
            raise SourceError(UNREADABLE) from None

    def _column_names(self) -> list[str]:
        try:
            return list(pl.read_parquet_schema(self.path))
        except OSError:
            raise SourceError(UNREADABLE) from None
        except pl.exceptions.DuplicateError:
            raise SourceError("a column appears more than once in its file") from None
        except pl.exceptions.PolarsError:
            raise SourceError(NAMES_UNREADABLE) from None

    def _columns(self, names: Sequence[str]) -> pl.DataFrame:
        try:
            return pl.read_parquet(self.path, columns=list(names), glob=False)
        except (OSError, pl.exceptions.PolarsError):
            raise SourceError("its file cannot be read as Parquet") from None
