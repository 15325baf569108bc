"""The seam for places where a table's rows lie: `TableSource`. Its kinds are listed in `party.tables.registry`.

What a table is called, which columns it has, their bounds and who is named by its rows stands in the configuration, and
is described from there: no source is asked for it. A source is asked for rows only when a job has been admitted.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence

import polars as pl

from service.settings import Settings


class SourceError(Exception):
    """A source cannot give what a job needs. The text is for the owner's log alone.

    It may name columns, and never a value, a row number, a count, a path or the text of a connection. An error of the
    library that reads quotes such things, so a source raises this one instead, `from None`. Any other error of a source
    is logged by the name of its type only.
    """


class TableSource(Settings, ABC):
    """Where the rows of one table lie. Its fields are the section of the configuration that describes it.

    To make one opens nothing. Methods may block, and are called from threads of their own.
    """

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

    @abstractmethod
    def read(self, numbers: Sequence[str], texts: Sequence[str]) -> Iterator[pl.Series]:
        """Yield columns, one after the other, all with the same rows in the same order.

        What must hold for every table is checked by the caller: types, equal lengths, empty values, NaN, repeated ids.

        Args:
            numbers: names of columns that hold numbers or truth values; they are yielded first, in this order.
            texts: names of columns that hold text or whole numbers; they are yielded after them, in this order.

        Raises:
            SourceError: a column is missing, or the rows cannot be read or were changed meanwhile.
        """

    @abstractmethod
    def count_rows(self) -> int:
        """Return the number of rows, for the owner's eyes only.

        Raises:
            SourceError: they cannot be read.
        """
