"""The seam for sources of a table's rows: `TableSource`. Its kinds are listed in `party.tables.sources.registry`.

What a table is called, which columns it has, their bounds and who is named by its rows stands in the configuration, and
is described from there: no source is asked for it. A source is asked for rows only when a job has been admitted.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from service.settings import Settings

if TYPE_CHECKING:
    import polars as pl


NO_ROWS = "it has no rows"


class SourceError(Exception):
    """A source cannot give what a job needs. The text is for the owner's log alone.

    It may name columns, one of several files by its last name, and the line of a file that is no row, and never a
    value, the number of a row, how many rows there are, a path or the text of a connection. An error of the library
    that reads quotes such things, so a source raises this one instead, `from None`. Any other error of a source is
    logged by the name of its type only.
    """

    code: str = "table-source-failed"


@contextmanager
def library_errors(what: str) -> Iterator[None]:
    """Raise whatever polars raises as an error of the source, in our words; its panics are no `Exception`.

    Raises:
        SourceError: with this text, or, where a column is there twice, with one that says so.
    """
    import polars as pl  # the configuration of a table is read without

    try:
        yield
    except pl.exceptions.DuplicateError:
        raise SourceError("a column appears more than once in its file") from None
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException):
        raise SourceError(what) from None


class TableSource(Settings, ABC):
    """Where the rows of one table are stored. Its fields are the section of the configuration that describes it.

    To make one opens nothing. Methods may block, and are called from threads of their own.
    """

    @property
    def has_decimal_comma(self) -> bool:
        """Whether numbers within texts have a comma before their fraction."""
        return False

    @property
    def has_numbers_in_text(self) -> bool:
        """Whether numbers come as text, because the source has nothing else."""
        return False

    @property
    def thousands_mark(self) -> str:
        """What stands between groups of three digits of numbers within texts; empty for nothing."""
        return ""

    @abstractmethod
    def is_there(self) -> bool:
        """Return whether it can be found, for a warning at the start of the service. Must not read rows."""

    @abstractmethod
    def version(self) -> Hashable | None:
        """Return a value that differs whenever the rows may have changed; None if nobody can tell.

        A table that was read is kept for the next job on the same columns as long as its version stays.

        Raises:
            SourceError: it cannot be found.
        """

    def data(self) -> frozenset[str]:
        """Return names of all that it reads. Two sources that have one in common read the same data. Reads no row.

        By default its own section: then only equal sections are seen to read the same.

        Raises:
            SourceError: it cannot be found.
        """
        return frozenset((f"{type(self).__name__} {self.model_dump_json()}",))

    @abstractmethod
    def batches(self, numbers: Sequence[str], texts: Sequence[str]) -> Iterator["pl.DataFrame"]:
        """Yield the rows, some at a time, in order: of one state of the source, as far as it can tell.

        What must hold for every table is checked by the caller: types, empty values, NaN, repeated ids.

        Args:
            numbers: names of columns that hold numbers or truth values; as text where `has_numbers_in_text`.
            texts: names of columns that are taken as they are: of the source's own type, or text where it has nothing
                but text.

        Yields:
            The columns in this order, numbers first; a batch may be empty.

        Raises:
            SourceError: a column is missing, or the rows cannot be read or were changed meanwhile.
        """

    def batches_from(self, start: int, numbers: Sequence[str], texts: Sequence[str]) -> Iterator["pl.DataFrame"]:
        """Yield the rows from a number on, as `batches`; by default those before are read and thrown away."""
        for batch in self.batches(numbers, texts):
            if start < batch.height:
                yield batch[start:]
            start = max(0, start - batch.height)

    def read(self, numbers: Sequence[str], texts: Sequence[str]) -> Iterator["pl.Series"]:
        """Yield whole columns, one after the other, for what needs all rows at once; as `batches`."""
        import polars as pl  # the configuration of a table is read without

        parts = list(self.batches(numbers, texts))
        if not parts:
            raise SourceError(NO_ROWS)
        frame = pl.concat(parts, how="vertical_relaxed")
        parts.clear()
        for name in (*numbers, *texts):
            yield frame.drop_in_place(name)

    @abstractmethod
    def count_rows(self) -> int:
        """Return the number of rows, for the owner's eyes only.

        Raises:
            SourceError: they cannot be read.
        """
