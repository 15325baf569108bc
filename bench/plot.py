"""The picture of `docs/benchmarks.md`: seconds of a Gram matrix over rows and over columns."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Report = dict[str, Any]

COLOURS = {3: "#1f5aa6", 5: "#0b8a6f"}
MPYC_COLOURS = {3: "#c2571a", 5: "#8a3ffc"}


def commonest(values: Sequence[int]) -> int:
    """Return the number that most reports have in common, the larger of equals."""
    counted = Counter(values)
    return max(counted, key=lambda value: (counted[value], value))


def draw(reports: Sequence[Report], path: Path) -> None:
    """Draw ours, MPyC and NumPy, both axes logarithmic, as a PNG; the KDD table too. Nothing to show draws nothing.

    The left panel has the reports with the commonest number of columns over their rows, the right one those with the
    commonest number of rows over their columns.

    Args:
        reports: of `bench.jobs.gram`.
        path: of the picture; its folder exists.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    synthetic = [report for report in reports if report["table"] != "kdd"]
    if not synthetic:
        return
    kdd = [report for report in reports if report["table"] == "kdd"]
    fixed = {side: commonest([report[side] for report in synthetic]) for side in ("columns", "rows")}
    figure = Figure(figsize=(11, 4.6), layout="constrained", dpi=130)
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, 2, sharey=True)
    for axes, over, same in zip(panels, ("rows", "columns"), ("columns", "rows"), strict=True):
        shown = sorted((r for r in synthetic if r[same] == fixed[same]), key=lambda report: report[over])
        for parties in sorted({report["parties"] for report in shown}):
            ours = [report for report in shown if report["parties"] == parties]
            _line(axes, ours, over, "o-", COLOURS.get(parties), f"moiety, {parties} parties: job to result")
            compared = [{**report["mpyc"], over: report[over]} for report in ours if "mpyc" in report]
            _line(axes, compared, over, "s--", MPYC_COLOURS.get(parties), f"MPyC, {parties} parties: inputs to product")
        alone = {
            report[over]: {"seconds": report["numpy_s"], over: report[over]} for report in shown if "numpy_s" in report
        }
        _line(axes, list(alone.values()), over, "^:", "#555555", "NumPy, one process")
        for report in kdd:
            _point(axes, report[over], report["seconds"], COLOURS.get(report["parties"]), "o")
            _point(axes, report[over], report.get("numpy_s"), "#555555", "^")
            size = f"KDD\n{report['rows']:,} x {report['columns']}"
            axes.annotate(
                size, (report[over], report["seconds"]), (0, 8), textcoords="offset points", ha="center", size=8
            )
        axes.set(xscale="log", yscale="log", xlabel=f"{over}, at {fixed[same]:,} {same}")
        axes.margins(x=0.12, y=0.12)
        axes.grid(color="#e0e0e0")
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("seconds")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    figure.savefig(path)


def _line(axes: Any, reports: Sequence[Report], over: str, style: str, colour: str | None, label: str) -> None:
    if reports:
        axes.plot([r[over] for r in reports], [r["seconds"] for r in reports], style, color=colour, label=label)


def _point(axes: Any, x: int, seconds: float | None, colour: str | None, marker: str) -> None:
    """Open symbols: another table than those of the lines."""
    if seconds is not None:
        axes.plot([x], [seconds], marker, color=colour, markerfacecolor="white", markersize=8)
