"""Pattern counts as text for people."""

from typing import Any

import numpy as np

from analyses.job.text import MAX_LINES, half_intervals, privacy_lines, table_lines, wrong_share_lines
from analyses.pictures.pattern_count import patterns_of


def count_lines(result: dict[str, Any]) -> list[str]:
    """Return a table with the category of each column, in the order of the job, and the count; of many, the largest."""
    counts, errors = (np.array(result[name], dtype=np.float64).ravel() for name in ("counts", "standard_errors"))
    kept = np.sort(np.argsort(-counts, kind="stable")[:MAX_LINES])
    patterns = [patterns_of(result)[at] for at in kept]
    table: dict[str, list[Any]] = {
        name: [str(pattern[at]) for pattern in patterns] for at, name in enumerate(result["columns"])
    }
    table |= {"rows": counts[kept].tolist(), "+-": half_intervals(errors[kept].tolist())}
    lines = [f"rows with each pattern, by method {result['method']}", *table_lines(table)]
    if len(kept) < len(counts):
        lines.append(f"and {len(counts) - len(kept)} patterns with smaller counts; --format json has them all")
    return [*lines, "+- is half of a 95 % interval", *wrong_share_lines(result), "", *privacy_lines(result)]
