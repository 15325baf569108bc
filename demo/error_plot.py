"""A plot of errors over epsilon: what only somebody can draw who holds all data, as in a demo."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from analyses.drawing.chart import PictureError


def plot_errors(
    errors: Mapping[str, Mapping[str, float]], without_noise: Mapping[str, float], path: Path, *, title: str
) -> None:
    """Draw errors over epsilon as a PNG, and those without noise as level lines.

    Args:
        errors: label to epsilon, as text, to error.
        without_noise: label to error.
        path: the file to write.
        title: what the errors are of.

    Raises:
        PictureError: matplotlib is not installed.
    """
    figure = _figure()
    axes = figure.subplots()
    for label, of in errors.items():
        axes.plot([float(epsilon) for epsilon in of], list(of.values()), "o-", label=label)
    for style, (label, error) in zip(("--", "-.", ":"), without_noise.items(), strict=True):
        axes.axhline(error, color="black", linewidth=0.9, linestyle=style, label=label)
    ticks = sorted({float(epsilon) for of in errors.values() for epsilon in of})
    axes.set(xscale="log", xlabel="epsilon", ylabel="mean squared error", title=title)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.legend(loc="upper right", frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path)


def _figure() -> Any:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise PictureError("drawing needs matplotlib: pip install 'moiety[plot]'") from error
    figure = Figure(figsize=(11, 4.6), layout="constrained", dpi=130)
    FigureCanvasAgg(figure)
    return figure
