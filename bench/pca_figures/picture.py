"""Figure 2 of [SPCA24] as a private picture: where connections lie on two components, with nobody seeing a point.

Two jobs over three services, which share epsilon: the components, and then counts of rows in fields of the plane of the
two scores, by `examples/programs/scores.py`. In between each owner computes its part of the scores from its own columns
and the released components.
"""

import asyncio
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analyses.job.job import Job
from analyst.recording import record
from bench.jobs.federation import running_federation
from bench.pca_figures.measured import Point
from demo.data_sets.kdd import ID_COLUMN, KddParties, write_kdd_parties
from demo.job import example_job
from demo.local_deployment import LocalTable

Floats = NDArray[np.float64]

PROGRAM = Path(__file__).parents[2] / "examples" / "programs" / "scores.py"
OWNERS = {"bank": "carrier", "clinic": "host", "shop": "monitor"}
"""Owner in the program to party of the demo."""

MARKING = OWNERS["shop"]
SCORES = ("first", "second")
DELTA, SHOWN = 1e-6, 10_000
FIELDS, PER_FIELD = 10, 16
DEVIATIONS = 2.5
"""How many released deviations to either side of the released mean the picture shows."""


def parts_of_scores(data: KddParties, result: Mapping[str, Any]) -> dict[str, tuple[Floats, Floats]]:
    """Return each owner's part of its rows' scores, in sixteenths of a field, and the bounds of both.

    The fields lie around the released mean. The bounds are what columns between theirs allow, so they are public.

    Returns:
        Party to whole numbers, shape (rows, 2), and to bounds, shape (2, 2), the lower ones first.
    """
    components, mean = np.array(result["components"]), np.array(result["mean"])
    units = 2 * DEVIATIONS * np.sqrt(np.array(result["explained_variance"])) / (FIELDS * PER_FIELD)
    middle = FIELDS * PER_FIELD / (2 * len(data.tables))
    found, start = {}, 0
    for party, table in data.tables.items():
        own = slice(start, start + len(table.usual_bounds))
        start = own.stop
        low, high = np.array(list(table.usual_bounds.values())).T
        directions = (components[:, own] / (high - low)).T / units
        ends = [(one - mean[own])[:, None] * directions for one in (low, high)]
        bounds = np.array([least(*ends).sum(axis=0) for least in (np.minimum, np.maximum)])
        values = (np.clip(data.pooled[:, own], low, high) - mean[own]) @ directions
        found[party] = (np.rint(values + middle), np.rint(bounds + middle))
    return found


def exact_counts(parts: Mapping[str, tuple[Floats, Floats]], marks: Floats) -> Floats:
    """Return what the program opens, without noise: rows, those that are marked first, shape (2, fields, fields)."""
    fields = (np.sum([values for values, _ in parts.values()], axis=0) // PER_FIELD).astype(np.int64)
    inside = ((fields >= 0) & (fields < FIELDS)).all(axis=1)
    counts = np.zeros((2, FIELDS, FIELDS))
    np.add.at(counts, (1 - marks[inside].astype(np.int64), *fields[inside].T), 1)
    return counts


def area_of(counts: Floats) -> float:
    """Return the area under the curve of the line that best tells marked rows, of counts by fields; below 0 is 0."""
    weights = np.clip(counts, 0, None).reshape(2, -1)
    places = np.array([(column, row, 1.0) for column in range(FIELDS) for row in range(FIELDS)])
    both, root = weights.sum(axis=0), np.sqrt(weights.sum(axis=0))
    share = np.divide(weights[0], both, out=np.zeros_like(both), where=both > 0)
    line = places @ np.linalg.lstsq(places * root[:, None], share * root, rcond=None)[0]
    order = np.argsort(line)
    marked, other = weights[:, order]
    below = np.cumsum(other) - other / 2
    return float((marked * below).sum() / (marked.sum() * other.sum()))


def jobs(epsilon: float) -> tuple[Job, Job]:
    """Return the job of the components and that of the counts, each with half of epsilon and delta."""
    text = PROGRAM.read_text(encoding="utf-8")
    for owner, party in OWNERS.items():
        text = text.replace(f'"{owner}"', f'"{party}"')
    budget = {"privacy.epsilon": epsilon / 2, "privacy.delta": DELTA / 2, "privacy.view": "coordinator"}
    brought = [
        {"party": party, "table": "scores", "columns": [*SCORES, *(["mark"] if party == MARKING else [])]}
        for party in OWNERS.values()
    ]
    counts = {"inputs": brought, "title": "Picture of two scores", "parameters.program": list(record(text, "scores"))}
    return (
        example_job("pca", {**budget, "parameters.components": 2}),
        example_job("scorecard", {**budget, **counts}),
    )


async def _run(epsilon: float, rows: int | None, folder: Path) -> tuple[Floats, Floats, float]:
    """Return counts as released and without noise, and the standard error of one."""
    data, (first, second) = write_kdd_parties(folder, rows=rows), jobs(epsilon)
    async with running_federation({party: [table] for party, table in data.tables.items()}) as federation:
        components = (await federation.run(first)).result
    parts, marks, tables = parts_of_scores(data, components), data.on_request[MARKING][:, 0], {}
    for party, (values, bounds) in parts.items():
        table, path = data.tables[party], folder / f"{party}-scores.parquet"
        columns = dict(zip(SCORES, values.T, strict=True)) | ({"mark": marks} if party == MARKING else {})
        limits = dict(zip(SCORES, map(tuple, bounds.T.tolist()), strict=True)) | (
            {"mark": (0, 1)} if party == MARKING else {}
        )
        ids = pl.read_parquet(table.path, columns=[ID_COLUMN])
        ids.with_columns(pl.Series(name, of).cast(pl.Int64) for name, of in columns.items()).write_parquet(path)
        tables[party] = LocalTable("scores", path, limits, table.rows, ID_COLUMN)
    async with running_federation({party: [table] for party, table in tables.items()}) as federation:
        result = (await federation.run(second)).result
    opened = dict(zip(result["names"], result["values"], strict=True))
    cells = [
        [[opened[f"{mark}_{x}_{y}"] for y in range(FIELDS)] for x in range(FIELDS)] for mark in ("marked", "other")
    ]
    return np.array(cells, dtype=np.float64), exact_counts(parts, marks), max(result["standard_errors"])


def draw(found: Floats, error: float, path: Path) -> None:
    """Draw counts of more than twice their error: a dot for each field and mark, as large as the root of its count."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.4, 4.8), layout="constrained", dpi=110)
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for counts, colour, label, shift in zip(
        found, ("#c2571a", "#1f5aa6"), ("attacks", "normal"), (0.6, 0.4), strict=True
    ):
        columns, rows = np.nonzero(counts > 2 * error)
        sizes = 700 * np.sqrt(counts[columns, rows] / found.max())
        axes.scatter(columns + shift, rows + shift, s=sizes, c=colour, alpha=0.6, label=label, linewidths=0)
    axes.set(xlabel="first component", ylabel="second component", xlim=(0, FIELDS), ylim=(0, FIELDS))
    axes.set(xticks=range(FIELDS + 1), yticks=range(FIELDS + 1), xticklabels=[], yticklabels=[])
    axes.grid(color="#e0e0e0")
    for handle in axes.legend(loc="best", frameon=False).legend_handles:
        handle.set_sizes([40])
    figure.savefig(path, metadata={"Software": None})


def picture(epsilon: float = 0.25, rows: int | None = None, path: Path | None = None) -> Iterator[Point]:
    """Yield what a picture shows that costs epsilon with its components: areas, errors, rows outside; draw it."""
    with tempfile.TemporaryDirectory(prefix="moiety-bench-") as folder:
        found, exact, error = asyncio.run(_run(epsilon, rows, Path(folder)))
    if path is not None:
        draw(found, error, path)
    numbers = {
        "area, released": area_of(found),
        "area, without noise": area_of(exact),
        "rows shown": float(exact.sum()),
        "error of a count, stated": error,
        "error of a count, measured": float(np.sqrt(np.mean((found - exact) ** 2))),
    }
    yield Point("2, private", "KDD Cup 99", epsilon, 2, numbers)
