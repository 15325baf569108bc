"""Pictures as SVG, written here: no library, no script, no style sheet, nothing that a browser would fetch.

Colours are attributes, for files; a page may change them by class (`paper`, `ink`, `mark`, `outline`, `interval`,
`noise`, `exact`, `axis`). All text is escaped: names are other people's.
"""

import math
from collections.abc import Iterable, Sequence
from textwrap import wrap

from results.drawing.axis import Axis
from results.drawing.chart import (
    MAX_WHISKERS,
    AnyPanel,
    Cells,
    Curves,
    Heat,
    Picture,
    Rows,
    Spectrum,
    Steps,
    legend_of,
    shown,
    with_interval,
)
from results.drawing.marks import (
    CURVES,
    DASHES,
    EXACT,
    MARK,
    NOISE,
    box,
    curve,
    dot,
    rule,
    shortened,
    svg,
    text,
    upright,
    whisker,
)

WIDTH = 480
PLOT_HEIGHT = 230
"""Pixels of a panel, unless long labels make it wider, and of the plot where values stand upright."""

ROW, LINE, LETTER = 19, 17, 6.3
"""Pixels: height of a row, of a line of text, and width of a letter, on average."""

_HEADING_LETTER = 9.0

_BAR, _SHADES = 76, 50
"""Pixels beside the plot for the bar that tells what shades mean, and how many of them it shows."""

MAX_LABEL, LEFT, RIGHT, MIN_PLOT = 280, 62, 14, 220
"""Pixels: widest labels of rows; margins; narrowest plot between labels and values."""


def svg_of(picture: Picture) -> str:
    """Return a picture as the text of a file: its panels from left to right, below its heading."""
    drawn = [_draw(panel) for panel in picture.panels]
    top = 30 if picture.heading else 0
    width, height = sum(one.width for one in drawn), top + max(one.height for one in drawn)
    parts, left = [], 0
    if picture.heading:
        room = int((width - 24) / _HEADING_LETTER)
        parts.append(text(12, 22, shortened(picture.heading, room), size=15, weight="bold", whole=picture.heading))
    for one in drawn:
        parts.append(f'<g transform="translate({left} {top})">{"".join(one.parts)}</g>')
        left += one.width
    return svg(width, height, picture.alternative, parts)


def elements_of(picture: Picture) -> list[str]:
    """Return each panel as an element of a page, which puts them below each other where there is little room."""
    alone = (Picture((panel,)) for panel in picture.panels)
    return [svg_of(one) for one in alone]


class _Drawn:
    """A panel that is drawn from its top to its bottom.

    Attributes:
        width: in pixels.
        height: in pixels, so far.
        parts: elements.
    """

    def __init__(self, panel: AnyPanel, width: int = WIDTH) -> None:
        self.width, self.height, self.parts = width, 8, list[str]()
        self.lines([panel.title], size=13, weight="bold")
        self._legend(legend_of(panel))

    def lines(self, texts: Iterable[str], *, size: int = 12, weight: str = "normal") -> None:
        """Add lines of text, broken where the panel ends."""
        room = int((self.width - 24) / (LETTER * size / 12))
        for line in (line for one in texts for line in wrap(one, room)):
            self.parts.append(text(12, self.height + 13, line, size=size, weight=weight))
            self.height += LINE

    def _legend(self, entries: Sequence[tuple[str, str]]) -> None:
        if not entries:
            self.height += 6
            return
        y, x = self.height + 5, 12.0
        for kind, meaning in entries:
            room = 34 + LETTER * 0.92 * len(meaning)
            if x > 12.0 and x + room > self.width:
                x, y = 12.0, y + LINE
            self.parts.append(_in_legend(kind, x, y + 6))
            self.parts.append(text(x + 18, y + 10, meaning, size=11))
            x += room
        self.height = int(y) + 19


def _in_legend(kind: str, x: float, middle: float) -> str:
    """Return the mark of an entry of the legend, 14 pixels wide."""
    what, _, number = kind.partition(" ")
    match what:
        case "estimate":
            return dot(x + 7, middle, "", is_open=True)
        case "interval":
            return whisker(x, x + 14, middle, middle - 4, middle + 4)
        case "curve":
            return curve([(x + 3, middle), (x + 11, middle)], CURVES[int(number) % len(CURVES)])
        case "level":
            return rule(x, x + 14, middle, middle, dashes=DASHES[int(number) % len(DASHES)])
        case _:
            colour = {"mark": MARK, "band": MARK, "noise": NOISE, "exact": EXACT}[kind]
            opacity = 0.3 if kind in ("band", "noise") else 1.0
            return box("mark" if kind == "band" else kind, x, middle - 5, 14, 10, colour, opacity)


def _draw(panel: AnyPanel) -> _Drawn:
    match panel:
        case Rows():
            drawn = _draw_rows(panel)
        case Spectrum():
            drawn = _draw_spectrum(panel)
        case Steps():
            drawn = _draw_steps(panel)
        case Heat():
            drawn = _draw_heat(panel)
        case Cells():
            drawn = _draw_cells(panel)
        case Curves():
            drawn = _draw_curves(panel)
    drawn.lines(panel.note)
    drawn.height += 10
    return drawn


def _draw_rows(panel: Rows) -> _Drawn:
    known = panel.intervals or (None,) * len(panel.values)
    said_of = [with_interval(value, interval) for value, interval in zip(panel.values, known, strict=True)]
    label, beside = _label_width(panel.labels), math.ceil(LETTER * max(map(len, said_of))) + 16
    drawn = _Drawn(panel, max(WIDTH, label + 20 + MIN_PLOT + beside))
    ends = [end for interval in known if interval for end in interval]
    axis = Axis.over([*panel.values, *ends], has_zero=True)
    left, right, top = label + 20, drawn.width - beside, drawn.height
    bottom = top + ROW * len(panel.values) + 4

    def x(value: float) -> float:
        return left + (right - left) * axis.place(value)

    _below(drawn, axis, left, right, top, bottom)
    drawn.parts.append(rule(x(0), x(0), top, bottom))
    for at, (name, value, interval) in enumerate(zip(panel.labels, panel.values, known, strict=True)):
        y = top + ROW * at + ROW / 2 + 2
        said = said_of[at]
        if panel.has_bars:
            start, length = min(x(value), x(0)), abs(x(value) - x(0))
            drawn.parts.append(box("mark", start, y - 6, length, 12, MARK, title=f"{name}: {said}"))
        if interval:
            drawn.parts.append(whisker(x(interval[0]), x(interval[1]), y, y - 3, y + 3))
        if not panel.has_bars:
            drawn.parts.append(dot(x(value), y, f"{name}: {said}"))
        short = shortened(name, int(label / LETTER))
        drawn.parts.append(text(left - 8, y + 4, short, anchor="end", whole=name if short != name else ""))
        drawn.parts.append(text(right + 8, y + 4, said, size=11))
    drawn.height = bottom + 22
    drawn.parts.append(text((left + right) / 2, drawn.height + 12, panel.axis, anchor="middle"))
    drawn.height += 22
    return drawn


def _draw_spectrum(panel: Spectrum) -> _Drawn:
    drawn = _Drawn(panel)
    ends = [end for interval in panel.intervals if interval for end in interval]
    seen = [*panel.values, *ends, *panel.exact, panel.edge]
    axis = (
        Axis.over_factors([*panel.values, *panel.exact, panel.edge]) if panel.is_log else Axis.over(seen, has_zero=True)
    )
    left, right, top, bottom = _frame(drawn, axis, panel.axis)
    step = (right - left) / len(panel.values)

    def y(value: float) -> float:
        return bottom - (bottom - top) * axis.place(value)

    for at, value in enumerate(panel.exact[: len(panel.values)]):
        drawn.parts.append(box("exact", left + step * (at + 0.15), y(value), step * 0.7, bottom - y(value), EXACT))
    drawn.parts.append(box("noise", left, y(panel.edge), right - left, bottom - y(panel.edge), NOISE, 0.15))
    every = math.ceil(22 / step)
    for at, value in enumerate(panel.values):
        middle = left + step * (at + 0.5)
        interval = panel.intervals[at] if at < len(panel.intervals) else None
        if interval:
            drawn.parts.append(upright(middle, y(interval[0]), y(interval[1]), min(4.0, step / 3)))
        if value > 0 or not panel.is_log:
            drawn.parts.append(dot(middle, y(value), f"{at + 1}: {shown(value)}"))
        if at < len(panel.estimates):
            said = f"{at + 1}, noise subtracted: {with_interval(panel.estimates[at], interval)}"
            drawn.parts.append(dot(middle, y(panel.estimates[at]), said, is_open=True))
        if at % every == 0:
            drawn.parts.append(text(middle, bottom + 15, str(at + 1), size=11, anchor="middle"))
    if panel.n_kept < len(panel.values):
        cut = left + step * panel.n_kept
        drawn.parts.append(rule(cut, cut, top, bottom, dashes="2 3"))
        drawn.parts.append(text(cut + 4, top + 10, f"k = {panel.n_kept}", size=11))
    _name_below(drawn, (left + right) / 2, bottom, "component")
    return drawn


def _draw_steps(panel: Steps) -> _Drawn:
    drawn = _Drawn(panel)
    ends = [end for interval in panel.intervals if interval for end in interval]
    axis = Axis.over([*panel.values, *ends, *panel.exact], has_zero=True)
    across = Axis(panel.edges[0], panel.edges[-1])
    left, right, top, bottom = _frame(drawn, axis, panel.height)

    def x(value: float) -> float:
        return left + (right - left) * across.place(value)

    def y(value: float) -> float:
        return bottom - (bottom - top) * axis.place(value)

    def outline(values: Sequence[float]) -> str:
        found = f"M{x(panel.edges[0]):.1f} {y(0):.1f}"
        for upper, value in zip(panel.edges[1:], values, strict=True):
            found += f"V{y(value):.1f}H{x(upper):.1f}"
        return found

    def area(kind: str, values: Sequence[float], colour: str, opacity: float) -> str:
        path = f"{outline(values)}V{y(0):.1f}Z"
        return f'<path class="{kind}" fill="{colour}" fill-opacity="{opacity}" d="{path}"/>'

    if panel.exact:
        drawn.parts.append(area("exact", panel.exact, EXACT, 1.0))
    has_whiskers = len(panel.values) <= MAX_WHISKERS
    drawn.parts.append(area("mark", panel.values, MARK, 0.35 if has_whiskers and not panel.exact else 0.0))
    known = panel.intervals or (None,) * len(panel.values)
    for at, (value, interval) in enumerate(zip(panel.values, known, strict=True)):
        start, end = x(panel.edges[at]), x(panel.edges[at + 1])
        said = f"{shown(panel.edges[at])} to {shown(panel.edges[at + 1])}: {with_interval(value, interval)}"
        if interval and has_whiskers:
            reach = min(4.0, (end - start) / 3)
            drawn.parts.append(upright((start + end) / 2, y(interval[0]), y(interval[1]), reach, title=said))
        elif interval:
            high, low = y(interval[1]), y(interval[0])
            drawn.parts.append(box("mark", start, high, end - start, low - high, MARK, 0.3, title=said))
    line = f'stroke="{MARK}" stroke-width="1.5" fill="none"'
    drawn.parts.append(f'<path class="outline" {line} d="{outline(panel.values)}V{y(0):.1f}"/>')
    drawn.parts.append(rule(left, right, y(0), y(0)))
    for value, said in across.ticks(6):
        drawn.parts.append(text(x(value), bottom + 15, said, size=11, anchor="middle"))
    _name_below(drawn, (left + right) / 2, bottom, panel.axis)
    return drawn


def _draw_heat(panel: Heat) -> _Drawn:
    drawn, shades = _Drawn(panel), Axis.over([value for column in panel.values for value in column], has_zero=True)
    across, upwards = Axis(panel.edges[0], panel.edges[-1]), Axis(panel.rises[0], panel.rises[-1])
    left, right, top, bottom = _frame(drawn, upwards, panel.height, margin=_BAR)

    def part(axis: Axis, edges: Sequence[float], at: int, length: float) -> tuple[float, float]:
        start, end = (length * axis.place(edge) for edge in edges[at : at + 2])
        return start, end - start

    for at, up, said in panel.said():
        x, width = part(across, panel.edges, at, right - left)
        y, height = part(upwards, panel.rises, up, bottom - top)
        opacity = shades.place(panel.values[at][up])
        drawn.parts.append(box("mark", left + x, bottom - y - height, width, height, MARK, opacity, title=said))
    for value, said in across.ticks(6):
        drawn.parts.append(
            text(left + (right - left) * across.place(value), bottom + 15, said, size=11, anchor="middle")
        )
    bar, step = right + 14, (bottom - top) / _SHADES
    drawn.parts.append(text(bar, top - 12, panel.shade, size=11))
    for at in range(_SHADES):
        drawn.parts.append(box("mark", bar, bottom - step * (at + 1), 14, step, MARK, (at + 0.5) / _SHADES))
    for value, said in shades.ticks(5):
        drawn.parts.append(text(bar + 19, bottom - (bottom - top) * shades.place(value) + 4, said, size=11))
    _name_below(drawn, (left + right) / 2, bottom, panel.axis)
    return drawn


def _draw_cells(panel: Cells) -> _Drawn:
    label = _label_width(panel.labels)
    heads = [head.split("\n") for head in panel.heads]
    column = max(58, 10 + math.ceil(LETTER * max(len(line) for head in heads for line in head)))
    drawn = _Drawn(panel, max(WIDTH, label + 30 + column * len(panel.heads)))
    left = label + 20
    for at, head in enumerate(heads):
        for number, line in enumerate(head):
            middle = left + column * (at + 0.5)
            drawn.parts.append(text(middle, drawn.height + 12 + 14 * number, line, size=11, anchor="middle"))
    drawn.height += 6 + 14 * max(map(len, heads))
    for name, row in zip(panel.labels, panel.values, strict=True):
        known = [value for value in row if math.isfinite(value)]
        lowest, highest = min(known, default=0.0), max(known, default=0.0)
        short = shortened(name, int(label / LETTER))
        whole = name if short != name else ""
        drawn.parts.append(text(left - 8, drawn.height + 15, short, anchor="end", whole=whole))
        for at, value in enumerate(row):
            place = (value - lowest) / (highest - lowest) if highest > lowest and math.isfinite(value) else 0.0
            x = left + column * at
            drawn.parts.append(
                box(
                    "mark",
                    x + 1,
                    drawn.height + 1,
                    column - 2,
                    19,
                    MARK,
                    0.05 + 0.33 * place,
                    title=f"{name}: {value:g}",
                )
            )
            drawn.parts.append(text(x + column / 2, drawn.height + 15, shown(value), size=11, anchor="middle"))
        drawn.height += 21
    drawn.height += 6
    return drawn


def _draw_curves(panel: Curves) -> _Drawn:
    drawn = _Drawn(panel)
    axis = Axis.over([value for _, values in [*panel.curves, *panel.levels] for value in values])
    across = Axis.over_factors(panel.places)
    left, right, top, bottom = _frame(drawn, axis, panel.height)

    def at(place: float, value: float) -> tuple[float, float]:
        return left + (right - left) * across.place(place), bottom - (bottom - top) * axis.place(value)

    for number, (_, (value,)) in enumerate(panel.levels):
        _, y = at(panel.places[0], value)
        drawn.parts.append(rule(left, right, y, y, dashes=DASHES[number % len(DASHES)]))
    for number, (_, values) in enumerate(panel.curves):
        points = [at(place, value) for place, value in zip(panel.places, values, strict=True)]
        drawn.parts.append(curve(points, CURVES[number % len(CURVES)]))
    for place in sorted(set(panel.places)):
        x, _ = at(place, axis.lower)
        drawn.parts.append(text(x, bottom + 15, shown(place), size=11, anchor="middle"))
    _name_below(drawn, (left + right) / 2, bottom, panel.axis)
    return drawn


def _frame(drawn: _Drawn, axis: Axis, name: str, margin: int = RIGHT) -> tuple[float, float, float, float]:
    """Draw an upright axis with its numbers and its name above it; return left, right, top and bottom of the plot."""
    drawn.parts.append(text(12, drawn.height + 12, name, size=11))
    left, right, top = LEFT, drawn.width - margin, drawn.height + 24
    bottom = top + PLOT_HEIGHT
    for value, said in axis.ticks(5):
        y = bottom - (bottom - top) * axis.place(value)
        drawn.parts.append(text(left - 6, y + 4, said, size=11, anchor="end"))
        drawn.parts.append(rule(left, right, y, y, opacity=0.25))
    drawn.parts.append(rule(left, right, bottom, bottom))
    drawn.height = bottom
    return left, right, top, bottom


def _below(drawn: _Drawn, axis: Axis, left: float, right: float, top: float, bottom: float) -> None:
    drawn.parts.append(rule(left, right, bottom, bottom))
    ticks = axis.ticks(int((right - left) / 55))
    for value, said in ticks:
        x = left + (right - left) * axis.place(value)
        drawn.parts.append(rule(x, x, top, bottom, opacity=0.25))
        drawn.parts.append(text(x, bottom + 15, said, size=11, anchor="middle"))


def _name_below(drawn: _Drawn, middle: float, bottom: float, name: str) -> None:
    drawn.parts.append(text(middle, bottom + 34, name, anchor="middle"))
    drawn.height = int(bottom) + 44


def _label_width(labels: Sequence[str]) -> int:
    return min(MAX_LABEL, math.ceil(LETTER * max(map(len, labels), default=0)) + 4)
