"""The result of a distribution as text for people."""

from typing import Any

from analyses.job.text import privacy_lines

MAX_COARSE_PARAMETER = 25
"""Epsilon falls about like one over the root of the parameter, so above it a step moves epsilon by less than 2 %."""


def lines_of_distribution(result: dict[str, Any]) -> list[str]:
    """Return mean, quantiles, queries and privacy of a result, one line each."""
    half = result["half_widths"]

    def width(name: str, at: int | None = None) -> str:
        found = None if half is None else half[name]
        return "" if found is None else f" +- {found if at is None else found[at]:.2g}"

    lines = [f"{result['method']}: about {result['rows']:.0f} rows, mean {result['mean']:.6g}{width('mean')}"]
    for at, (level, value) in enumerate(result["quantiles"]):
        lines.append(f"  {100 * level:g} % below {value:.6g}{width('quantiles', at)}")
    for at, (lower, upper, probability) in enumerate(result["queries"]):
        lines.append(f"  from {lower:g} to {upper:g}: {probability:.4f}{width('queries', at)}")
    if result["has_converged"] is False:
        lines.append("  The estimate did not converge.")
    if result["gain_of_a_response"] is None and "survivors" in result:
        lines.append("  A party that lies about its counts can move all of this without bound.")
        if (mu := result["privacy"]["parameters"]["mu"]) <= MAX_COARSE_PARAMETER:
            lines.append(
                f"  The parameter of the noise is a whole number, {mu}: less epsilon may be spent than was asked for."
            )
    return [*lines, "", *privacy_lines(result)]
