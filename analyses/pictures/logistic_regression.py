"""Logistic regressions: how much each column adds to the log odds."""

from collections.abc import Mapping
from typing import Any

from analyses.drawing.chart import Picture
from analyses.pictures.least_squares import coefficients_of


def picture(result: Mapping[str, Any]) -> Picture:
    """Return the weights, with 95 % intervals where the result states standard errors."""
    return coefficients_of(
        result["columns"],
        result["weights"],
        result.get("standard_errors"),
        title=f"Logistic regression of {result['label']}",
        axis="log odds of label 1 per unit of each column",
        intercept=result["intercept"],
        intercept_error=result.get("intercept_standard_error"),
        note=result.get("note") or "",
        widths=[upper - lower for lower, upper in result["bounds"]],
    )
