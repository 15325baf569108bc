"""The second picture of `docs/benchmarks.md`: processor seconds over rows, columns, parties and members."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Reports = Mapping[str, Any]
Series = dict[str, list[tuple[float, float]]]

COLOURS = ("#1f5aa6", "#c2571a", "#0b8a6f", "#8a3ffc", "#555555", "#a61f4d")
ROWS, COLUMNS, PARTIES = 10_000, 100, 3


def draw_growth(reports: Reports, path: Path) -> None:
    """Draw four panels as a PNG, all axes but that of parties logarithmic. Nothing to show draws nothing.

    Args:
        reports: by the name of the measurement, as `bench.report` keeps them.
        path: of the picture; its folder exists.
    """
    panels = {
        "rows, tables read": over_rows(reports),
        f"columns, at {ROWS:,} rows": over_shape(reports, "columns", rows=ROWS, parties=PARTIES),
        f"parties, at {ROWS:,} x {COLUMNS}": over_shape(reports, "parties", rows=ROWS, columns=COLUMNS),
        "members of a masked sum": over_members(reports),
    }
    if not any(panels.values()):
        return
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 8), layout="constrained", dpi=130)
    FigureCanvasAgg(figure)
    for axes, (over, series) in zip(figure.subplots(2, 2).flat, panels.items(), strict=True):
        for colour, (label, points) in zip(COLOURS, series.items(), strict=False):
            axes.plot(*zip(*sorted(points), strict=True), "o-", color=colour, label=label)
        scale = "linear" if over.startswith("parties") else "log"
        axes.set(xscale=scale, yscale="log", xlabel=over, ylabel="processor seconds")
        axes.grid(color="#e0e0e0")
        axes.spines[["top", "right"]].set_visible(False)
        if series:
            axes.legend(frameon=False, fontsize=9)
    figure.savefig(path)


def over_rows(reports: Reports) -> Series:
    """Return the processor seconds of the busiest party by analysis, over rows."""
    series: Series = {}
    for job in (job for name in ("growth", "growth_1e7") for job in reports.get(name, {}).get("jobs", [])):
        series.setdefault(f"{job['analysis']}, {job['columns']} columns", []).append((job["rows"], job["processor_s"]))
    return series


def over_shape(reports: Reports, over: str, **fixed: int) -> Series:
    """Return the processor seconds of a party and of the coordinator, and the floor of a party, over one size."""
    shown = [
        report
        for name, report in reports.items()
        if name.startswith("gram_")
        and "processor_s" in report
        and all(report[size] == value for size, value in fixed.items())
    ]
    if not shown:
        return {}
    return {
        "a party": [(r[over], r["processor_s"]["party"]) for r in shown],
        "the coordinator": [(r[over], r["processor_s"]["coordinator"]) for r in shown],
        "product, key stream and copies": [(r[over], r["floor_s"]) for r in shown],
    }


def over_members(reports: Reports) -> Series:
    """Return the coordinator's processor seconds by the number of elements, over members."""
    series: Series = {}
    runs: Sequence[Any] = [r["run"] for name, r in reports.items() if name.startswith("secagg_") and "run" in r]
    for run in runs:
        label = f"the coordinator, {run['elements']:,} elements"
        series.setdefault(label, []).append((run["members"], run["coordinator_cpu_s"]))
    return series
