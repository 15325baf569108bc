"""A result as HTML for notebooks. All text is escaped: titles and names are other people's."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from results.generic.text import inline

MAX_ROWS = 30
"""Rows of a table that are shown; `to_polars()` has all."""


def page_of(
    title: str, columns: Mapping[str, Sequence[Any]], notes: Sequence[str], pictures: Sequence[str] = ()
) -> str:
    """Return a title, pictures, a table and notes.

    Args:
        title: what was asked for.
        columns: name to values, all of the same number.
        notes: lines below the table, kept as they are.
        pictures: elements of HTML, which are not escaped again.
    """
    n_rows = max(map(len, columns.values()), default=0)
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    rows = (
        "<tr>" + "".join(f"<td>{escape(_cell(values[at]))}</td>" for values in columns.values()) + "</tr>"
        for at in range(min(n_rows, MAX_ROWS))
    )
    more = f"<p>and {n_rows - MAX_ROWS} more rows</p>" if n_rows > MAX_ROWS else ""
    below = f"<pre>{escape(chr(10).join(notes))}</pre>" if notes else ""
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>" if columns else ""
    return f"<div><p><strong>{escape(title)}</strong></p>{''.join(pictures)}{table}{more}{below}</div>"


def _cell(value: Any) -> str:
    return "" if value is None else inline(value)
