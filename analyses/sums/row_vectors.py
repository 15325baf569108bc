"""The contribution of one row to a sum over all parties' rows: an integer vector of certified norm.

Three kinds, one per analysis. Each says how large a row's vector can be, whatever the data, and adds up the vectors of
a table. Values are clipped to the owner's public bounds first; a weight that is no whole number is rounded down. That
depends on nothing but the row itself, so a row's vector is a function of the row, and what bounds the vectors bounds
how far a row of any values can move the sum. The owner, nobody else, is told how many values that were.
"""

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyses.job.schema import BlockSchema, LocalReport, Table
from analyses.rows.quantise import rounded_to_nearest, shorten
from analyses.sums.vector_bound import VectorBound

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

ROWS_PER_BLOCK = 1 << 14
MAX_ENTRY = 1 << 30
"""Largest absolute value of an entry in the vector of one row."""
CLIPPED_TOTALS = "the totals, as the table has more rows than the job allows for"
"""Key under which the owner's report counts clipped entries of the total."""


class RowVectors(ABC):
    """A rule that makes integer vectors of rows."""

    @property
    @abstractmethod
    def bound(self) -> VectorBound:
        """Bounds on the vector of one row."""

    @property
    @abstractmethod
    def largest_entry(self) -> int:
        """Largest absolute value of an entry in the vector of one row."""

    @abstractmethod
    def of_rows(self, rows: Floats) -> tuple[Integers, int]:
        """Return the vectors of some rows, shape (rows, entries), and how many were shortened.

        Args:
            rows: shape (rows, columns), clipped to the public bounds.
        """

    def mapped(self, rows: Floats) -> Mapping[int, int]:
        """Return, by column, how many values are not valid and were mapped; arguments as for `of_rows`."""
        return {}

    @property
    def n_entries(self) -> int:
        """Number of entries in the vector of one row."""
        return len(self.bound.spans)

    def total(
        self, table: Table, largest: int, counting: NDArray[np.bool_] | None = None
    ) -> tuple[Integers, LocalReport]:
        """Return the sum of the rows' vectors, and a report on it for the owner. Both are private.

        The total is clipped to a public bound: a table with more rows than the bound is for is not refused, which would
        tell how many it has. That costs no sensitivity: clipping never brings two integers further apart.

        Args:
            table: all rows.
            largest: largest size of an entry of the total; 2^53 at most.
            counting: which rows count, shape (rows,); absent: all.

        Memory: a block of rows at a time.
        """
        assert self.largest_entry <= MAX_ENTRY  # so that 64 bits hold the total of all rows that memory holds
        lower = np.array([column.lower for column in table.schema.columns])
        upper = np.array([column.upper for column in table.schema.columns])
        total = np.zeros(self.n_entries, dtype=np.int64)
        outside = np.zeros(len(lower), dtype=np.int64)
        n_shortened, mapped = 0, Counter[int]()
        for start in range(0, table.n_rows, ROWS_PER_BLOCK):
            rows = table.block(slice(start, start + ROWS_PER_BLOCK))
            outside += np.count_nonzero((rows < lower) | (rows > upper), axis=0)
            within = np.clip(rows, lower, upper)
            if counting is not None:
                within = within[counting[start : start + ROWS_PER_BLOCK]]
            vectors, shortened = self.of_rows(within)
            total += vectors.sum(axis=0)
            n_shortened += shortened
            mapped.update(self.mapped(within))
        names = [column.name for column in table.schema.columns]
        clipped = dict(zip(names, outside.tolist(), strict=True))
        if n_clipped := int(np.count_nonzero(np.abs(total) > largest)):
            clipped[CLIPPED_TOTALS] = n_clipped
        report = LocalReport(table.n_rows, clipped, n_shortened, {names[i]: count for i, count in mapped.items()})
        return np.clip(total, -largest, largest), report


@dataclass(frozen=True)
class ScaledRows(RowVectors):
    """Each entry divided by the column's scale, the row shortened, in units, rounded to the nearest: for sums.

    Attributes:
        scales: per column, the largest size that any party's bounds allow.
        units: integer units per scaled 1.
        row_norm: largest Euclidean norm of a scaled row; None for no limit but the scales.
        is_non_negative: whether every party's bounds are.
        most_nonzero: how many entries of a row differ from 0 at once, by the groups that the parties declare
            (`analyses.rows.reach.most_nonzero`), the largest of any party; None for all of them.
    """

    scales: tuple[float, ...]
    units: int
    row_norm: float | None
    is_non_negative: bool
    most_nonzero: int | None = None

    @property
    def bound(self) -> VectorBound:
        """See `RowVectors`. Rounding brings no row above it (`rounded_to_nearest`), so rounding costs no noise.

        An entry lies within `units`, a whole number, before and so also after it is rounded. So a row with m entries
        other than 0 has the squared norm m units^2 at most, and rows of a party's encoder are never shortened to that.
        The bound does not rest on them: whatever a row is, `of_rows` shortens it to the bound, in integers.
        """
        span = self.units if self.is_non_negative else 2 * self.units
        m = len(self.scales) if self.most_nonzero is None else min(self.most_nonzero, len(self.scales))
        by_entries = m * self.units**2
        by_norm = by_entries if self.row_norm is None else math.floor((Fraction(self.row_norm) * self.units) ** 2)
        return VectorBound((span,) * len(self.scales), min(by_entries, by_norm), self.is_non_negative)

    @property
    def largest_entry(self) -> int:
        """See `RowVectors`."""
        return self.units

    def of_rows(self, rows: Floats) -> tuple[Integers, int]:
        """See `RowVectors`; no vector is longer than `bound` says (`rounded_to_nearest`)."""
        scaled = rows / np.array(self.scales) * self.units
        n_shortened = shorten(scaled, self.bound.squared_norm)
        return rounded_to_nearest(scaled, self.bound.squared_norm), n_shortened


@dataclass(frozen=True)
class WeightedRows(RowVectors):
    """Scaled rows times a whole weight, and the weight itself as the last entry: for means.

    The weight counts `units` per 1, so that it is as large as a column at its bound: one noise then fits both.

    Attributes:
        rows: rows of the columns that are averaged.
        weight_column: index of the column of weights; None where each row weighs 1.
        largest_weight: W; larger ones are clipped, others rounded down.
    """

    rows: ScaledRows
    weight_column: int | None
    largest_weight: int

    @property
    def bound(self) -> VectorBound:
        """See `RowVectors`: w (q, u) with 0 <= w <= W, u the units, has a squared norm of at most W^2 (|q|^2 + u^2)."""
        most, row = self.largest_weight, self.rows.bound
        spans = (*(most * span for span in row.spans), most * self.rows.units)
        return VectorBound(spans, most**2 * (row.squared_norm + self.rows.units**2), row.is_non_negative)

    @property
    def largest_entry(self) -> int:
        """See `RowVectors`."""
        return self.largest_weight * self.rows.units

    def of_rows(self, rows: Floats) -> tuple[Integers, int]:
        """See `RowVectors`."""
        weights = np.ones(len(rows), dtype=np.int64)
        if self.weight_column is not None:
            weights = np.clip(np.floor(rows[:, self.weight_column]), 0, self.largest_weight).astype(np.int64)
            rows = np.delete(rows, self.weight_column, axis=1)
        vectors, n_shortened = self.rows.of_rows(rows)
        return np.column_stack([vectors, np.full(len(rows), self.rows.units)]) * weights[:, None], n_shortened

    def mapped(self, rows: Floats) -> Mapping[int, int]:
        """See `RowVectors`: weights that are not whole, or above the largest."""
        if self.weight_column is None:
            return {}
        weights = rows[:, self.weight_column]
        kept = np.clip(np.floor(weights), 0, self.largest_weight)
        return {self.weight_column: int(np.count_nonzero(kept != weights))}


@dataclass(frozen=True)
class BinnedRows(RowVectors):
    """A one in the bin in which the row's only value lies, or below or above all of them: for histograms.

    Attributes:
        edges: edges of the bins, ascending; each bin includes its lower edge, the last one its upper edge too.
        has_below, has_above: whether the bounds of some party allow values below the first edge, and above the last.
            They are counted in an entry before those of the bins, and in one after them.
    """

    edges: tuple[float, ...]
    has_below: bool = False
    has_above: bool = False

    @property
    def bound(self) -> VectorBound:
        """See `RowVectors`."""
        n_entries = len(self.edges) - 1 + self.has_below + self.has_above
        return VectorBound((1,) * n_entries, 1, is_non_negative=True)

    @property
    def largest_entry(self) -> int:
        """See `RowVectors`."""
        return 1

    def of_rows(self, rows: Floats) -> tuple[Integers, int]:
        """See `RowVectors`; all rows of a block come as one vector of counts, shape (1, bins): nobody needs more."""
        values = rows[:, 0]
        counts, _ = np.histogram(values, bins=np.array(self.edges))
        below, above = np.count_nonzero(values < self.edges[0]), np.count_nonzero(values > self.edges[-1])
        found = [*([below] if self.has_below else []), *counts, *([above] if self.has_above else [])]
        return np.array(found, dtype=np.int64)[None, :], 0

    def parts(self, total: Integers) -> dict[str, Any]:
        """Return a sum of vectors as `counts` of the bins, `below` and `above`; None where no bounds allow these."""
        counts = [int(count) for count in total]
        below, above = counts.pop(0) if self.has_below else None, counts.pop() if self.has_above else None
        return {"counts": counts, "below": below, "above": above}


def scales_of(schemas: Sequence[BlockSchema]) -> tuple[float, ...]:
    """Return, per column, the largest size of a value that some party's public bounds allow."""
    sizes = [[max(abs(column.lower), abs(column.upper)) for column in schema.columns] for schema in schemas]
    return tuple(max(of_column) for of_column in zip(*sizes, strict=True))
