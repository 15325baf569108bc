"""Frequency moments: one number, and how sure it is."""

from collections.abc import Mapping
from typing import Any

from analyses.drawing.chart import Picture, around, rows_of


def picture(result: Mapping[str, Any]) -> Picture:
    """Return the moment with its 95 % interval."""
    moment = result["moment"]
    panel = rows_of(
        [f"order {result['order']}"],
        [moment],
        around([moment], [result["standard_error"]]),
        title="Frequency moment of the summed counts",
        axis=f"sum of the {_ordinal(result['order'])} powers",
        what="moments",
        note=[f"Counts of {', '.join(result['columns'])}."],
    )
    return Picture((panel,))


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
