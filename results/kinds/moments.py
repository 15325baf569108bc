"""Frequency moments: one number, and how sure it is."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from results.drawing.chart import Rows, around, rows_of
from results.generic.own_rows import Floats
from results.generic.result import Columns, Result
from results.generic.text import closing_lines, half_intervals, rounded_alike


class MomentsResult(Result):
    """A frequency moment."""

    analyses = ("moments",)

    @staticmethod
    def lines_of(fields: Mapping[str, Any]) -> list[str]:
        """Return the moment with half of its 95 % interval, and what it is the moment of."""
        moment, (half,) = fields["moment"], half_intervals([fields["standard_error"]])
        which = f"moment of order {fields['order']:g} of the sum of {', '.join(fields['columns'])}"
        if half is None:
            return [f"{which}: {moment:.6g}", *closing_lines(fields)]
        said = " +- ".join(rounded_alike(moment, half))
        lines = [f"{which}, by method {fields['method']}: {said}", "+- is half of a 95 % interval"]
        if moment <= half:
            lines.append("the moment is not distinguishable from 0")
        return [*lines, *closing_lines(fields)]

    @staticmethod
    def panels_of(fields: Mapping[str, Any]) -> tuple[Rows]:
        """Return the moment with its 95 % interval."""
        moment = fields["moment"]
        panel = rows_of(
            [f"order {fields['order']}"],
            [moment],
            around([moment], [fields["standard_error"]]),
            title="Frequency moment of the summed counts",
            axis=f"sum of the {_ordinal(fields['order'])} powers",
            what="moments",
            note=[f"Counts of {', '.join(fields['columns'])}."],
        )
        return (panel,)

    @property
    def standard_errors_(self) -> Floats:
        """The standard error of the moment, shape ()."""
        return np.array(self._field("standard_error"), dtype=np.float64)

    def table(self) -> Columns:
        """Return one row: the moment and its standard error."""
        shown = {name: [self.fields[name]] for name in ("order", "moment", "standard_error", "clipped_moment")}
        return {"columns": [", ".join(self.fields["columns"])], **shown}


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
