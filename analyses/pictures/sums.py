"""Sums, means and histograms over the rows of all parties."""

from collections.abc import Mapping
from typing import Any

from analyses.drawing.chart import Picture, PictureError, Steps, around, rows_of


def picture(result: Mapping[str, Any]) -> Picture:
    """Return the counts of bins, or the sum or mean of each column, with 95 % intervals where errors are stated."""
    if "counts" in result:
        return _histogram(result)
    kind = "sum" if "sum" in result else "mean"
    values = result[kind]
    if values is None:
        raise PictureError("there is no mean to draw: the weights do not add up to a positive number")
    errors = result.get("standard_errors")
    panel = rows_of(
        result["columns"],
        values,
        around(values, errors) if errors and any(errors) else (),
        title=f"{kind.capitalize()} of each column over all rows",
        axis=f"{kind}, in the units of each column",
        what="columns",
        has_bars=True,
        note=[f"In it: {', '.join(result['survivors'])}."],
    )
    return Picture((panel,))


def _histogram(result: Mapping[str, Any]) -> Picture:
    counts, errors = result["counts"], result.get("standard_errors")
    panel = Steps(
        title="Rows in each bin",
        axis="value of the column",
        height="rows",
        edges=tuple(result["edges"]),
        values=tuple(counts),
        intervals=around(counts, errors) if errors and any(errors) else (),
        note=(f"In it: {', '.join(result['survivors'])}.",),
    )
    return Picture((panel,))
