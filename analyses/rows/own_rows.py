"""A member's own rows of the joint table as the integers that it shares, and its private counts of what was clipped."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from analyses.job.schema import LocalReport, Table
from analyses.rows.surplus import n_surplus


class OwnRows(ABC):
    """My rows, block by block. Rows that do not count are zero, in all columns.

    Args:
        table: mine.
        counting: which rows count, shape (rows,); None where all do.
        clipped: names of the columns whose values are clipped to their public bounds.
    """

    def __init__(self, table: Table, counting: NDArray[np.bool_] | None, clipped: Sequence[str]) -> None:
        self._table, self._counting, self._clipped = table, counting, clipped
        self._outside = np.zeros(len(clipped), dtype=np.int64)
        self._clipped_rows = 0

    @abstractmethod
    def quantise(self, values: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
        """Turn rows of my table into integers.

        Returns:
            shape (rows, what I bring per row); per clipped column, how many values lay outside its bounds; how many
            rows exceeded my norm bound.
        """

    def __call__(self, rows: slice) -> NDArray[np.int64]:
        """Return some rows as integers; to be called once for each, as it counts."""
        integers, outside, clipped = self.quantise(self._table.block(rows))
        self._outside += outside
        self._clipped_rows += clipped
        if self._counting is not None:
            integers[~self._counting[rows]] = 0
        return integers

    def mapped_values(self) -> dict[str, int]:
        """Return per column that has a rule for it, how many values were mapped."""
        return {}

    def report(self) -> LocalReport:
        """Return the private counts of this party's values."""
        outside = dict(zip(self._clipped, self._outside.tolist(), strict=True))
        surplus = n_surplus(self._counting)
        return LocalReport(self._table.n_rows, outside, self._clipped_rows, self.mapped_values(), surplus)


def report_of(mine: OwnRows | None, n_rows: int) -> LocalReport:
    """Return the private counts of a member; zeros where it brings no rows."""
    return LocalReport(n_rows, {}, 0) if mine is None else mine.report()
