"""The rows of an owner that brings one column of integers, mapped to valid values block by block."""

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from analyses.job.schema import Table
from analyses.rows.integer_column import IntegerColumn, Integers, clipped_counts
from analyses.rows.own_rows import OwnRows


class IntegerRows(OwnRows):
    """My rows of one column of integers. Rows that do not count are zero.

    Args:
        column: its public bounds.
        table: mine.
        counting: which rows count, shape (rows,); None where all do.
    """

    def __init__(self, column: IntegerColumn, table: Table, counting: NDArray[np.bool_] | None) -> None:
        self._names = [one.name for one in table.schema.columns]
        super().__init__(table, counting, self._names)
        self._column = column
        self._n_mapped = 0

    def quantise(self, values: NDArray[np.float64]) -> tuple[Integers, Integers, int]:
        """Map some rows; see `OwnRows.quantise`. No row has a norm bound."""
        integers, n_clipped, n_mapped = self.mapped(values)
        self._n_mapped += n_mapped
        return integers, np.full(values.shape[1], n_clipped, dtype=np.int64), 0

    @abstractmethod
    def mapped(self, values: NDArray[np.float64]) -> tuple[Integers, int, int]:
        """Return what I bring, one entry of the first axis per row; how many rows were clipped; how many mapped.

        Args:
            values: values of some rows, shape (rows, columns).
        """

    def mapped_values(self) -> dict[str, int]:
        """Return how many values were mapped by the rule of `analyses.rows.integer_column`."""
        return dict.fromkeys(self._names, self._n_mapped)


class IndicatorRows(IntegerRows):
    """Indicators of all categories but the last, for each row, shape (rows, n_values - 1)."""

    @property
    def row_shape(self) -> tuple[int, ...]:
        """See `OwnRows`."""
        return (self._column.n_values - 1,)

    def mapped(self, values: NDArray[np.float64]) -> tuple[Integers, int, int]:
        """See `IntegerColumn.places`."""
        places, n_mapped = self._column.places(values)
        return indicators(places, self._column.n_values - 1), 0, n_mapped


class CountRows(IntegerRows):
    """Count of each row, shape (rows,).

    Args:
        column, table, counting: see `IntegerRows`.
        most: the largest that counts; larger ones become it.
    """

    def __init__(self, column: IntegerColumn, most: int, table: Table, counting: NDArray[np.bool_] | None) -> None:
        super().__init__(column, table, counting)
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
