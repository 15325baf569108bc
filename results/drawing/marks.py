"""Elements of SVG: text, boxes, points, lines. All text is escaped: names are other people's."""

from collections.abc import Sequence
from html import escape

from results.drawing.chart import printable

INK, PAPER, MARK, NOISE, EXACT, AXIS = "#1b1f24", "#ffffff", "#0072b2", "#d55e00", "#b8b8b8", "#6a727c"
"""Colours that people who are blind to some colours can tell apart."""

CURVES = (MARK, NOISE, "#009e73", "#cc79a7")
"""Colours of curves."""

DASHES = ("6 3", "8 3 2 3", "2 3")
"""Dashes of level lines."""


def svg(width: float, height: float, told: str, parts: Sequence[str]) -> str:
    """Return a whole picture of some elements, and in words for who cannot see it."""
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size} aria-label="{_safe(told)}"'
    return (
        f'{head} font-family="system-ui, sans-serif">{box("paper", 0, 0, width, height, PAPER)}{"".join(parts)}</svg>'
    )


def text(
    x: float, y: float, said: str, *, size: int = 12, anchor: str = "start", weight: str = "normal", whole: str = ""
) -> str:
    """Return a line of text; `whole` is what stands for it where the pointer is."""
    title = f"<title>{_safe(whole)}</title>" if whole else ""
    place = f'x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" font-weight="{weight}"'
    return f'<text class="ink" fill="{INK}" {place}>{title}{_safe(said)}</text>'


def box(
    kind: str,
    x: float,
    y: float,
    width: float,
    height: float,
    colour: str,
    opacity: float = 1.0,
    title: str = "",
) -> str:
    """Return a rectangle of a class and a colour; widths and heights below 0 count as 0."""
    place = f'x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{max(height, 0):.1f}"'
    inside = f"<title>{_safe(title)}</title>" if title else ""
    return f'<rect class="{kind}" fill="{colour}" fill-opacity="{opacity:.2f}" {place}>{inside}</rect>'


def dot(x: float, y: float, title: str, *, is_open: bool = False) -> str:
    """Return a point, or with `is_open` a ring."""
    inside = f"<title>{_safe(title)}</title>" if title else ""
    look = f'class="paper" fill="{PAPER}" stroke="{INK}"' if is_open else f'class="mark" fill="{MARK}"'
    return f'<circle {look} cx="{x:.1f}" cy="{y:.1f}" r="4">{inside}</circle>'


def curve(points: Sequence[tuple[float, float]], colour: str) -> str:
    """Return a line through points, each of which is marked."""
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    line = f'<path class="curve" stroke="{colour}" stroke-width="1.8" fill="none" d="M{path}"/>'
    return line + "".join(f'<circle fill="{colour}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>' for x, y in points)


def rule(x1: float, x2: float, y1: float, y2: float, *, opacity: float = 1.0, dashes: str = "none") -> str:
    """Return a thin line, as of an axis."""
    look = f'stroke="{AXIS}" stroke-opacity="{opacity}" stroke-dasharray="{dashes}"'
    return f'<line class="axis" {look} x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}"/>'


def whisker(x1: float, x2: float, y: float, top: float, bottom: float) -> str:
    """Return an interval from left to right, with ends from `top` to `bottom`."""
    path = f"M{x1:.1f} {y:.1f}H{x2:.1f}M{x1:.1f} {top:.1f}V{bottom:.1f}M{x2:.1f} {top:.1f}V{bottom:.1f}"
    return f'<path class="interval" stroke="{INK}" stroke-width="1.4" fill="none" d="{path}"/>'


def upright(x: float, low: float, high: float, reach: float, title: str = "") -> str:
    """Return an interval from bottom to top, with ends that reach so far to both sides."""
    path = f"M{x:.1f} {low:.1f}V{high:.1f}M{x - reach:.1f} {low:.1f}h{2 * reach:.1f}"
    path += f"M{x - reach:.1f} {high:.1f}h{2 * reach:.1f}"
    inside = f"<title>{_safe(title)}</title>" if title else ""
    return f'<path class="interval" stroke="{INK}" stroke-width="1.4" fill="none" d="{path}">{inside}</path>'


def _safe(text: str) -> str:
    """Return a text that stands for itself between tags and in attributes, without what no XML may hold."""
    return escape(printable(text))


def shortened(text: str, most: int) -> str:
    """Return a text of at most so many characters, its middle left out where it is longer."""
    if len(text) <= most:
        return text
    kept = max(most - 1, 2)
    return f"{text[: kept - kept // 2]}…{text[len(text) - kept // 2 :]}"
