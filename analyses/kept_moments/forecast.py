"""The errors of means before a release is asked for."""

from math import sqrt

from analyses.job.forecast import Forecast, Quantity
from analyses.kept_moments.plan import KeptMomentsPlan
from analyses.second_moments.forecast import EVEN
from analyses.second_moments.gram_plan import deviation_of, rows_of

_OTHERS = (
    "Errors of correlations, regressions and counts depend on how columns vary and determine each other: each answer "
    "states its own."
)
_MIDDLE = (
    "The mean lies in the middle of the bounds. In the bad case it lies at one of them, and the tables have half of "
    "the most rows."
)
BAD_ROWS = 2
"""Ratio of the most rows to those of the bad case."""


def forecast(plan: KeptMomentsPlan) -> Forecast:
    """Return the error by noise of the mean of a column, in widths of its bounds.

    With s the noise's deviation, n rows and c the constant, the mean z of a scaled column is sum z / n, of which sum z
    errs by s / c and n by sqrt(2) s / c^2: together s sqrt(1 + 2 z^2 / c^2) / (c n).
    """
    fewest, most = rows_of(plan)
    s, c = deviation_of(plan), plan.constant * plan.unit
    middle, furthest = (0.0, 1.0) if plan.params.origin == "middle" else (0.5, 1.0)

    def error(place: float, n_rows: int) -> float:
        return s * sqrt(1 + 2 * (place / c) ** 2) / (c * n_rows)

    mean = Quantity(
        "mean of a column",
        "widths of its bounds",
        error(middle, most),
        bad_case=error(furthest, max(1, most // BAD_ROWS)),
        at_fewest_rows=error(middle, fewest) if fewest < most else None,
    )
    return Forecast((mean,), (EVEN, _MIDDLE), (_OTHERS,))
