"""Pictures as figures of matplotlib, for PNG files and notebooks. matplotlib is an extra: import this where it is used.

Names are other people's, so no text is read as a formula: a dollar sign is a dollar sign.
"""

from collections.abc import Sequence
from io import BytesIO
from textwrap import wrap
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from analyses.drawing.axis import Axis
from analyses.drawing.chart import (
    MAX_WHISKERS,
    AnyPanel,
    Cells,
    Picture,
    Rows,
    Spectrum,
    Steps,
    legend_of,
    printable,
    shown,
    with_interval,
)
from analyses.drawing.svg import AXIS, EXACT, INK, MARK, NOISE, PAPER, shortened

DPI = 130
_WIDTH, _ROW, _AROUND = 5.6, 0.24, 1.6
_MAX_LABEL, _NOTE = 44, 84
_UPRIGHT, _MAX_NUMBERS, _LEGEND_COLUMNS = 4.6, 20, 3


class PictureFigure(Figure):
    """A figure that a notebook shows, whether or not it has been told to show those of matplotlib."""

    def _repr_png_(self) -> bytes:
        drawn = BytesIO()
        self.savefig(drawn, format="png")
        return drawn.getvalue()


def figure_of(picture: Picture) -> PictureFigure:
    """Return a picture as a figure: its panels from left to right, below its heading."""
    panels = picture.panels
    widths = [_width_of(panel) for panel in panels]
    height = max(map(_height_of, panels)) + (0.4 if picture.heading else 0.0)
    figure = PictureFigure(figsize=(sum(widths), height), layout="constrained", dpi=DPI, facecolor=PAPER)
    FigureCanvasAgg(figure)
    if picture.heading:
        heading = shortened(printable(picture.heading), int(sum(widths) * 10))
        figure.suptitle(heading, fontsize=12, fontweight="bold", color=INK, parse_math=False)
    parts = figure.subfigures(1, len(panels), width_ratios=widths, squeeze=False)[0]
    for part, panel in zip(parts, panels, strict=True):
        part.set_facecolor("none")
        _draw(part, panel)
    return figure


def _width_of(panel: AnyPanel) -> float:
    if isinstance(panel, Rows):
        return _WIDTH + 0.06 * max(0, min(_MAX_LABEL, max(map(len, panel.labels), default=0)) - 20)
    if isinstance(panel, Cells):
        return max(_WIDTH, 0.075 * min(_MAX_LABEL, max(map(len, panel.labels), default=0)) + 0.72 * len(panel.heads))
    return _WIDTH


def _height_of(panel: AnyPanel) -> float:
    notes = 0.2 * len(_note_lines(panel))
    if isinstance(panel, Rows | Cells):
        return max(2.0, _ROW * len(panel.labels) + _AROUND + notes)
    return _UPRIGHT + notes


def _note_lines(panel: AnyPanel) -> list[str]:
    room = int(_NOTE * _width_of(panel) / _WIDTH)
    return [line for note in panel.note for line in wrap(printable(note), room)]


def _draw(part: Any, panel: AnyPanel) -> None:
    axes = part.subplots()
    axes.set_title("\n".join(wrap(printable(panel.title), 62)), fontsize=11, color=INK, parse_math=False, loc="left")
    match panel:
        case Rows():
            _draw_rows(axes, panel)
        case Spectrum():
            _draw_spectrum(axes, panel)
        case Steps():
            _draw_steps(axes, panel)
        case Cells():
            _draw_cells(axes, panel)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=INK, labelsize=8.5)
    for axis in (axes.xaxis, axes.yaxis):
        axis.label.set(parse_math=False, color=INK, fontsize=9.5)
    if entries := legend_of(panel):
        look = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "ncols": _LEGEND_COLUMNS, "frameon": False}
        axes.legend(handles=[_handle(kind, meaning) for kind, meaning in entries], fontsize=8, borderpad=0.2, **look)
        below_title = "\n" * -(-len(entries) // _LEGEND_COLUMNS)
        axes.set_title(axes.get_title(loc="left") + below_title, fontsize=11, color=INK, parse_math=False, loc="left")
    below = _note_lines(panel)
    if below:
        part.supxlabel("\n".join(below), fontsize=8.5, color=INK, parse_math=False, x=0.02, ha="left")


def _handle(kind: str, meaning: str) -> Any:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    if kind == "interval":
        return Line2D([], [], color=INK, linewidth=1.2, label=meaning)
    if kind == "estimate":
        line = Line2D([], [], linestyle="none", marker="o", markersize=5, label=meaning)
        line.set(markerfacecolor=PAPER, markeredgecolor=INK)
        return line
    if kind == "mark":
        return Line2D([], [], color=MARK, marker="o", markersize=4, linewidth=1.5, label=meaning)
    colour = {"band": MARK, "noise": NOISE, "exact": EXACT}[kind]
    return Patch(color=colour, alpha=1.0 if kind == "exact" else 0.3, label=meaning)


def _draw_rows(axes: Any, panel: Rows) -> None:
    places = np.arange(len(panel.values))
    known = panel.intervals or (None,) * len(panel.values)
    ends = [end for interval in known if interval for end in interval]
    axis = Axis.over([*panel.values, *ends], has_zero=True)
    if panel.has_bars:
        axes.barh(places, panel.values, height=0.62, color=MARK)
    for place, interval in zip(places, known, strict=True):
        if interval:
            axes.plot(interval, [place, place], "-", marker="|", markersize=5, color=INK, linewidth=1.2)
    if not panel.has_bars:
        axes.plot(panel.values, places, "o", color=MARK, markersize=5)
    axes.axvline(0, color=AXIS, linewidth=0.8)
    axes.set_xlim(axis.lower, axis.upper)
    axes.set_ylim(len(panel.values) - 0.4, -0.6)
    ticks = axis.ticks(5)
    axes.set_xticks([value for value, _ in ticks], [said for _, said in ticks])
    _label(axes.yaxis, places, tuple(map(printable, panel.labels)))
    for place, value, interval in zip(places, panel.values, known, strict=True):
        said = with_interval(value, interval)
        beside = {"va": "center", "fontsize": 8, "color": INK, "parse_math": False}
        axes.annotate(said, (1.02, place), xycoords=("axes fraction", "data"), annotation_clip=False, **beside)
    axes.grid(axis="x", color=AXIS, alpha=0.2)
    axes.set_axisbelow(True)
    axes.set(xlabel=printable(panel.axis))


def _draw_spectrum(axes: Any, panel: Spectrum) -> None:
    values = np.array(panel.values)
    places = np.arange(1, len(values) + 1)
    if panel.exact:
        exact = np.array(panel.exact[: len(values)])
        axes.bar(places[: len(exact)], exact, width=0.7, color=EXACT)
    axes.axhspan(0, panel.edge, color=NOISE, alpha=0.15, linewidth=0)
    for place, interval in zip(places, panel.intervals, strict=False):
        if interval:
            axes.plot([place, place], interval, "-", marker="_", markersize=6, color=INK, linewidth=1.2)
    drawn = len(panel.estimates)
    axes.plot(places[:drawn], panel.estimates, "o", markerfacecolor=PAPER, markeredgecolor=INK, markersize=5, zorder=3)
    shown_ones = values > 0 if panel.is_log else np.full(len(values), fill_value=True)
    axes.plot(places[shown_ones], values[shown_ones], "o", color=MARK, markersize=5)
    ends = [end for interval in panel.intervals if interval for end in interval]
    seen = [*panel.values, *panel.exact, panel.edge]
    axis = Axis.over_factors(seen) if panel.is_log else Axis.over([*seen, *ends], has_zero=True)
    axes.set_yscale("log" if panel.is_log else "linear")
    _upright_ticks(axes, axis)
    if panel.n_kept < len(values):
        axes.axvline(panel.n_kept + 0.5, color=AXIS, linewidth=0.8, linestyle=":")
        look = {"xycoords": ("data", "axes fraction"), "va": "top", "fontsize": 8.5, "color": INK}
        axes.annotate(f"k = {panel.n_kept}", (panel.n_kept + 0.6, 0.98), **look)
    axes.set_xlim(0.5, len(values) + 0.5)
    axes.set_xticks(places[:: -(-len(values) // _MAX_NUMBERS)])
    axes.set(xlabel="component", ylabel=printable(panel.axis))


def _draw_steps(axes: Any, panel: Steps) -> None:
    edges, values = np.array(panel.edges), np.array(panel.values)
    has_whiskers = len(values) <= MAX_WHISKERS
    if panel.exact:
        axes.stairs(np.array(panel.exact), edges, fill=True, color=EXACT)
    elif has_whiskers:
        axes.stairs(values, edges, fill=True, color=MARK, alpha=0.35)
    known = panel.intervals or (None,) * len(values)
    low = np.array([value if interval is None else interval[0] for value, interval in zip(values, known, strict=True)])
    high = np.array([value if interval is None else interval[1] for value, interval in zip(values, known, strict=True)])
    if panel.intervals and has_whiskers:
        middles = (edges[1:] + edges[:-1]) / 2
        look = {"fmt": "none", "ecolor": INK, "elinewidth": 1.2, "capsize": 2.5}
        axes.errorbar(middles, (low + high) / 2, (high - low) / 2, **look)
    elif panel.intervals:
        band = {"step": "post", "alpha": 0.3, "color": MARK, "linewidth": 0}
        axes.fill_between(edges, np.append(low, low[-1]), np.append(high, high[-1]), **band)
    axes.stairs(values, edges, color=MARK, linewidth=1.4)
    axis = Axis.over([*values, *low, *high, *panel.exact], has_zero=True)
    _upright_ticks(axes, axis)
    axes.axhline(0, color=AXIS, linewidth=0.8)
    ticks = Axis(edges[0], edges[-1]).ticks(6)
    axes.set_xticks([value for value, _ in ticks], [said for _, said in ticks])
    axes.set_xlim(edges[0], edges[-1])
    axes.set(xlabel=printable(panel.axis), ylabel=panel.height)


def _draw_cells(axes: Any, panel: Cells) -> None:
    values = np.array(panel.values)
    lowest, highest = values.min(1, keepdims=True), values.max(1, keepdims=True)
    place = (values - lowest) / np.where(highest > lowest, highest - lowest, 1.0)
    shade = np.zeros((*values.shape, 4))
    shade[..., :3] = [int(MARK[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    shade[..., 3] = 0.05 + 0.33 * place
    axes.imshow(shade, aspect="auto")
    for row, line in enumerate(panel.values):
        for column, value in enumerate(line):
            axes.text(column, row, shown(value), ha="center", va="center", fontsize=8.5, color=INK)
    _label(axes.yaxis, np.arange(len(panel.labels)), tuple(map(printable, panel.labels)))
    _label(axes.xaxis, np.arange(len(panel.heads)), panel.heads)
    axes.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False, length=0)
    axes.spines[["left", "bottom"]].set_visible(False)


def _upright_ticks(axes: Any, axis: Axis) -> None:
    ticks = axis.ticks(5)
    axes.set_yticks([value for value, _ in ticks], [said for _, said in ticks])
    axes.set_yticks([], minor=True)
    axes.set_ylim(axis.lower, axis.upper)
    axes.grid(axis="y", color=AXIS, alpha=0.2)
    axes.set_axisbelow(True)


def _label(axis: Any, places: Any, labels: Sequence[str]) -> None:
    axis.set_ticks(places, [shortened(label, _MAX_LABEL) for label in labels], parse_math=False)
