"""Tables in files that hold columns and their types: Parquet and Arrow, one file or a folder of them."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field

from party.tables.sources.apart import FRAME, ReadApart, asked
from party.tables.sources.file import (
    NAMES_UNREADABLE,
    UNREADABLE,
    TableFile,
    check_names,
    check_no_lake,
    check_regular,
    data_of_file,
    fingerprint,
)
from party.tables.sources.first_bytes import ARROW, HEAD_BYTES, PARQUET, known_kind
from party.tables.sources.source import SourceError, library_errors

if TYPE_CHECKING:
    import polars as pl

ROWS_AT_ONCE = 1 << 14
"""Rows of a batch. The reader holds several batches at once, and of a Parquet file the row groups that it decodes."""


ROWS_PER_SCAN = 1 << 18
"""Rows that one scan is asked for: a reader maps and prefetches more than it needs, and lets go of it at the end."""


class ColumnarFile(ReadApart, TableFile):
    """One file, or a folder whose files hold the rows one after the other, in the order of their names.

    Memory: what one scan holds, whatever the number of rows, and in a Parquet file some of its row groups.

    Attributes:
        pattern: which files of a folder; all of its own format where absent. Without meaning where `path` is a file.
    """

    ending: ClassVar[str]
    format: ClassVar[str]
    begin: ClassVar[bytes]
    pattern: Annotated[str, Field(min_length=1)] | None = None

    def version(self) -> tuple[tuple[str, tuple[int, int, int]], ...]:
        """See `TableSource`: it changes when a file is changed, replaced, added or taken away."""
        return tuple((path.name, fingerprint(path)) for path in self.files())

    def data(self) -> frozenset[str]:
        """See `TableSource`."""
        return frozenset().union(*map(data_of_file, self.files()))

    def files(self) -> list[Path]:
        """Return the files in the order of their rows.

        Raises:
            SourceError: there is none, or they are of a lake.
        """
        try:
            if not self.path.is_dir():
                return [self.path]
            found = sorted(path for path in self.path.glob(self.pattern or f"*{self.ending}") if path.is_file())
        except (OSError, ValueError, NotImplementedError):
            raise SourceError(UNREADABLE) from None
        if not found:
            raise SourceError("its folder holds no file of the pattern")
        check_no_lake(found)
        return found

    def rows_here(self, start: int, numbers: Sequence[str], texts: Sequence[str]) -> Iterator["pl.DataFrame"]:
        """See `ReadApart`: of rows before `start`, at most those of one row group are decoded."""
        files, wanted = self.files(), (*numbers, *texts)
        described = {path: self.schema_of(path) for path in files}
        for path in files:
            check_names(list(described[path]), wanted)
        _check_types(described, wanted)
        for path in files:
            with library_errors(f"{self._called(path)} cannot be read as {self.format}"):
                rows = self.scan(path).select(wanted)
                height = self._height(path)
                for first in range(min(start, height), height, ROWS_PER_SCAN):
                    part = rows.slice(first, ROWS_PER_SCAN)
                    yield from part.collect_batches(chunk_size=ROWS_AT_ONCE, lazy=True)
                start = max(0, start - height)

    def count_here(self) -> int:
        """See `ReadApart`."""
        files = self.files()
        for path in files:
            self.schema_of(path)
        with library_errors(UNREADABLE):
            return sum(map(self._height, files))

    def types(self) -> "pl.Schema":
        """Return names and types of the columns of the first file; no value is read.

        Raises:
            SourceError: they cannot be read.
        """
        frame: pl.DataFrame = next(content for kind, content in asked(self, "types") if kind == FRAME)
        return frame.schema

    def empty_here(self) -> "pl.DataFrame":
        """Return a frame of these types without rows, in the child."""
        return self.schema_of(self.files()[0]).to_frame()

    def schema_of(self, path: Path) -> "pl.Schema":
        """Return names and types of the columns of a file, from its own description; no value is read. In the child.

        Raises:
            SourceError: they cannot be read.
        """
        self.check_kind(path)
        what = "is damaged or cut, or has a type or a time zone that cannot be read"
        with library_errors(f"{NAMES_UNREADABLE}: {self._called(path)} {what}"):
            return self.described(path)

    def check_kind(self, path: Path) -> None:
        """Refuse a file that is of another kind by its first bytes, whatever its name says.

        Raises:
            SourceError: it is, or cannot be opened.
        """
        check_regular(path)
        try:
            with path.open("rb") as file:
                head = file.read(HEAD_BYTES)
        except OSError:
            raise SourceError(UNREADABLE) from None
        if not head.startswith(self.begin):
            what = "is empty" if not head else f"is {known_kind(head) or 'something else'}, not {self.format}"
            raise SourceError(f"{NAMES_UNREADABLE}: {self._called(path)} {what}")

    def _called(self, path: Path) -> str:
        """Return how to speak of a file: of several, by its name."""
        return "its file" if path == self.path else path.name

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


def _check_types(described: Mapping[Path, "pl.Schema"], wanted: Sequence[str]) -> None:
    """Refuse files of which one has text where another has numbers.

    Raises:
        SourceError: names such columns.
    """
    import polars as pl  # the configuration of a table is read without

    for name in wanted:
        try:
            pl.concat([pl.DataFrame(schema={name: one[name]}) for one in described.values()], how="vertical_relaxed")
        except (pl.exceptions.SchemaError, pl.exceptions.PanicException):
            raise SourceError(f"its files do not agree in the type of {name!r}") from None


class ParquetFile(ColumnarFile):
    """A `.parquet` file, or a folder of them."""

    ending, format, begin = ".parquet", "Parquet", PARQUET

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

    ending, format, begin = ".arrow", "Arrow", ARROW

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
