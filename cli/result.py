"""A job and its result as text for people."""

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from transport.coordinator_client import JobView

MOST_LINES = 40
"""Of a nested part of a result."""

LARGEST_ENTRIES = 6
"""So many columns of a component are printed, by size; JSON has them all."""


def summary_of(view: JobView) -> str:
    """Return the lines of `moiety job show`."""
    lines = [f"job {view.job_id}: {view.analysis}, {view.state}"]
    lines.append(f"submitted {_clock(view.submitted_at_s)}")
    if view.ended_at_s:
        lines[-1] += f", ended {_clock(view.ended_at_s)} after {view.ended_at_s - view.submitted_at_s:.1f} s"
    if view.reason:
        lines.append(f"reason: {view.reason}")
    if view.culprit:
        lines.append(f"at fault: {view.culprit}")
    if view.stage:
        lines.append(f"stage: {view.stage}")
    if view.result_json:
        result = json.loads(view.result_json)
        lines += ["", *_LINES_OF.get(view.analysis, _any_lines)(result)]
    return "\n".join(lines)


def _pca_lines(result: dict[str, Any]) -> list[str]:
    lines = []
    pairs = zip(result["components"], result["eigenvalues"], strict=False)  # the eigenvalues of all columns are there
    for number, (component, eigenvalue) in enumerate(pairs, start=1):
        lines.append(f"component {number} (eigenvalue {eigenvalue:.6g})")
        entries = sorted(zip(component, result["columns"], strict=True), key=lambda entry: -abs(entry[0]))
        lines += [f"  {weight:+.4f}  {column}" for weight, column in entries[:LARGEST_ENTRIES]]
        if len(entries) > LARGEST_ENTRIES:
            lines.append(f"  and {len(entries) - LARGEST_ENTRIES} smaller ones")
    if result["wrong_shares_from"]:
        lines.append(f"wrong shares, corrected, from: {', '.join(result['wrong_shares_from'])}")
    return [*lines, "", *_privacy_lines(result)]


def _logistic_lines(result: dict[str, Any]) -> list[str]:
    weights = zip(result["weights"], result["columns"], strict=True)
    steps = f"log odds that {result['label']} is 1, after {result['iterations']} steps"
    lines = [f"{steps}: {result['intercept']:+.6g} and, per unit of each column,"]
    lines += [f"  {weight:+.6g}  {column}" for weight, column in weights]
    if result["wrong_shares_from"]:
        lines.append(f"wrong shares, corrected, from: {', '.join(result['wrong_shares_from'])}")
    return [*lines, "", *_privacy_lines(result)]


def _any_lines(result: dict[str, Any]) -> list[str]:
    found = {name: value for name, value in result.items() if name not in ("analysis", "privacy")}
    return [*_lines_of_fields(found), *(["", *_privacy_lines(result)] if "privacy" in result else [])]


def _lines_of_fields(fields: Mapping[str, Any], indent: str = "") -> list[str]:
    """Return a line per number or short list, an indented block for what is nested."""
    lines = []
    for name, value in fields.items():
        nested = value if isinstance(value, dict) else dict(enumerate(value)) if _is_nested(value) else None
        if nested is None:
            lines.append(f"{indent}{name}: {_inline(value)}")
            continue
        block = _lines_of_fields({str(key): inner for key, inner in nested.items()}, indent + "  ")
        shown = block[:MOST_LINES]
        lines += [f"{indent}{name}:", *shown]
        if len(block) > len(shown):
            lines.append(f"{indent}  and {len(block) - len(shown)} more lines; --format json has them all")
    return lines


def _is_nested(value: object) -> bool:
    return isinstance(value, list) and any(isinstance(inner, list | dict) for inner in value)


def _inline(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(_inline, value)) or "none"
    return f"{value:.6g}" if isinstance(value, float) else "none" if value is None else str(value)


def _privacy_lines(result: dict[str, Any]) -> list[str]:
    from dp.report import describe

    return ["privacy", *(f"  {line}" for line in describe(result["privacy"]))]


_LINES_OF: dict[str, Callable[[dict[str, Any]], list[str]]] = {
    "logistic-regression": _logistic_lines,
    "low-rank": _pca_lines,
    "pca": _pca_lines,
}


def _clock(at_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at_s))
