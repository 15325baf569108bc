"""Coefficients of a regression, for all analyses that find a line: as an object, as text, as a picture.

A coefficient is a finding if it is larger than noise makes that of any column. The largest is the one that does most
over the bounds of its column.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from analyses.job.forecast import NORMAL_95
from results.drawing.chart import NothingToDrawError, Rows, around, rows_of, shown, with_interval
from results.generic.beyond_noise import beyond_noise
from results.generic.model import ModelResult
from results.generic.own_rows import Floats
from results.generic.result import Columns
from results.generic.text import MAX_LINES, columns_alike, some_of, table_lines

MAY_BE_NOISE = "no errors are stated for these numbers: each of them may be noise"
"""Sentence below effects without stated errors."""


class LineResult(ModelResult):
    """A weight for each of some columns, and an intercept, in the units of the columns."""

    _weights: ClassVar[str]
    """Name of the field with the weights."""

    def _line_of_scaled(self, lower: Floats, widths: Floats) -> tuple[Floats, float]:
        """Return weights and intercept for columns (value - lower) / width."""
        weights = np.array(self._field(self._weights), dtype=np.float64)
        return weights * widths, float(self._field("intercept")) + float(weights @ lower)

    def table(self) -> Columns:
        """Return a row per column: its coefficient, and whatever else the result says of each column.

        Errors that nothing tells are None: whether noise hides them does not decide which columns there are.
        """
        names = self.fields[self._columns]
        shown = {"column": list(names), "coefficient": self.fields[self._weights] or [None] * len(names)}
        unknown = {"standard_error": [None] * len(names)} if "standard_errors" in self.fields else {}
        return shown | unknown | self._same_length(len(names), but=(self._columns, self._weights))

    def _along(self, rows: Any) -> Floats:
        weights = np.array(self._field(self._weights), dtype=np.float64)
        names = list(self.fields[self._columns])
        return np.asarray(self.own_rows(rows, names) @ weights + self._field("intercept"), dtype=np.float64)


@dataclass(frozen=True)
class Effect:
    """What one column does in a regression.

    Attributes:
        column: its name.
        coefficient: per unit of the column.
        half: half of the 95 % interval of the coefficient; None where no error is stated.
        coefficient: coefficient per unit of the column.
        is_seen: whether the coefficient is larger than noise makes that of any column, in 19 of 20 results.
    """

    column: str
    coefficient: float
    half: float | None
    width: float | None
    is_seen: bool

    @property
    def over_bounds(self) -> float:
        """The coefficient times the width of the bounds: the effect of going from the lower to the upper bound."""
        return self.coefficient * (1.0 if self.width is None else self.width)


def effects_of(
    columns: Sequence[str],
    coefficients: Sequence[float],
    standard_errors: Sequence[float | None] | None,
    bounds: Sequence[Sequence[float]] | None,
) -> list[Effect]:
    """Return the effect of each column, in the order of the columns.

    Args:
        columns: names.
        coefficients: per unit of each column.
        standard_errors: standard errors of the coefficients; None where the result states none.
        bounds: public lower and upper bound of each column; None where the result does not state them.
    """
    errors: Sequence[float | None] = standard_errors or [None] * len(columns)
    widths: list[float | None] = [None] * len(columns) if bounds is None else [upper - lower for lower, upper in bounds]
    return [
        Effect(name, value, None if error is None else NORMAL_95 * error, width, is_seen)
        for name, value, error, width, is_seen in zip(
            columns, coefficients, errors, widths, beyond_noise(coefficients, errors), strict=True
        )
    ]


def ranked(effects: Sequence[Effect]) -> tuple[list[Effect], list[Effect]]:
    """Return the effects that are larger than noise, the largest over its bounds first, and the others."""
    seen = sorted((one for one in effects if one.is_seen), key=lambda one: -abs(one.over_bounds))
    return seen, [one for one in effects if not one.is_seen]


def effect_lines(effects: Sequence[Effect], heading: str = "", without_errors: str = MAY_BE_NOISE) -> list[str]:
    """Return a table of the effects that are larger than noise, and a sentence about the others.

    Where no errors are stated, all stand in the order of the columns, and a sentence says that none may be told from
    noise.

    Args:
        effects: effects of all columns.
        heading: a line that ends with the intercept and stands first; it points at the table where there is one.
        without_errors: sentence below effects without stated errors.
    """
    alone, above = ([heading], [f"{heading} and, for each column,"]) if heading else ([], [])
    if all(one.half is None for one in effects):
        if not effects:
            return alone
        return [*above, *_table(effects), without_errors]
    seen, lost = ranked(effects)
    lines = [*above, *_table(seen), "+- is half of a 95 % interval"] if seen else alone
    if lost:
        lines.append(f"not distinguishable from 0: {some_of([one.column for one in lost])}")
    return lines


def _table(effects: Sequence[Effect]) -> list[str]:
    shown = list(effects[:MAX_LINES])
    table: dict[str, list[Any]] = {
        "column": [one.column for one in shown],
    }
    table["per unit"], halves = columns_alike([one.coefficient for one in shown], [one.half for one in shown])
    if any(one.half is not None for one in effects):
        table["+-"] = halves
    if all(one.width is not None for one in effects):
        widths = [one.half and one.half * (one.width or 0.0) for one in shown]
        table["over its bounds"], _ = columns_alike([one.over_bounds for one in shown], widths)
    left_out = len(effects) - len(shown)
    more = [f"and {left_out} more columns; --format json has them all"] if left_out else []
    return [*table_lines(table), *more]


def effect_panel(
    fields: Mapping[str, Any], columns: Sequence[str], weights: Sequence[float] | None, *, title: str, axis: str
) -> Rows:
    """Return a panel of the coefficients that are larger than noise, or of all where none is.

    Args:
        fields: fields of the result: its intercept, errors, bounds and note.
        columns: names.
        weights: their coefficients; None where the result has no answer.
        title: what is shown.
        axis: what the coefficients are.

    Raises:
        NothingToDrawError: there is no answer.
    """
    intercept, note = fields["intercept"], fields.get("note") or ""
    if weights is None or intercept is None:
        raise NothingToDrawError(f"there is no answer to draw{f': {note}' if note else ''}")
    errors = fields.get("standard_errors")
    effects = effects_of(columns, weights, errors, fields.get("bounds"))
    seen, lost = ranked(effects)
    (interval,) = around([intercept], [fields.get("intercept_standard_error")])
    said = [f"Intercept: {with_interval(intercept, interval) if interval else shown(intercept)}."]
    if note:
        said.append(f"{note[0].upper()}{note[1:]}.")
    if seen and lost:
        said.append(f"Not drawn, as not distinguishable from 0: {some_of([one.column for one in lost])}.")
    elif not seen:
        said.append("No column is distinguishable from 0.")
    drawn = [at for at, one in enumerate(effects) if one.is_seen or not seen]
    coefficients = [weights[at] for at in drawn]
    return rows_of(
        [columns[at] for at in drawn],
        coefficients,
        around(coefficients, [errors[at] for at in drawn] if errors else None),
        title=title,
        axis=axis,
        what="columns",
        weights=[abs(effects[at].over_bounds) for at in drawn],
        note=said,
    )
