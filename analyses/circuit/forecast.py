"""The errors of the sums that a program opens, before it runs."""

from analyses.circuit.functions import size_of
from analyses.circuit.plan import CircuitPlan
from analyses.job.declared_rows import declared_rows
from analyses.job.forecast import Forecast, Quantity, Signal


def signal(plan: CircuitPlan) -> Signal:
    """Return the error of one sum beside its largest value: that of the sum that is easiest to see in its noise."""
    most = declared_rows(plan.job, plan.schemas).most
    each = zip(plan.program.opened, plan.standard_errors, plan.opened_ranges, strict=True)
    sizes = [(size_of(of) * most, error, step.name) for step, error, of in each]
    size, error, name = max(sizes, key=lambda one: one[0] / one[1])
    return Signal(f"the error of {name}", error, f"the largest {name}", float(size), "")


def forecast(plan: CircuitPlan) -> Forecast:
    """Return the standard error of each sum; it does not depend on the rows."""
    declared = declared_rows(plan.job, plan.schemas)
    least = declared.least if plan.params.unit == "record" else 0
    each = zip(plan.program.opened, plan.standard_errors, plan.opened_ranges, strict=True)
    return Forecast(
        tuple(
            Quantity(
                step.name,
                "units of the sum",
                error,
                least=float(min(low * declared.most, low * least)),
                largest=float(max(high * declared.most, high * least)),
            )
            for step, error, (low, high) in each
        )
    )
