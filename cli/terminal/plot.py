"""The pictures of results: of a PCA, of distributions, of errors over epsilon.

They show what was released, and never a row of anybody.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

N_EIGENVALUES = 20
N_LOADINGS = 10
PRIVATE_COLOUR, EXACT_COLOUR, NEGATIVE_COLOUR = "#1f5aa6", "#b8b8b8", "#c2571a"


class PlotError(RuntimeError):
    """The picture cannot be drawn; the text says what is missing."""


def plot_pca(result: dict[str, Any], path: Path, *, exact_eigenvalues: Sequence[float] | None = None) -> None:
    """Draw the eigenvalue spectrum and the leading component of a PCA result as a PNG.

    Args:
        result: of `analyses.pca.protocol.coordinator`.
        path: the file to write.
        exact_eigenvalues: where somebody holds all data, as in the demo: drawn beside the private ones.

    Raises:
        PlotError: matplotlib is not installed, or the result is not of a PCA.
    """
    from analyses.registry import ANALYSES

    analysis = ANALYSES.get(result.get("analysis", ""))
    if analysis is None or not analysis.has_plot:
        raise PlotError("only results of a PCA can be drawn")
    figure = _figure()
    spectrum, loadings = figure.subplots(1, 2, width_ratios=(3, 2))
    _draw_spectrum(spectrum, result, exact_eigenvalues)
    _draw_loadings(loadings, result)
    figure.savefig(path)


def plot_distribution(
    results: Mapping[str, Mapping[str, Any]],
    path: Path,
    *,
    exact: Sequence[float] | None = None,
    quantity: str = "value",
) -> None:
    """Draw estimated densities with their 95 % intervals as a PNG, one panel each.

    Args:
        results: label to a result of `analyses.distribution.protocol.coordinator`, all with the same edges.
        path: the file to write.
        exact: probabilities of the buckets where somebody holds all data, as in the demo: drawn behind the others.
        quantity: what is distributed, with its unit.

    Raises:
        PlotError: matplotlib is not installed.
    """
    figure = _figure()
    panels = np.atleast_1d(figure.subplots(1, len(results), sharex=True, sharey=True))
    for axes, (label, result) in zip(panels, results.items(), strict=True):
        edges, found = np.array(result["edges"]), np.array(result["probabilities"])
        widths = np.diff(edges)
        if exact is not None:
            axes.stairs(np.array(exact) / widths, edges, fill=True, color=EXACT_COLOUR, label="exact, no privacy")
        if half := result["half_widths"]:
            reach = np.array(half["probabilities"])
            low, high = np.maximum(found - reach, 0) / widths, (found + reach) / widths
            axes.fill_between(
                edges,
                np.append(low, low[-1]),
                np.append(high, high[-1]),
                step="post",
                alpha=0.3,
                color=PRIVATE_COLOUR,
                label="95 % interval",
            )
        axes.stairs(found / widths, edges, color=PRIVATE_COLOUR, label="private (released)")
        axes.set(xlabel=quantity, title=label)
        axes.set_ylim(bottom=0)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set(ylabel="density")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(handles), frameon=False)
    figure.savefig(path)


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
        PlotError: matplotlib is not installed.
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
        raise PlotError("drawing needs matplotlib: pip install 'moiety[plot]'") from error
    figure = Figure(figsize=(11, 4.6), layout="constrained", dpi=130)
    FigureCanvasAgg(figure)
    return figure


def _draw_spectrum(axes: Any, result: dict[str, Any], exact_eigenvalues: Sequence[float] | None) -> None:
    released = np.array(result["eigenvalues"][:N_EIGENVALUES])
    places = np.arange(1, len(released) + 1)
    if exact_eigenvalues is not None:
        exact = np.array(exact_eigenvalues[: len(released)])
        axes.bar(places, exact, width=0.75, color=EXACT_COLOUR, label="exact (pooled data; demo only)")
    positive = released > 0
    axes.plot(places[positive], released[positive], "o", color=PRIVATE_COLOUR, label="private (released)")
    k = len(result["components"])
    axes.axvline(k + 0.5, color="black", linewidth=0.8, linestyle=":")
    axes.annotate(f"k = {k}", (k + 0.6, 0.97), xycoords=("data", "axes fraction"), va="top")
    axes.set(yscale="log", xlabel="component", ylabel="eigenvalue of the second-moment matrix", title="Spectrum")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend(loc="upper right", frameon=False)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_loadings(axes: Any, result: dict[str, Any]) -> None:
    first = np.array(result["components"][0])
    largest = np.argsort(-np.abs(first))[:N_LOADINGS][::-1]
    colours = [PRIVATE_COLOUR if first[i] >= 0 else NEGATIVE_COLOUR for i in largest]
    axes.barh([result["columns"][i] for i in largest], first[largest], color=colours)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set(xlabel="loading", title="First component, largest loadings")
    axes.tick_params(axis="y", labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
