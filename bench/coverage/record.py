"""One measured coverage, and the table of all of them in the documentation."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.analyses.table import cells

Bits = NDArray[np.bool_]

LEAST, MOST = 0.93, 0.97
"""Coverage of intervals of 95 % that is asked for, beside what chance does to so few runs."""


@dataclass(frozen=True)
class Coverage:
    """How often intervals of one kind held the truth.

    Attributes:
        what: the analysis and the number that the interval is about, in words.
        table: the data.
        epsilon: of the job.
        runs: releases, each with noise of its own.
        numbers: intervals in all runs together.
        held: part of them that hold the truth; None where no run states an interval.
        stated: part of the numbers for which an interval is stated.
    """

    what: str
    table: str
    epsilon: float
    runs: int
    numbers: int
    held: float | None
    stated: float

    @classmethod
    def of(cls, what: str, table: str, epsilon: float, runs: int, hits: Bits, known: Bits | None = None) -> "Coverage":
        """Return the coverage of intervals, by whether each holds the truth and whether it is stated.

        Args:
            what: the analysis and the number, in words.
            table: the data.
            epsilon: of the job.
            runs: number of releases.
            hits: whether each interval holds the truth, any shape.
            known: whether each is stated, of the same shape; all are if it is left out.
        """
        stated = np.ones(hits.shape, dtype=bool) if known is None else known
        held = float(hits[stated].mean()) if stated.any() else None
        return cls(what, table, epsilon, runs, int(stated.sum()), held, float(stated.mean()) if stated.size else 0.0)

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return asdict(self)

    @property
    def is_as_stated(self) -> bool:
        """Whether it is 93 to 97 %, or differs by less than three standard errors of the runs; or none is stated.

        Intervals of one run are not independent, so only runs are counted.
        """
        if self.held is None:
            return True
        slack = 3 * (0.95 * 0.05 / self.runs) ** 0.5
        return LEAST - slack <= self.held <= MOST + slack


def page(head: str, kept: Sequence[dict[str, Any]]) -> str:
    """Return the page of the documentation: its text, and a row for each coverage."""
    return f"{head}\n{cells(('table', 'interval', 'epsilon', 'runs', 'numbers', 'stated', 'held'), list(_lines(kept)))}"


def _lines(kept: Sequence[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    for one in (Coverage(**found) for found in kept):
        held = "none stated" if one.held is None else f"{100 * one.held:.1f} %"
        yield (
            one.table,
            one.what,
            f"{one.epsilon:g}",
            str(one.runs),
            str(one.numbers),
            f"{100 * one.stated:.0f} %",
            held,
        )
