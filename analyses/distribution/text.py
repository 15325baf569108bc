"""The result of a distribution as text for people."""

from typing import Any

from dp.cost.report import describe


def lines_of_distribution(result: dict[str, Any]) -> list[str]:
    """Return mean, quantiles and privacy of a result, one line each."""
    half = result.get("half_widths")
    mean = f"mean {result['mean']:.6g}" + (f" +- {half['mean']:.2g}" if half else "")
    lines = [f"{result['method']}: about {result['rows']:.0f} rows, {mean}"]
    for at, (level, value) in enumerate(result["quantiles"]):
        lines.append(f"  {100 * level:g} % below {value:.6g}" + (f" +- {half['quantiles'][at]:.2g}" if half else ""))
    if result.get("has_converged") is False:
        lines.append("  The estimate did not converge.")
    return [*lines, *describe(result["privacy"])]
