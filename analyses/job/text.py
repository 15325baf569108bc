"""The result of a job as lines of text for people."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from analyses.drawing.chart import NORMAL_95
from dp.cost.report import describe

MAX_LINES = 40
"""Largest number of lines that are printed of a nested part of a result; the JSON output has all of them."""


def lines_of_result(result: dict[str, Any]) -> list[str]:
    """Return a result and what it costs: for any analysis without a text of its own.

    What it says of each column, or of each bin between `edges`, is a table; other fields stand one by one.
    """
    found = {name: value for name, value in result.items() if name not in ("analysis", "privacy")}
    table: dict[str, Sequence[Any]] = {}
    for name in ("columns", "features"):
        if isinstance(found.get(name), list) and all(isinstance(one, str) for one in found[name]):
            table = {"column": found.pop(name)}
            break
    else:
        if _is_numbers(found.get("edges")):
            edges = found.pop("edges")
            table = {"from": edges[:-1], "to": edges[1:]}
    n_rows = len(next(iter(table.values()), ()))
    beside = {name: value for name, value in found.items() if n_rows and _is_numbers(value) and len(value) == n_rows}
    if not beside:
        found |= {"columns": table["column"]} if "column" in table else {}
    lines = [*(table_lines(table | beside) if beside else [])]
    lines += _lines_of_fields({name: value for name, value in found.items() if name not in beside})
    return [*lines, *(["", *privacy_lines(result)] if "privacy" in result else [])]


def table_lines(columns: Mapping[str, Sequence[Any]]) -> list[str]:
    """Return a table as lines of text: the first column on the left, what follows below its name on the right.

    Args:
        columns: name to values, all of the same number. Of more than `MAX_LINES` rows the first are shown.
    """
    shown = {name: [_inline(value) for value in values[:MAX_LINES]] for name, values in columns.items()}
    widths = {name: max(map(len, [name, *values])) for name, values in shown.items()}
    first = next(iter(shown))
    rows = [dict(zip(shown, row, strict=True)) for row in zip(*shown.values(), strict=True)]
    lines = [
        "  ".join(f"{row[name]:{'<' if name == first else '>'}{width}}" for name, width in widths.items()).rstrip()
        for row in [{name: name for name in shown}, *rows]
    ]
    n_left_out = len(columns[first]) - len(rows)
    return [*lines, *([f"and {n_left_out} more rows; --format json has them all"] if n_left_out else [])]


def half_intervals(standard_errors: Sequence[float | None]) -> list[float | None]:
    """Return half of the 95 % interval of each value, by its standard error; None where that is not stated."""
    return [None if error is None else NORMAL_95 * error for error in standard_errors]


def wrong_share_lines(result: dict[str, Any]) -> list[str]:
    """Return a line that names the parties whose corrupted shares were corrected; no line if there are none."""
    named = ", ".join(result["wrong_shares_from"])
    return [f"corrupted shares (corrected) from: {named}"] if named else []


def privacy_lines(result: dict[str, Any]) -> list[str]:
    """Return what a result costs, in both views."""
    return ["privacy", *(f"  {line}" for line in describe(result["privacy"]))]


def _lines_of_fields(fields: Mapping[str, Any], indent: str = "") -> list[str]:
    """Return a line per number or list of names, an indented block for what is nested and for numbers without names."""
    lines = []
    for name, value in fields.items():
        if name.endswith("interval") and _is_numbers(value) and len(value) == 2:
            lines.append(f"{indent}{name}: {_inline(value[0])} to {_inline(value[1])}")
            continue
        nested = (
            value if isinstance(value, dict) and value else dict(enumerate(value, 1)) if _is_nested(value) else None
        )
        if nested is None:
            lines.append(f"{indent}{name}: {_inline(value)}")
            continue
        block = _lines_of_fields({str(key): inner for key, inner in nested.items()}, indent + "  ")
        shown = block[:MAX_LINES]
        lines += [f"{indent}{name}:", *shown]
        if len(block) > len(shown):
            lines.append(f"{indent}  and {len(block) - len(shown)} more lines; --format json has them all")
    return lines


def _is_numbers(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list) and all(one is None or (isinstance(one, int | float)) for one in value)


def _is_nested(value: object) -> bool:
    return isinstance(value, list) and any(not isinstance(inner, str) for inner in value)


def _inline(value: object) -> str:
    if isinstance(value, list | dict):
        return ", ".join(map(_inline, value)) or "none"
    return f"{value:.6g}" if isinstance(value, float) else "none" if value is None else str(value)
