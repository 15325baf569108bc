"""Principal components as text for people."""

from typing import Any

from analyses.job.text import privacy_lines, wrong_share_lines

MAX_ENTRIES = 6
"""At most this many columns of a component are printed, those of largest weight; JSON has all of them."""


def component_lines(result: dict[str, Any]) -> list[str]:
    """Return each component with its eigenvalue and its largest weights."""
    lines = []
    pairs = zip(result["components"], result["eigenvalues"], strict=False)  # the eigenvalues of all columns are there
    for number, (component, eigenvalue) in enumerate(pairs, start=1):
        lines.append(f"component {number} (eigenvalue {eigenvalue:.6g})")
        entries = sorted(zip(component, result["columns"], strict=True), key=lambda entry: -abs(entry[0]))
        lines += [f"  {weight:+.4f}  {column}" for weight, column in entries[:MAX_ENTRIES]]
        if len(entries) > MAX_ENTRIES:
            lines.append(f"  and {len(entries) - MAX_ENTRIES} smaller ones")
    return [*lines, *wrong_share_lines(result), "", *privacy_lines(result)]
