"""Clusters as text for people."""

from typing import Any

from analyses.job.text import MAX_LINES, privacy_lines


def clustering_lines(result: dict[str, Any]) -> list[str]:
    """Return each cluster with its rows and its centre, and whether the clusters are more than noise."""
    lines = []
    for number, (centre, rows, error) in enumerate(
        zip(result["centres"], result["weights"], result["standard_errors"], strict=True), start=1
    ):
        lines.append(f"cluster {number} (about {rows:,.0f} rows, standard error {error:,.0f})")
        lines += [f"  {value:.6g}  {name}" for value, name in zip(centre, result["columns"], strict=True)][:MAX_LINES]
        if len(centre) > MAX_LINES:
            lines.append(f"  and {len(centre) - MAX_LINES} more columns; --format json has them all")
    return [*lines, *certainty_lines(result), "", *privacy_lines(result)]


def certainty_lines(result: dict[str, Any]) -> list[str]:
    """Return what the centres explain at least, or why they are not distinguishable from noise."""
    lines = []
    if result["explained_at_least"] is not None and not result["note"]:
        share = result["explained_at_least"]
        lines.append(f"the centres explain at least {share:.0%} of how cells lie about one centre, in 19 of 20 cases")
    return lines + ([result["note"]] if result["note"] else [])
