"""The weights of a logistic regression as text for people."""

from typing import Any

from analyses.job.text import privacy_lines, wrong_share_lines


def weight_lines(result: dict[str, Any]) -> list[str]:
    """Return the intercept and the weight of each column."""
    weights = zip(result["weights"], result["columns"], strict=True)
    steps = f"log odds that {result['label']} is 1, after {result['iterations']} steps"
    lines = [f"{steps}: {result['intercept']:+.6g} and, per unit of each column,"]
    lines += [f"  {weight:+.6g}  {column}" for weight, column in weights]
    return [*lines, *wrong_share_lines(result), "", *privacy_lines(result)]
