"""Rows that an analyst gives to a result: a data frame, a mapping of columns, or an array.

They are made what the owners' rows were before scaling: categories become indicators, gaps their own column where the
owner declares one (`party.tables.kinds`), values are brought within their public bounds.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

Bounds = Mapping[str, tuple[float, float]]
"""Column of the joint table, `party.column`, to its public bounds."""

Sources = Mapping[str, str]
"""Encoded column that has others beside it to the column of the owner's table that all come from, `party.column`."""


class RowsError(ValueError):
    """The rows cannot be used; the text says why and shows none of their values."""

    code: str = "rows-unusable"


def clipped_rows(rows: Any, names: Sequence[str], bounds: Bounds, sources: Sources) -> Floats:
    """Return rows as an array with one column per name, each value within its public bounds, as at the owners.

    Args:
        rows: a data frame of polars or pandas or a mapping, whose columns are found by name and may be more; or an
            array of shape (rows, names), whose columns are in the order of the names. A frame may have a category, with
            values spelled as in the names of its columns, in their place, and a number with gaps in that of the number
            and the indicator of its gaps.
        names: names of the columns.
        bounds: bounds of the columns.
        sources: where columns come from that are several.

    Raises:
        RowsError: a column is missing, is not of numbers or holds one that is not finite, a category has a value that
            the owner does not list, indicators are no indicators, the shape is wrong, or no bounds are known.
    """
    unbounded = [name for name in names if name not in bounds]
    if unbounded:
        raise RowsError(f"the plan of this job states no bounds of {unbounded[0]}, so rows cannot be clipped to them")
    groups = defaultdict[str, list[str]](list)
    for name in names:
        groups[sources.get(name, name)].append(name)
    if isinstance(rows, Mapping) or hasattr(rows, "columns"):
        columns = {name: one for source, own in groups.items() for name, one in _columns(rows, source, own).items()}
        if len({len(one) for one in columns.values()}) > 1:
            raise RowsError("the rows hold columns of different lengths")
        values = np.column_stack([columns[name] for name in names])
    else:
        try:
            values = np.asarray(rows, dtype=np.float64)
        except (TypeError, ValueError):
            raise RowsError("the rows hold something else than numbers, or rows of different lengths") from None
    if values.ndim != 2 or values.shape[1] != len(names):
        raise RowsError(f"the rows must have {len(names)} columns: {', '.join(names)}")
    for at, name in enumerate(names):
        if np.isnan(values[:, at]).any() or np.isposinf(values[:, at]).any():
            raise RowsError(f"column {name!r} holds a value that is missing, or is not a finite number")
    lower, upper = np.array([bounds[name] for name in names]).reshape(-1, 2).T
    found = np.clip(values, lower, upper)
    for source, own in groups.items():
        places = [names.index(name) for name in own]
        _check_group(source, own, found[:, places], lower[places])
    return found


def _columns(rows: Any, source: str, own: Sequence[str]) -> dict[str, Floats]:
    """Return the encoded columns of a column of the owner's table; -inf where a number is missing."""
    there = set(rows if isinstance(rows, Mapping) else rows.columns)
    missing = [name for name in own if name not in there]
    if missing and source not in there:
        raise RowsError(f"the rows have no column {missing[0]!r}; needed are {source!r} or {', '.join(own)}")
    if not missing:
        return {name: _floats(name, rows[name]) for name in own}
    if source in own:  # a number beside the indicator of its gaps
        values = _floats(source, rows[source])
        gaps = np.isnan(values)
        return {name: np.where(gaps, -np.inf, values) if name == source else gaps.astype(np.float64) for name in own}
    labels = [name[len(source) + 1 :] for name in own]
    texts = [_text(value) for value in rows[source]]
    code_of: dict[str | None, str] = {label: label for label in labels}
    code_of[None] = "missing"
    codes = [code_of.get(text, "other") for text in texts]
    if not set(codes) <= set(labels):
        raise RowsError(f"column {source!r} holds a value that its owner does not list; there are {', '.join(labels)}")
    return {
        name: np.array([code == label for code in codes], dtype=np.float64)
        for name, label in zip(own, labels, strict=True)
    }


def _floats(name: str, values: Any) -> Floats:
    try:
        found = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise RowsError(f"column {name!r} holds something else than numbers") from None
    if found.ndim != 1:
        raise RowsError(f"column {name!r} holds something else than a number in each row")
    return found


def _text(value: Any) -> str | None:
    """Return a value of a category as its owner lists it; None for a gap."""
    if value is None or (isinstance(value, float) and np.isnan(value)) or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, bool | np.bool_):
        return str(value).lower()
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return f"{value:.0f}"
    return str(value).strip() or None


def _check_group(source: str, own: Sequence[str], values: Floats, lower: Floats) -> None:
    """Refuse what no owner's encoder makes: two columns of a group away from their lower bounds, half an indicator."""
    marks = [at for at, name in enumerate(own) if name.startswith(f"{source}=")]
    if not np.isin(values[:, marks], (0.0, 1.0)).all() or (len(own) > 1 and ((values != lower).sum(axis=1) > 1).any()):
        raise RowsError(
            f"the columns of {source!r} are not encoded as its owner does: {', '.join(own)} hold 0 or 1, and at most "
            "one of them is not at its lower bound in a row"
        )
