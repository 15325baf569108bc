"""The error of a moment before it is asked for."""

from math import sqrt

from analyses.job.declared_rows import declared_rows
from analyses.job.forecast import Forecast, Quantity, Signal
from analyses.power_moments.plan import MomentsPlan

_HALF = (
    "The tables have the most rows that are declared, and each row's sum is half of the largest possible one: a sketch "
    "errs in proportion to the moment."
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
    error = plan.least_deviation
    assumptions: tuple[str, ...] = ()
    if method == "sketch":
        expected = declared_rows(plan.job, plan.schemas).most * (sum(plan.largest) / 2) ** 2
        error = sqrt(2 / plan.params.sketch_rows) * (expected + sum(plan.sketch.variances))
        assumptions = (_HALF,)
    elif method == "threshold":
        assumptions = ("All values are 0: with larger ones the error is larger, and how much depends on the values.",)
    quantity = Quantity("moment", f"sum of powers of order {plan.params.order}", error, least=0.0, largest=most)
    return Forecast((quantity,), assumptions)


def _largest_moment(plan: MomentsPlan) -> float:
    return float(declared_rows(plan.job, plan.schemas).most * sum(plan.largest) ** plan.params.order)
