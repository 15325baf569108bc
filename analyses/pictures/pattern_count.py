"""Pattern counts: how many rows have each combination of categories."""

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np

from analyses.drawing.chart import Picture, around, rows_of

MAX_LABEL = 36
"""Longest label that names the columns; longer ones have the categories alone, and a note names the columns."""


def picture(result: Mapping[str, Any]) -> Picture:
    """Return the counts with 95 % intervals, in the order of the job's columns; of many, the largest."""
    names = result["columns"]
    patterns = patterns_of(result)
    labels = [", ".join(f"{name} {value}" for name, value in zip(names, one, strict=True)) for one in patterns]
    note = []
    if max(map(len, labels), default=0) > MAX_LABEL:
        labels = [", ".join(map(str, one)) for one in patterns]
        note.append(f"Categories of {', '.join(names)}, in this order.")
    counts = np.array(result["counts"], dtype=np.float64).ravel().tolist()
    errors = np.array(result["standard_errors"], dtype=np.float64).ravel().tolist()
    panel = rows_of(
        labels,
        counts,
        around(counts, errors),
        title="Rows with each pattern",
        axis="rows",
        what="patterns",
        has_bars=True,
        note=note,
    )
    return Picture((panel,))


def patterns_of(result: Mapping[str, Any]) -> list[tuple[int, ...]]:
    """Return the combinations of categories, one category for each of `columns`, in the order of the flat counts."""
    bounds = [result["categories"][name] for name in result["columns"]]
    return list(product(*(range(int(lower), int(upper) + 1) for lower, upper in bounds)))
