"""The result of a job as lines of text for people."""

from collections.abc import Mapping
from typing import Any

from dp.cost.report import describe

MAX_LINES = 40
"""Largest number of lines that are printed of a nested part of a result; the JSON output has all of them."""


def lines_of_result(result: dict[str, Any]) -> list[str]:
    """Return a result field by field, and what it costs: for any analysis without a text of its own."""
    found = {name: value for name, value in result.items() if name not in ("analysis", "privacy")}
    return [*_lines_of_fields(found), *(["", *privacy_lines(result)] if "privacy" in result else [])]


def wrong_share_lines(result: dict[str, Any]) -> list[str]:
    """Return a line that names the parties whose corrupted shares were corrected; no line if there are none."""
    named = ", ".join(result["wrong_shares_from"])
    return [f"corrupted shares (corrected) from: {named}"] if named else []


def privacy_lines(result: dict[str, Any]) -> list[str]:
    """Return what a result costs, in both views."""
    return ["privacy", *(f"  {line}" for line in describe(result["privacy"]))]


def _lines_of_fields(fields: Mapping[str, Any], indent: str = "") -> list[str]:
    """Return a line per number or short list, an indented block for what is nested."""
    lines = []
    for name, value in fields.items():
        nested = value if isinstance(value, dict) else dict(enumerate(value)) if _is_nested(value) else None
        if nested is None:
            lines.append(f"{indent}{name}: {_inline(value)}")
            continue
        block = _lines_of_fields({str(key): inner for key, inner in nested.items()}, indent + "  ")
        shown = block[:MAX_LINES]
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
