"""The result of a job as lines of text for people: whose rows it is about, what was found, what it costs."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from analyses.job.forecast import NORMAL_95
from analyses.job.job import UNCHECKED_ORDER, Job
from dp.cost.report import describe

_MAX_DECIMALS, _LARGE = 9, 1e15
"""Decimals, and a size, beyond which numbers are printed with an exponent."""

MAX_LINES = 40
"""Largest number of lines that are printed of a nested part of a result; the JSON output has all of them."""


def lines_of_fields(fields: Mapping[str, Any]) -> list[str]:
    """Return a result and what it costs: for any analysis without a text of its own.

    What it says of each column, or of each bin between `edges`, is a table; other fields stand one by one.
    """
    found = {name: value for name, value in fields.items() if name not in ("analysis", "privacy", "receipts")}
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
    lines += _one_by_one({name: value for name, value in found.items() if name not in beside})
    return [*lines, *(["", *privacy_lines(fields)] if "privacy" in fields else [])]


def table_lines(columns: Mapping[str, Sequence[Any]]) -> list[str]:
    """Return a table as lines of text: the first column on the left, what follows below its name on the right.

    Args:
        columns: name to values, all of the same number. Of more than `MAX_LINES` rows the first are shown.
    """
    shown = {name: [inline(value) for value in values[:MAX_LINES]] for name, values in columns.items()}
    widths = {name: max(map(len, [name, *values])) for name, values in shown.items()}
    first = next(iter(shown))
    rows = [dict(zip(shown, row, strict=True)) for row in zip(*shown.values(), strict=True)]
    lines = [
        "  ".join(f"{row[name]:{'<' if name == first else '>'}{width}}" for name, width in widths.items()).rstrip()
        for row in [{name: name for name in shown}, *rows]
    ]
    n_left_out = len(columns[first]) - len(rows)
    return [*lines, *([f"and {n_left_out} more rows; --format json has them all"] if n_left_out else [])]


def rounded_alike(value: float | None, half: float | None) -> tuple[str, str]:
    """Return a value and half of its 95 % interval as text: the half with two significant digits, the value alike.

    Without an error, or with one of 0, all digits of a short number are printed; so are those of extreme numbers.
    """
    if value is None or not half or not math.isfinite(half):
        return inline(value), inline(half)
    short = float(f"{half:.2g}")
    decimals = 1 - math.floor(math.log10(short))
    if decimals > _MAX_DECIMALS or abs(value) >= _LARGE or short >= _LARGE:
        return inline(float(value)), f"{half:.2g}"
    shown = max(decimals, 0)
    return f"{round(value, decimals) + 0.0:.{shown}f}", f"{short:.{shown}f}"  # + 0.0: no -0


def columns_alike(values: Sequence[float | None], halves: Sequence[float | None]) -> tuple[list[str], list[str]]:
    """Return two columns of a table, each row rounded by `rounded_alike`."""
    rows = [rounded_alike(value, half) for value, half in zip(values, halves, strict=True)]
    return [value for value, _ in rows], [half for _, half in rows]


def half_intervals(standard_errors: Sequence[float | None]) -> list[float | None]:
    """Return half of the 95 % interval of each value, by its standard error; None where that is not stated."""
    return [None if error is None else NORMAL_95 * error for error in standard_errors]


def closing_lines(fields: Mapping[str, Any]) -> list[str]:
    """Return the last lines of a result: whose corrupted shares were corrected, if anyone's, and what it costs."""
    named = ", ".join(fields.get("wrong_shares_from") or ())
    corrected = [f"corrupted shares (corrected) from: {named}"] if named else []
    return [*corrected, *(["", *privacy_lines(fields)] if "privacy" in fields else [])]


def privacy_lines(fields: Mapping[str, Any]) -> list[str]:
    """Return what a result costs, in both views."""
    return ["privacy", *(f"  {line}" for line in describe(fields["privacy"]))]


def some_of(names: Sequence[str], most: int = 8) -> str:
    """Return the first names of a list, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _one_by_one(fields: Mapping[str, Any], indent: str = "") -> list[str]:
    """Return a line per number or list of names, an indented block for what is nested and for numbers without names."""
    lines = []
    for name, value in fields.items():
        if name.endswith("interval") and _is_numbers(value) and len(value) == 2:
            lines.append(f"{indent}{name}: {inline(value[0])} to {inline(value[1])}")
            continue
        nested = (
            value if isinstance(value, dict) and value else dict(enumerate(value, 1)) if _is_nested(value) else None
        )
        if nested is None:
            lines.append(f"{indent}{name}: {inline(value)}")
            continue
        block = _one_by_one({str(key): inner for key, inner in nested.items()}, indent + "  ")
        shown = block[:MAX_LINES]
        lines += [f"{indent}{name}:", *shown]
        if len(block) > len(shown):
            lines.append(f"{indent}  and {len(block) - len(shown)} more lines; --format json has them all")
    return lines


def _is_numbers(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list) and all(one is None or (isinstance(one, int | float)) for one in value)


def _is_nested(value: object) -> bool:
    return isinstance(value, list) and any(not isinstance(inner, str) for inner in value)


def inline(value: object) -> str:
    """Return a value as text that fits in a line."""
    if isinstance(value, list | dict):
        return ", ".join(map(inline, value)) or "none"
    return f"{value:.6g}" if isinstance(value, float) else "none" if value is None else str(value)


def whose_rows(job: Job, *, joins: bool) -> str:
    """Return which rows of which parties a job is about.

    Args:
        job: what was asked for.
        joins: whether rows of all tables belong together (`Analysis.joins`); otherwise each row is of one party alone.
    """
    owners = [brought.party for brought in job.inputs]
    named = owners[0] if len(owners) == 1 else f"{', '.join(owners[:-1])} and {owners[-1]}"
    found = _which(job, named, len(owners), joins)
    filters = [f"{brought.party} by its filter {brought.where}" for brought in job.inputs if brought.where is not None]
    return f"{found}; only some rows count: of {', of '.join(filters)}" if filters else found


def _which(job: Job, named: str, n_owners: int, joins: bool) -> str:
    if n_owners == 1:
        return f"rows of {named}"
    if not joins:
        return f"rows of {named} together, each row of one of them"
    if job.matching is not None:
        if job.matching.kind == "secret":
            return f"rows that {named} share, matched in secret"
        if job.matching.match is not None:
            return f"rows that {named} share, by the match that they kept of job {job.matching.match}"
        return f"rows that {named} share, matched by what identifies them"
    if job.order == "trusted":
        return f"rows of {named}, joined in the order of their tables: {UNCHECKED_ORDER}"
    return f"rows of {named}, whose tables list the same ids in the same order"


def about_lines(job: Job, result: Mapping[str, Any], *, joins: bool) -> list[str]:
    """Return whose rows a result is about, and about how many there are, where the result tells.

    Args:
        job: what was asked for.
        result: result of the job. Its `n_rows` is about the number of rows, and `n_rows_standard_error` its error.
        joins: see `whose_rows`.
    """
    return [f"about {whose_rows(job, joins=joins)}: {how_many(result)}"]


def how_many(result: Mapping[str, Any]) -> str:
    """Return about how many rows there are, with half of a 95 % interval where the error is known."""
    n_rows, error = result.get("n_rows", result.get("rows")), result.get("n_rows_standard_error")
    if not isinstance(n_rows, int | float):
        return "their number is not released"
    if error is None:
        return f"about {n_rows:,.0f}"
    half = NORMAL_95 * error
    shown = max(half, 1.0) if error else 0.0  # an error below half a row is no exact number
    if n_rows <= half:
        return f"about {n_rows:,.0f} +- {shown:,.0f}, which may be none at all"
    return f"about {n_rows:,.0f} +- {shown:,.0f}"
