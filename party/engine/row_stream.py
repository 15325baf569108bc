"""Reads a range of the rows of a table, in their order, for a worker: nothing is kept, and nothing is checked twice.

The party has read the whole table before, for the comparison of rows, and refuses what no job can use. What a worker
reads must be of the same version of the source, at the beginning and at the end.
"""

from collections.abc import Generator

import numpy as np
from numpy.typing import NDArray

from analyses.job.schema import BlockSchema
from party.tables.config import TableConfig
from party.tables.sources.file import CHANGED, TableFile
from party.tables.sources.source import SourceError


def can_be_read_in_parts(table: TableConfig) -> bool:
    """Return whether ranges of rows of a table can be read by others than the party that has read it whole.

    The table must be in files, which tell their version; and its rows must be those of the joint table, one for one:
    rows that are identified to be matched may be left out or merged.
    """
    try:
        return table.matching is None and isinstance(table.make_source(), TableFile)
    except SourceError:
        return False


def version_of(table: TableConfig) -> str:
    """Return the version of the source of a table as text.

    Raises:
        SourceError: it cannot be found.
    """
    return repr(table.make_source().version())


class RowStream:
    """Some rows of a table, block by block; an `analyses.rows.own_rows.RowSource`.

    Args:
        table: the owner's declaration.
        schema: which columns.
        start, stop: which rows of the table; those of the stream are numbered from 0.
        version: version that the source must have, at the beginning and once the last row is read.

    Raises:
        SourceError: the source has another version, or cannot be found.
    """

    def __init__(self, table: TableConfig, schema: BlockSchema, start: int, stop: int, version: str) -> None:
        self.schema = schema
        self.n_rows = stop - start
        self._table, self._version = table, version
        self._check_version()
        self._blocks = self._read(start)
        self._left = np.empty((0, len(schema.columns)))
        self._next = 0

    def block(self, rows: slice) -> NDArray[np.float64]:
        """Return the next rows.

        Raises:
            ValueError: other rows are next.
            SourceError: the source raises it, or has changed or ended.
        """
        start, stop, _ = rows.indices(self.n_rows)
        if start != self._next:
            raise ValueError(f"row {self._next} is the next one, not row {start}")
        parts, n_parts = [self._left], len(self._left)
        while n_parts < stop - start:
            try:
                parts.append(next(self._blocks))
            except StopIteration:
                raise SourceError(CHANGED) from None
            n_parts += len(parts[-1])
        found = np.concatenate(parts) if len(parts) > 1 else parts[0]
        block, self._left = found[: stop - start], found[stop - start :]
        self._next = stop
        if stop == self.n_rows:
            self._blocks.close()
            self._check_version()
        return block

    def _read(self, start: int) -> Generator[NDArray[np.float64], None, None]:
        from party.tables.rows_of_source import read_blocks  # brings polars

        yield from read_blocks(self._table, self.schema.columns, start)

    def _check_version(self) -> None:
        if version_of(self._table) != self._version:
            raise SourceError(CHANGED)
