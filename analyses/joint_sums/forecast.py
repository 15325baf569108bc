"""The errors of counts, sums and means over matched rows, before they are asked for."""

from math import hypot

from analyses.job.declared_rows import declared_rows
from analyses.job.forecast import Forecast, Quantity, Signal
from analyses.joint_sums.estimate import SEEN_COUNT, mean_error
from analyses.joint_sums.plan import JointSumPlan

BAD_ROWS = 10.0
"""Factor by which the most rows exceed those of the bad case."""

_BEST = "In the best case the tables have the most rows that are declared, and the mean of a column lies in the middle."
_BAD = (
    "In the bad case a tenth of the most rows match, or the fewest that are declared where these are more, and the "
    "mean of a column lies at one of its bounds."
)
_ALONE = "Errors are of noise alone: about the mean of the rows that are counted, not of others like them."


def signal(plan: JointSumPlan) -> Signal:
    """Return the error of the number of rows beside the largest number of rows."""
    return Signal(
        "the error of the number of rows",
        plan.count_error,
        "the largest number of rows",
        float(declared_rows(plan.job, plan.schemas).most),
        "rows",
    )


def forecast(plan: JointSumPlan) -> Forecast:
    """Return the standard errors: those of counts and sums are known, those of means depend on the rows."""
    declared = declared_rows(plan.job, plan.schemas)
    least, most = float(declared.least if plan.params.unit == "record" else 0), float(declared.most)
    count = Quantity("number of rows", "rows", plan.count_error, least=least, largest=most)
    if not plan.widths:
        return Forecast((count,))
    columns = list(zip(plan.names, plan.summed, plan.zeros, strict=True))
    sums = [
        Quantity(
            f"sum of {name}",
            "units of the column",
            hypot(zero * plan.count_error, (column.upper - column.lower) * plan.scaled_error),
            least=min(most * column.lower, least * column.lower),
            largest=max(most * column.upper, least * column.upper),
        )
        for name, column, zero in columns
    ]
    few = max(least, most / BAD_ROWS)
    if few <= SEEN_COUNT * plan.count_error:
        why = (
            f"With a tenth of the most rows, the number of rows is less than {SEEN_COUNT:g} times its own error: then "
            "no mean is stated."
        )
        return Forecast((count, *sums), (_ALONE,), (why,))
    means = [
        Quantity(
            f"mean of {name}",
            "units of the column",
            (column.upper - column.lower) * mean_error(plan, most, 0.0),
            bad_case=(column.upper - column.lower) * mean_error(plan, few, 0.5),
            least=column.lower,
            largest=column.upper,
        )
        for name, column, _ in columns
    ]
    return Forecast((count, *means, *sums), (_BEST, _BAD, _ALONE))
