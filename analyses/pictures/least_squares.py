"""Linear regressions: the coefficient of each column."""

from collections.abc import Mapping, Sequence
from typing import Any

from analyses.drawing.chart import Picture, PictureError, around, rows_of, shown, with_interval


def picture(result: Mapping[str, Any]) -> Picture:
    """Return the coefficients, with 95 % intervals where the result states standard errors."""
    return coefficients_of(
        result["features"],
        result["coefficients"],
        result.get("standard_errors"),
        title=f"Linear regression of {result['label']}",
        axis=f"{result['label']} per unit of each column",
        intercept=result["intercept"],
        intercept_error=result.get("intercept_standard_error"),
        note=result.get("note") or "",
    )


def coefficients_of(
    names: Sequence[str],
    values: Sequence[float] | None,
    standard_errors: Sequence[float | None] | None,
    *,
    title: str,
    axis: str,
    intercept: float | None,
    intercept_error: float | None,
    note: str,
    widths: Sequence[float] | None = None,
) -> Picture:
    """Return a picture of coefficients, in the units of the columns.

    Args:
        names: of the columns.
        values: their coefficients; None where the result has no answer.
        standard_errors: of the coefficients, where they are stated.
        title: what is shown.
        axis: what the coefficients are.
        intercept: where all columns are 0.
        intercept_error: its standard error, where it is stated.
        note: what the result says about itself.
        widths: of the columns' bounds: without standard errors, what counts as large is a coefficient times this.

    Raises:
        PictureError: there is no answer.
    """
    if values is None or intercept is None:
        raise PictureError(f"there is no answer to draw{f': {note}' if note else ''}")
    weights = None
    if standard_errors and all(standard_errors):
        weights = [abs(value) / (error or 1.0) for value, error in zip(values, standard_errors, strict=True)]
    elif widths is not None:
        weights = [abs(value) * width for value, width in zip(values, widths, strict=True)]
    (interval,) = around([intercept], [intercept_error])
    said = [f"Intercept: {with_interval(intercept, interval) if interval else shown(intercept)}."]
    if note:
        said.append(f"{note[0].upper()}{note[1:]}.")
    intervals = around(values, standard_errors)
    panel = rows_of(names, values, intervals, title=title, axis=axis, what="columns", weights=weights, note=said)
    return Picture((panel,))
