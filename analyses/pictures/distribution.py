"""Distributions: the density of a number."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from analyses.drawing.chart import Picture, Steps


def picture(result: Mapping[str, Any]) -> Picture:
    """Return the density with its 95 % intervals, where the method has some."""
    half = result["half_widths"]
    said = f"Mean {result['mean']:.4g}" + ("" if half is None else f" ± {half['mean']:.2g}")
    panel = density_of(result, title="Density", note=(f"{said}; about {result['rows']:,.0f} rows.",))
    return Picture((panel,))


def density_of(
    result: Mapping[str, Any],
    *,
    title: str,
    axis: str = "value",
    exact: Sequence[float] = (),
    note: Sequence[str] = (),
) -> Steps:
    """Return the panel of one density.

    Args:
        result: of the analysis.
        title: what it is of, or by which method.
        axis: what is distributed, with its unit.
        exact: probabilities of the buckets without noise, where somebody knows them, as in a demo.
        note: lines below.
    """
    edges, half = result["edges"], result["half_widths"]
    widths = [upper - lower for lower, upper in pairwise(edges)]
    found = result["probabilities"]
    intervals: tuple[tuple[float, float], ...] = ()
    if half is not None:
        reach = half["probabilities"]
        known = zip(found, reach, widths, strict=True)
        intervals = tuple((max(p - around, 0.0) / width, (p + around) / width) for p, around, width in known)
    return Steps(
        title=title,
        axis=axis,
        height="density",
        edges=tuple(edges),
        values=tuple(p / width for p, width in zip(found, widths, strict=True)),
        intervals=intervals,
        exact=tuple(p / width for p, width in zip(exact, widths, strict=False)),
        note=tuple(note),
    )
