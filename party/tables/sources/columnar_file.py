"""Tables in files that hold columns and their types: Parquet and Arrow, one file or a folder of them."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field

from party.tables.sources.file import CHANGED, NAMES_UNREADABLE, UNREADABLE, TableFile, check_names, fingerprint
from party.tables.sources.source import SourceError

if TYPE_CHECKING:
    import polars as pl

ROWS_AT_ONCE = 1 << 14
"""Of a batch. The reader holds several batches at once, and of a Parquet file the row groups that it decodes."""


ROWS_PER_SCAN = 1 << 18
"""Rows that one scan is asked for: a reader maps and prefetches more than it needs, and lets go of it at the end."""


class ColumnarFile(TableFile):
    """One file, or a folder whose files hold the rows one after the other, in the order of their names.

    Memory: what one scan holds, whatever the number of rows, and in a Parquet file some of its row groups.

    Attributes:
        pattern: which files of a folder; all of its own format where absent. Without meaning where `path` is a file.
    """

    ending: ClassVar[str]
    pattern: Annotated[str, Field(min_length=1)] | None = None

    def version(self) -> tuple[tuple[str, tuple[int, int, int]], ...]:
        """See `TableSource`: it changes when a file is changed, replaced, added or taken away."""
        return tuple((path.name, fingerprint(path)) for path in self.files())

    def files(self) -> list[Path]:
        """Return the files in the order of their rows.

        Raises:
            SourceError: there is none.
        """
        if not self.path.is_dir():
            return [self.path]
        try:
            found = sorted(path for path in self.path.glob(self.pattern or f"*{self.ending}") if path.is_file())
        except (OSError, ValueError, NotImplementedError):
            raise SourceError(UNREADABLE) from None
        if not found:
            raise SourceError("its folder holds no file of the pattern")
        return found

    def batches(self, numbers: Sequence[str], texts: Sequence[str]) -> Iterator["pl.DataFrame"]:
        """See `TableSource`."""
        return self.batches_from(0, numbers, texts)

    def batches_from(self, start: int, numbers: Sequence[str], texts: Sequence[str]) -> Iterator["pl.DataFrame"]:
        """See `TableSource`: of rows before, at most those of one row group are decoded."""
        import polars as pl  # the configuration of a table is read without

        before, files, wanted = self.version(), self.files(), (*numbers, *texts)
        for path in files:
            check_names(list(self.schema_of(path)), wanted)
        self._check_types(files, wanted)
        for path in files:
            try:
                rows = self.scan(path).select(wanted)
                height = self._height(path)
                for first in range(min(start, height), height, ROWS_PER_SCAN):
                    part = rows.slice(first, ROWS_PER_SCAN)
                    yield from part.collect_batches(chunk_size=ROWS_AT_ONCE, lazy=True)
                start = max(0, start - height)
            except (OSError, pl.exceptions.PolarsError):
                raise SourceError(f"its file cannot be read as {self.ending.removeprefix('.').capitalize()}") from None
            if self.version() != before:
                raise SourceError(CHANGED)

    def count_rows(self) -> int:
        """See `TableSource`."""
        import polars as pl  # the configuration of a table is read without

        try:
            return sum(self._height(path) for path in self.files())
        except (OSError, pl.exceptions.PolarsError):
            raise SourceError(UNREADABLE) from None

    def schema_of(self, path: Path) -> "pl.Schema":
        """Return names and types of the columns of a file, from its own description; no value is read.

        Raises:
            SourceError: they cannot be read.
        """
        import polars as pl  # the configuration of a table is read without

        try:
            return self.described(path)
        except OSError:
            raise SourceError(UNREADABLE) from None
        except pl.exceptions.DuplicateError:
            raise SourceError("a column appears more than once in its file") from None
        except pl.exceptions.PolarsError:
            raise SourceError(NAMES_UNREADABLE) from None

    @staticmethod
    @abstractmethod
    def described(path: Path) -> "pl.Schema":
        """Return what a file says of its columns; polars and the file system may raise."""

    @staticmethod
    @abstractmethod
    def scan(path: Path) -> "pl.LazyFrame":
        """Return a file as what polars reads when it is collected."""

    def _height(self, path: Path) -> int:
        import polars as pl  # the configuration of a table is read without

        return int(self.scan(path).select(pl.len()).collect().item())

    def _check_types(self, files: Sequence[Path], wanted: Sequence[str]) -> None:
        """Refuse files of which one has text where another has numbers.

        Raises:
            SourceError: names such columns.
        """
        import polars as pl  # the configuration of a table is read without

        described = [self.schema_of(path) for path in files]
        for name in wanted:
            try:
                pl.concat([pl.DataFrame(schema={name: one[name]}) for one in described], how="vertical_relaxed")
            except pl.exceptions.SchemaError:
                raise SourceError(f"its files do not agree in the type of {name!r}") from None


class ParquetFile(ColumnarFile):
    """A `.parquet` file, or a folder of them."""

    ending = ".parquet"

    @staticmethod
    def described(path: Path) -> "pl.Schema":
        """See `ColumnarFile`."""
        import polars as pl  # the configuration of a table is read without

        return pl.Schema(pl.read_parquet_schema(path))

    @staticmethod
    def scan(path: Path) -> "pl.LazyFrame":
        """See `ColumnarFile`."""
        import polars as pl  # the configuration of a table is read without

        return pl.scan_parquet(path, glob=False)


class ArrowFile(ColumnarFile):
    """A `.arrow` file, the Arrow IPC file format, also called Feather version 2; or a folder of them."""

    ending = ".arrow"

    @staticmethod
    def described(path: Path) -> "pl.Schema":
        """See `ColumnarFile`."""
        import polars as pl  # the configuration of a table is read without

        return pl.Schema(pl.read_ipc_schema(path))

    @staticmethod
    def scan(path: Path) -> "pl.LazyFrame":
        """See `ColumnarFile`."""
        import polars as pl  # the configuration of a table is read without

        return pl.scan_ipc(path, glob=False)
