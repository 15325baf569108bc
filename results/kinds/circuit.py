"""What a program of an analyst's own has opened."""

from collections.abc import Mapping
from typing import Any

from results.drawing.chart import Rows, around, rows_of
from results.generic.result import Columns, Result
from results.generic.text import closing_lines, columns_alike, half_intervals, table_lines


class CircuitResult(Result):
    """The sums that a program opens."""

    analyses = ("circuit",)

    @staticmethod
    def lines_of(fields: Mapping[str, Any]) -> list[str]:
        """Return each sum with its 95 % interval."""
        values, halves = columns_alike(fields["values"], half_intervals(fields["standard_errors"]))
        roundings = fields.get("roundings_per_row")
        rounded = {"rounding per row": [f"{rounding:.3g}" for rounding in roundings]} if roundings else {}
        lines = table_lines({"name": fields["names"], "sum": values, "+-": halves} | rounded)
        lines.append("+- is half of a 95 % interval, by noise alone")
        if roundings:
            lines.append("a row adds its exact value, but for at most its rounding")
        lines.append(f"program {fields['program']}")
        return [*lines, *closing_lines(fields)]

    @staticmethod
    def panels_of(fields: Mapping[str, Any]) -> tuple[Rows]:
        """Return each sum with its 95 % interval."""
        panel = rows_of(
            fields["names"],
            fields["values"],
            around(fields["values"], fields["standard_errors"]),
            title="What the program opened",
            axis="sum over the rows",
            what="sums",
            has_bars=True,
        )
        return (panel,)

    def table(self) -> Columns:
        """Return a line per sum: its name, value and standard error."""
        return {
            "name": list(self.fields["names"]),
            "sum": self.fields["values"],
            "standard_error": self.fields["standard_errors"],
        }
