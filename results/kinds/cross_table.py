"""Cross-tables: rows by the categories of some columns from above to below, and of one from left to right."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyses.job.forecast import NORMAL_95
from results.drawing.chart import MAX_ROWS, AnyPanel, Cells, NothingToDrawError, shown
from results.generic.beyond_noise import counts_beyond_noise
from results.generic.own_rows import Floats
from results.generic.result import Columns
from results.generic.text import closing_lines, table_lines
from results.kinds.pattern_count import PatternCountResult, asked_again, values_of

MAX_ACROSS = 12
"""Maximum number of categories from left to right; a longer table is a list of patterns."""

TOTAL = "total"


class CrossTableResult(PatternCountResult):
    """How many rows have each combination of categories, as a table."""

    analyses = ("cross-table",)

    @staticmethod
    def lines_of(fields: Mapping[str, Any]) -> list[str]:
        """Return the counts as a table if it fits, else those that are larger than noise."""
        if len((grid := grid_of(fields)).heads) > MAX_ACROSS:
            return PatternCountResult.lines_of(fields)
        lines = [f"rows by {' and '.join(grid.down)}, and by {grid.across} from left to right"]
        table: dict[str, list[Any]] = _labels(grid)
        for at, head in enumerate((*grid.heads, TOTAL)):
            of_lines, of_totals = (
                (grid.counts, grid.halves, grid.seen),
                (grid.totals, grid.total_halves, grid.total_seen),
            )
            table[head] = [_cell(*(part[at] for part in line)) for line in (*zip(*of_lines, strict=True), of_totals)]
        lines += table_lines(table)
        lines.append("+- is half of a 95 % interval; < is a count that is not distinguishable from 0")
        return [*lines, *asked_again(fields), *closing_lines(fields)]

    @staticmethod
    def panels_of(fields: Mapping[str, Any]) -> tuple[AnyPanel, ...]:
        """Return the table of counts, each line shaded from its smallest to its largest; of a large one the patterns.

        Raises:
            NothingToDrawError: no count is larger than noise.
        """
        grid = grid_of(fields)
        if len(grid.heads) > MAX_ACROSS or len(grid.labels) > MAX_ROWS:
            return PatternCountResult.panels_of(fields)
        counts, halves = grid.counts[:, :-1], grid.halves[:, :-1]
        if not grid.seen[:, :-1].any():
            raise NothingToDrawError("there is nothing to draw: no count is distinguishable from 0")
        within = shown(float(halves.max()))
        table = Cells(
            title=f"Rows by {' and '.join(grid.down)}, and by {grid.across} from left to right",
            labels=tuple(", ".join(label) for label in grid.labels),
            heads=grid.heads,
            values=tuple(tuple(line) for line in np.maximum(np.rint(counts), 0).tolist()),
            note=(f"Every count is within {within} in 19 of 20 cases.", "Darker: larger in its line."),
        )
        return (table,)

    def table(self) -> Columns:
        """Return a line per category, of the last column from left to right, with totals; noise may be negative."""
        grid = grid_of(self.fields)
        shown: Columns = _labels(grid)
        for at, head in enumerate(grid.heads):
            shown[f"{grid.across}={head}"] = [*grid.counts[:, at].tolist(), float(grid.totals[at])]
        return shown | {TOTAL: [*grid.counts[:, -1].tolist(), float(grid.totals[-1])]}


@dataclass(frozen=True)
class Grid:
    """The counts of a result as a table.

    Attributes:
        down, across: names of the columns whose categories are from above to below, and of the one from left to right.
        labels: labels of the lines, one category of each column of `down`.
        heads: the categories of `across`.
        counts: shape (lines, heads + 1): last the totals of the lines.
        totals: totals of all lines, shape (heads + 1,).
        halves, total_halves: half of the 95 % interval of each, by noise; shapes alike.
        seen, total_seen: whether each is larger than noise makes any of them (`counts_beyond_noise`); shapes alike.
    """

    down: tuple[str, ...]
    across: str
    labels: tuple[tuple[str, ...], ...]
    heads: tuple[str, ...]
    counts: Floats
    totals: Floats
    halves: Floats
    total_halves: Floats
    seen: NDArray[np.bool_]
    total_seen: NDArray[np.bool_]


def grid_of(fields: Mapping[str, Any]) -> Grid:
    """Return a result as a table; its last column is the one from left to right."""
    *down, across = fields["columns"]
    values = [[str(one) for one in values_of(fields, name)] for name in fields["columns"]]
    heads = tuple(values[-1])
    counts = np.array(fields["counts"], dtype=np.float64).reshape(-1, len(heads))
    squares = np.array(fields["standard_errors"], dtype=np.float64).reshape(-1, len(heads)) ** 2
    counts, squares = (np.column_stack([one, one.sum(axis=1)]) for one in (counts, squares))
    counts, squares = (np.vstack([one, one.sum(axis=0)]) for one in (counts, squares))
    errors = np.sqrt(squares)
    seen = counts_beyond_noise(counts, errors, fields["privacy"], method=fields["method"])
    halves = NORMAL_95 * errors
    return Grid(
        tuple(down),
        across,
        tuple(product(*values[:-1])),
        heads,
        *(counts[:-1], counts[-1], halves[:-1], halves[-1], seen[:-1], seen[-1]),
    )


def _labels(grid: Grid) -> dict[str, list[Any]]:
    """Return the categories from above to below, and the word for the totals."""
    return {
        name: [*(label[at] for label in grid.labels), TOTAL if at == 0 else ""] for at, name in enumerate(grid.down)
    }


def _cell(count: float, half: float, is_seen: bool) -> str:
    """Return a count as text; of one that is not larger than noise the least whole number above its interval."""
    return f"{count:.0f} +-{half:.0f}" if is_seen else f"<{math.floor(max(0.0, count) + half) + 1:.0f}"
