"""The course of a budget as SVG: no script, no style of its own, nothing that a browser would fetch."""

from collections.abc import Sequence

from markupsafe import Markup, escape

WIDTH, HEIGHT, MARGIN = 560, 200, 48


def steps(parts_spent: Sequence[float], label: str) -> Markup:
    """Return a line from 0 to 1 that rises with each job."""
    shown = [0.0, *(min(1.0, max(0.0, part)) for part in parts_spent)]
    step = (WIDTH - MARGIN - 10) / len(shown)

    def y(value: float) -> float:
        return 10 + (HEIGHT - 20) * (1 - value)

    path = f"M{MARGIN} {y(0):.1f}"
    for i, part in enumerate(shown):
        path += f" V{y(part):.1f} H{MARGIN + (i + 1) * step:.1f}"
    return _svg(
        f"{label}: {shown[-1]:.0%} after {len(parts_spent)} jobs", [f'<path class="line" d="{path}"/>'], 1, 0, y(0)
    )


def _svg(label: str, parts: Sequence[str], top: float, bottom: float, zero: float) -> Markup:
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    head = f'<svg role="img" {size} aria-label="{escape(label)}">'
    axis = f'<line class="axis" x1="{MARGIN}" x2="{WIDTH}" y1="{zero:.1f}" y2="{zero:.1f}"/>'
    ticks = f'<text x="4" y="20">{top:.3g}</text>' + (f'<text x="4" y="{HEIGHT - 8}">{bottom:.3g}</text>')
    return Markup(head + axis + "".join(parts) + ticks + "</svg>")  # noqa: S704 -- numbers, and an escaped label
