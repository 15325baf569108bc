"""Clusters: their centres, and about how many rows each has."""

from collections.abc import Mapping
from typing import Any

from analyses.drawing.chart import Cells, Picture, PictureError, around, rows_of, shown

MAX_CLUSTERS = 12
MAX_COLUMNS = 25


def picture(result: Mapping[str, Any]) -> Picture:
    """Return a table of the centres, each column shaded from its smallest to its largest, and the clusters' weights."""
    names, centres, weights = result["columns"], result["centres"], result["weights"]
    if not centres:
        raise PictureError("there is nothing to draw: no cluster")
    clusters = sorted(sorted(range(len(centres)), key=lambda at: -weights[at])[:MAX_CLUSTERS])
    note = (
        [] if len(clusters) == len(centres) else [f"The {len(clusters)} largest of {len(centres)} clusters are shown."]
    )
    columns = list(range(len(names)))
    if len(columns) > MAX_COLUMNS:
        apart = sorted(columns, key=lambda at: -_apart([centres[cluster][at] for cluster in clusters]))
        columns = sorted(apart[:MAX_COLUMNS])
        left_out = len(names) - MAX_COLUMNS
        note.append(f"The {MAX_COLUMNS} of {len(names)} columns that differ most are shown; {left_out} are left out.")
    table = Cells(
        title="Centres of the clusters, in the units of the columns",
        labels=tuple(names[at] for at in columns),
        heads=tuple(f"cluster {at + 1}\n{shown(round(weights[at]))} rows" for at in clusters),
        values=tuple(tuple(centres[cluster][at] for cluster in clusters) for at in columns),
        note=(*note, "Darker: nearer to the largest of a column's centres."),
    )
    sizes = rows_of(
        [f"cluster {at + 1}" for at in range(len(weights))],
        weights,
        around(weights, result.get("standard_errors")),
        title="Sizes of the clusters",
        axis="rows, about",
        what="clusters",
        has_bars=True,
        note=[f"{said[0].upper()}{said[1:]}."] if (said := result.get("note")) else [],
    )
    return Picture((table, sizes))


def _apart(values: list[float]) -> float:
    """Return how far values lie apart, in parts of the largest."""
    return (max(values) - min(values)) / (max(map(abs, values)) or 1.0)
