"""The errors of counts, sums and means over matched rows, before they are asked for."""

from math import hypot

import numpy as np

from analyses.job.declared_rows import declared_rows
from analyses.job.forecast import Forecast, Quantity, Signal
from analyses.joint_sums.bin_estimate import estimated, subsets
from analyses.joint_sums.bin_plan import BinPlan
from analyses.joint_sums.estimate import SEEN_COUNT, mean_error
from analyses.joint_sums.plan import JointSumPlan

BAD_ROWS = 10.0
"""Factor by which the most rows exceed those of the bad case."""

_BEST = "In the best case the tables have the most rows that are declared, and the mean of a column lies in the middle."
_BAD = (
    "In the bad case a tenth of the most rows match, or the fewest that are declared where these are more, and the "
    "mean of a column lies at one of its bounds."
)
_DISJOINT = (
    "All tables have the most rows that are declared, of different people. Errors are of noise and of people whose ids "
    "meet in one bin."
)
_ALONE = "Errors are of noise alone: about the mean of the rows that are counted, not of others like them."


def signal_of_people(plan: BinPlan) -> Signal:
    """Return the error of the number of people beside the largest one."""
    (union, _), most = _of_people(plan)
    return Signal("the error of the number of people", union, "the largest number of people", most, "people")


def forecast_of_people(plan: BinPlan) -> Forecast:
    """Return the standard errors of numbers of people."""
    (union, common), most = _of_people(plan)
    least = float(max(rows[0] for rows in _declared(plan)))
    together = Quantity("people at one owner at least", "people", union, least=least, largest=most)
    of_all = Quantity("people at all owners", "people", common, least=0.0, largest=most)
    return Forecast((together, of_all), (_DISJOINT,))


def signal(plan: JointSumPlan) -> Signal:
    """Return the error of the number of rows beside the largest one."""
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


def _declared(plan: BinPlan) -> list[tuple[int, int]]:
    return [rows for owner in plan.owners if (rows := plan.schema_of(owner).rows) is not None]


def _of_people(plan: BinPlan) -> tuple[tuple[float, float], float]:
    """Return the errors of the union and of the intersection of all tables, with the most rows of different people."""
    most, chosen = [rows[1] for rows in _declared(plan)], subsets(len(plan.owners))
    unions = np.array([float(sum(most[at] for at in of)) for of in chosen])
    last = estimated(unions, chosen, plan.n_bins, plan.noise.standard_deviation("coordinator"))[-1]
    return (last.union_error, last.common_error), float(sum(most))
