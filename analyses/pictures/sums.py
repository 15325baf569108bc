"""Sums, means and histograms over the rows of all parties."""

from collections.abc import Mapping
from typing import Any

from analyses.drawing.chart import Picture, PictureError, Steps, around, rows_of

MOST_NAMED = 8
"""Members whose names stand below a picture; of more, their number does."""


def picture(result: Mapping[str, Any]) -> Picture:
    """Return the counts of bins, or the sum or mean of each column, with 95 % intervals where errors are stated."""
    if "counts" in result:
        return _histogram(result)
    kind = "sum" if "sum" in result else "mean"
    values = result[kind]
    if values is None:
        raise PictureError("there is no mean to draw: the weights do not add up to a positive number")
    errors = result.get("standard_errors")
    is_of_devices = "columns" not in result
    names = [f"entry {at}" for at in range(1, len(values) + 1)] if is_of_devices else result["columns"]
    panel = rows_of(
        [result["record"]] if is_of_devices and len(values) == 1 else names,
        values,
        around(values, errors) if errors and any(errors) else (),
        title=f"{kind.capitalize()} of {result['record']} over all members"
        if is_of_devices
        else f"{kind.capitalize()} of each column over all rows",
        axis=f"{kind}, in the units of the record" if is_of_devices else f"{kind}, in the units of each column",
        what="entries" if is_of_devices else "columns",
        has_bars=True,
        note=[_who_is_in(result)],
    )
    return Picture((panel,))


def _histogram(result: Mapping[str, Any]) -> Picture:
    counts, errors = result["counts"], result.get("standard_errors")
    panel = Steps(
        title=f"Numbers of {result['record']} in each bin" if "record" in result else "Rows in each bin",
        axis="value" if "record" in result else "value of the column",
        height="numbers" if "record" in result else "rows",
        edges=tuple(result["edges"]),
        values=tuple(counts),
        intervals=around(counts, errors) if errors and any(errors) else (),
        note=(_who_is_in(result),),
    )
    return Picture((panel,))


def _who_is_in(result: Mapping[str, Any]) -> str:
    names = result["survivors"]
    return f"In it: {', '.join(names) if len(names) <= MOST_NAMED else f'{len(names):,} members'}."
