"""Rows that an analyst gives to a result: a data frame, a mapping of columns, or an array."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

Bounds = Mapping[str, tuple[float, float]]
"""Column of the joint table, `party.column`, to its public bounds."""


class RowsError(ValueError):
    """The rows cannot be used; the text says why and shows none of their values."""

    code: str = "rows-unusable"


def clipped_rows(rows: Any, names: Sequence[str], bounds: Bounds) -> Floats:
    """Return rows as an array with one column per name, each value within its public bounds, as at the owners.

    Args:
        rows: a data frame of polars or pandas or a mapping, whose columns are found by name and may be more; or an
            array of shape (rows, names), whose columns are in the order of the names.
        names: names of the columns.
        bounds: bounds of the columns.

    Raises:
        RowsError: a column is missing, is not of numbers or holds one that is not finite, the shape is wrong, or no
            bounds of a column are known.
    """
    try:
        if isinstance(rows, Mapping) or hasattr(rows, "columns"):
            found = set(rows if isinstance(rows, Mapping) else rows.columns)
            missing = [name for name in names if name not in found]
            if missing:
                raise RowsError(f"the rows have no column {missing[0]!r}; needed are {', '.join(names)}")
            values = np.column_stack([np.asarray(rows[name], dtype=np.float64) for name in names])
        else:
            values = np.asarray(rows, dtype=np.float64)
    except (TypeError, ValueError) as error:
        if isinstance(error, RowsError):
            raise
        raise RowsError("the rows hold something else than numbers, or columns of different lengths") from None
    if values.ndim != 2 or values.shape[1] != len(names):
        raise RowsError(f"the rows must have {len(names)} columns: {', '.join(names)}")
    if not np.isfinite(values).all():
        raise RowsError("the rows hold a value that is missing, or is not a finite number")
    unbounded = [name for name in names if name not in bounds]
    if unbounded:
        raise RowsError(f"the plan of this job states no bounds of {unbounded[0]}, so rows cannot be clipped to them")
    lower, upper = np.array([bounds[name] for name in names]).reshape(-1, 2).T
    return np.clip(values, lower, upper)
