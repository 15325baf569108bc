"""The weights of a logistic regression as text for people."""

from typing import Any

from analyses.job.text import half_intervals, privacy_lines, wrong_share_lines


def weight_lines(result: dict[str, Any]) -> list[str]:
    """Return the intercept and the weight of each column."""
    how = f"after {result['iterations']} steps" if result["method"] == "gradient" else "by second moments"
    lines = [f"log odds that {result['label']} is 1, {how}: {result['intercept']:+.6g} and, per unit of each column,"]
    errors = result.get("standard_errors") or [None] * len(result["columns"])
    for weight, half, column in zip(result["weights"], half_intervals(errors), result["columns"], strict=True):
        lines.append(f"  {weight:+.6g}{f' +- {half:.2g}' if half is not None else ''}  {column}")
    if result.get("standard_errors"):
        lines.append("+- is half of a 95 % interval, for noise and chance together")
    if result.get("note"):
        lines += ["", result["note"]]
    return [*lines, *wrong_share_lines(result), "", *privacy_lines(result)]
