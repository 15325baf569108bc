"""The errors of pattern counts before they are asked for."""

from math import prod, sqrt

from analyses.job.declared_rows import declared_rows
from analyses.job.forecast import Forecast, Quantity, Signal
from analyses.pattern_count.plan import PatternCountPlan

_RANGE = (
    "In the best case no row resembles the pattern. In the bad case the tables have the most rows that are declared, "
    "and all are of one pattern."
)


def signal(plan: PatternCountPlan) -> Signal:
    """Return the least error of a count beside the largest number of rows."""
    by_mpc = plan.params.method == "mpc"
    error = plan.noise.standard_deviation("coordinator") if by_mpc else plan.reports.least_deviation
    return Signal(
        "the error of a count",
        error,
        "the largest number of rows",
        float(declared_rows(plan.job, plan.schemas).most),
        "rows",
        rows_power=1.0 if by_mpc else 0.5,
        instead="" if by_mpc else "method 'mpc'",
    )


def forecast(plan: PatternCountPlan) -> Forecast:
    """Return the standard error of a count: known exactly with `mpc`, else for rows that are spread evenly."""
    most = float(declared_rows(plan.job, plan.schemas).most)
    if plan.params.method == "mpc":
        error = plan.noise.standard_deviation("coordinator")
        return Forecast((Quantity("count of any pattern", "rows", error, least=0.0, largest=most),))
    best, even, bad = _errors_of_reports(plan, most)
    count = Quantity("count of any pattern", "rows", even, least=0.0, largest=most, best_case=best, bad_case=bad)
    return Forecast((count,), (_RANGE,))


def _errors_of_reports(plan: PatternCountPlan, rows: float) -> tuple[float, float, float]:
    """Return the standard errors of a count in the best case, for rows that are spread evenly, and in the bad case.

    See `PatternTally`.

    A party's z of a slot has mean 1 and variance V where the slot is of the category, and mean 0 and variance V else.
    So the product of all has a second moment of prod (V + 1 / M_j), on average over rows, and V^v in an empty slot. Of
    k of N slots a uniform sample is reported, which adds the variance of sampling.
    """
    reports = plan.reports
    variance = float(1 / (16 * reports.bits.bias**2)) - 0.25
    n, k, v = float(reports.n_slots), float(reports.n_reported), len(reports.n_categories)

    def error(rows: float, count: float, square: float) -> float:
        of_noise = rows * square + (n - rows) * variance**v - count
        return sqrt(max(0.0, n / k * of_noise + (n / k - 1) * count * (1 - count / n)))

    even = error(rows, rows / prod(reports.n_categories), prod(variance + 1 / m for m in reports.n_categories))
    alike = max(error(some, some, (variance + 1) ** v) for some in (rows, min(rows, n / 2)))
    least = reports.least_deviation
    return min(least, even), even, max(alike, even)
