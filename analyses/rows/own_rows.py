"""A member's own rows of the joint table as the integers that it shares, and its private counts of what was clipped."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from analyses.job.schema import BlockSchema, LocalReport, Table
from analyses.rows.own_values import zeros_if_raised
from analyses.rows.surplus import n_surplus


class RowSource(Protocol):
    """Rows of a party as they are asked for, each once: a table, or what a worker reads of one."""

    @property
    def schema(self) -> BlockSchema:
        """The public part."""

    @property
    def n_rows(self) -> int:
        """Number of rows. It is known to the parties only."""

    def block(self, rows: slice) -> NDArray[np.float64]:
        """Return some rows, shape (rows, columns); asked for in their order."""


class Quantising(Protocol):
    """A plan that says how rows become integers: `RowPlan`."""

    def width_of(self, member: int) -> int:
        """Return how many integers an owner brings per row."""

    def quantise(self, member: int, values: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
        """Turn some of an owner's rows into integers."""


class OwnRows(ABC):
    """My rows, block by block. Rows that do not count are zero, in all columns.

    Args:
        table: mine.
        counting: which rows count, shape (rows,); None where all do.
        clipped: names of the columns whose values are clipped to their public bounds.

    Attributes:
        failures: see `analyses.rows.own_values`; those of a table are kept by it.
    """

    def __init__(self, table: RowSource, counting: NDArray[np.bool_] | None, clipped: Sequence[str]) -> None:
        self._table, self._counting, self._clipped = table, counting, clipped
        self._outside = np.zeros(len(clipped), dtype=np.int64)
        self._clipped_rows = 0
        self._mapped_by_workers = Counter[str]()
        self.failures = table.failures if isinstance(table, Table) else Counter[str]()

    @property
    @abstractmethod
    def row_shape(self) -> tuple[int, ...]:
        """Shape of what I bring per row. Public."""

    @abstractmethod
    def quantise(self, values: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
        """Turn rows of my table into integers.

        Returns:
            shape (rows, *row_shape); per clipped column, how many values lay outside its bounds; how many
            rows exceeded my norm bound.
        """

    def __call__(self, rows: slice) -> NDArray[np.int64]:
        """Return some rows as integers, whatever they hold; to be called once for each, as it counts."""
        values = self._table.block(rows)
        shape, nothing = (len(values), *self.row_shape), np.zeros_like(self._outside)
        integers, outside, clipped = zeros_if_raised(
            self, lambda: self._counted(values, rows, shape), lambda: (np.zeros(shape, np.int64), nothing, 0)
        )
        self._outside += outside
        self._clipped_rows += clipped
        return integers

    def _counted(
        self, values: NDArray[np.float64], rows: slice, shape: tuple[int, ...]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
        integers, outside, clipped = self.quantise(values)
        if integers.shape != shape:
            raise ValueError("the integers of rows have another shape than the plan says")
        if self._counting is not None:
            integers[~self._counting[rows]] = 0
        return integers, outside, clipped

    def mapped_values(self) -> dict[str, int]:
        """Return per column that has a rule for it, how many values were mapped."""
        return {}

    @property
    def counting(self) -> NDArray[np.bool_] | None:
        """Which rows count, shape (rows,); None where all do. Private."""
        return self._counting

    def counts(self) -> dict[str, Any]:
        """Return what was counted so far as JSON data, for `add_counts` of the owner's own. Private."""
        mapped = self.mapped_values()
        failures = dict(self.failures)
        outside = self._outside.tolist()
        return {"outside": outside, "clipped_rows": self._clipped_rows, "mapped": mapped, "failures": failures}

    def add_counts(self, counts: Mapping[str, Any]) -> None:
        """Add what a worker counted over rows that it took instead of us."""
        self._outside += np.array(counts["outside"], dtype=np.int64)
        self._clipped_rows += counts["clipped_rows"]
        self._mapped_by_workers.update(counts["mapped"])
        self.failures.update(counts["failures"])

    def report(self) -> LocalReport:
        """Return the private counts of this party's values."""
        outside = dict(zip(self._clipped, self._outside.tolist(), strict=True))
        surplus = n_surplus(self._counting)
        mapped = {name: n + self._mapped_by_workers[name] for name, n in self.mapped_values().items()}
        return LocalReport(self._table.n_rows, outside, self._clipped_rows, mapped, surplus)


class QuantisedRows(OwnRows):
    """An owner's rows as `RowPlan.quantise` makes them.

    Args:
        plan: plan of the job.
        member: the owner.
        table: its rows.
        counting: which of them count, shape (rows,); None where all do.
    """

    def __init__(self, plan: Quantising, member: int, table: RowSource, counting: NDArray[np.bool_] | None) -> None:
        super().__init__(table, counting, [column.name for column in table.schema.columns])
        self._plan, self._member = plan, member

    @property
    def row_shape(self) -> tuple[int, ...]:
        """See `OwnRows`."""
        return (self._plan.width_of(self._member),)

    def quantise(self, values: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
        """See `RowPlan.quantise`."""
        return self._plan.quantise(self._member, values)


def report_of(mine: OwnRows | None, n_rows: int) -> LocalReport:
    """Return the private counts of a member; zeros where it brings no rows."""
    return LocalReport(n_rows, {}, 0) if mine is None else mine.report()
