"""The error of a moment before it is asked for."""

from math import sqrt

from analyses.job.declared_rows import declared_rows
from analyses.job.forecast import Forecast, Quantity, Signal
from analyses.power_moments.plan import MomentsPlan

_SKETCHED = (
    "A sketch errs in proportion to the moment. In the best case all values are 0. In the bad case the tables have the "
    "most rows that are declared, all with the largest values."
)
_REPORTED = (
    "In the best case all values are 0. In the bad case all rows have the largest values, and each is counted in the "
    "way that errs more: by its noisy sum, or by bits."
)


def signal(plan: MomentsPlan) -> Signal:
    """Return the least error of the moment beside that of as many rows as may be, with the largest values."""
    shared = plan.params.method in ("mpc", "laplace", "sketch")
    return Signal(
        "the error of the moment",
        plan.least_deviation,
        "the moment of the most rows that are declared, with the largest values,",
        _largest_moment(plan),
        f"units of order {plan.params.order}",
        rows_power=1.0 if shared else 0.5,
        instead="" if plan.params.method == "mpc" else "method 'mpc'",
    )


def forecast(plan: MomentsPlan) -> Forecast:
    """Return the standard error of the moment."""
    method, most = plan.params.method, _largest_moment(plan)
    error = best = plan.least_deviation
    bad = error
    assumptions: tuple[str, ...] = ()
    if method == "sketch":
        error, bad = (
            sqrt(2 / plan.params.sketch_rows) * (moment + sum(plan.sketch.variances)) for moment in (most / 4, most)
        )
        assumptions = (_SKETCHED,)
    elif method == "threshold":
        bad = max(error, plan.reports.largest_deviation(plan.params.max_rows, sum(plan.largest)))
        assumptions = (_REPORTED,)
    is_range = bool(assumptions)
    quantity = Quantity(
        "moment",
        f"sum of powers of order {plan.params.order}",
        error,
        least=0.0,
        largest=most,
        best_case=best if is_range else None,
        bad_case=bad if is_range else None,
    )
    return Forecast((quantity,), assumptions)


def _largest_moment(plan: MomentsPlan) -> float:
    return float(declared_rows(plan.job, plan.schemas).most * sum(plan.largest) ** plan.params.order)
