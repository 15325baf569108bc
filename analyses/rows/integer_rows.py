"""The rows of an owner that brings columns of integers, mapped to valid values block by block."""

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from analyses.job.schema import Table
from analyses.rows.integer_column import Integers, JoinedColumns, clipped_counts
from analyses.rows.own_rows import OwnRows


class IntegerRows(OwnRows):
    """My rows of columns of integers. Rows that do not count are zero.

    Args:
        table: mine.
        counting: which rows count, shape (rows,); None where all do.
    """

    def __init__(self, table: Table, counting: NDArray[np.bool_] | None) -> None:
        self._names = [one.name for one in table.schema.columns]
        super().__init__(table, counting, self._names)
        self._n_mapped = np.zeros(len(self._names), dtype=np.int64)

    def quantise(self, values: NDArray[np.float64]) -> tuple[Integers, Integers, int]:
        """Map some rows; see `OwnRows.quantise`. No row has a norm bound."""
        integers, n_clipped, n_mapped = self.mapped(values)
        self._n_mapped += n_mapped
        return integers, np.full(values.shape[1], n_clipped, dtype=np.int64), 0

    @abstractmethod
    def mapped(self, values: NDArray[np.float64]) -> tuple[Integers, int, Integers | int]:
        """Return what I bring, one entry of the first axis per row; how many values were clipped; how many mapped.

        The last is one number for all columns, or one for each, shape (columns,).

        Args:
            values: values of some rows, shape (rows, columns).
        """

    def mapped_values(self) -> dict[str, int]:
        """Return how many values were mapped by the rule of `analyses.rows.integer_column`."""
        return dict(zip(self._names, self._n_mapped.tolist(), strict=True))


class IndicatorRows(IntegerRows):
    """Indicators of all categories but the last, for each row, shape (rows, n_values - 1).

    Args:
        column: my columns.
        table, counting: see `IntegerRows`.
    """

    def __init__(self, column: JoinedColumns, table: Table, counting: NDArray[np.bool_] | None) -> None:
        super().__init__(table, counting)
        self._column = column

    @property
    def row_shape(self) -> tuple[int, ...]:
        """See `OwnRows`."""
        return (self._column.n_values - 1,)

    def mapped(self, values: NDArray[np.float64]) -> tuple[Integers, int, Integers | int]:
        """See `JoinedColumns.places`."""
        places, n_mapped = self._column.places(values)
        return indicators(places, self._column.n_values - 1), 0, n_mapped


class CountRows(IntegerRows):
    """Count of each row, shape (rows,).

    Args:
        most: the largest that counts; larger ones become it.
        table, counting: see `IntegerRows`.
    """

    def __init__(self, most: int, table: Table, counting: NDArray[np.bool_] | None) -> None:
        super().__init__(table, counting)
        self._most = most

    @property
    def row_shape(self) -> tuple[int, ...]:
        """See `OwnRows`."""
        return ()

    def mapped(self, values: NDArray[np.float64]) -> tuple[Integers, int, int]:
        """See `clipped_counts`."""
        return clipped_counts(values[:, 0], self._most)


def indicators(places: Integers, n_indicators: int) -> Integers:
    """Return a row of indicators of each place, shape (places, n_indicators); further places and -1 have none."""
    found: Integers = (places[:, None] == np.arange(n_indicators)).astype(np.int64)
    return found
