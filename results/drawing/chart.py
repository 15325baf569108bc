"""A picture as data: what is to be seen of a result.

A picture has panels of six kinds: labelled values one below another, a spectrum of numbered values, values over a
range in steps, values over two ranges by shade, a table of shaded cells, and curves. It holds names of columns and
released numbers, and is made from a result alone.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from analyses.job.forecast import NORMAL_95

Interval = tuple[float, float] | None
"""Lower and upper end of where a value lies, or nothing is known of that."""

MAX_ROWS = 25
"""Most labelled values of a panel: more of them would overlap or be too small to be read."""

MAX_WHISKERS = 64
"""Largest number of steps with whiskers: of more, intervals are a band, as whiskers would touch each other."""

MAX_DECIMALS = 4
"""Decimals of a value with an error beside it."""

RELEASED = "private (released)"
EXACT = "exact, no privacy"


_NOT_IN_TEXT = dict.fromkeys((*range(32), 127, 65534, 65535, *range(55296, 57344)), "�")


class PictureError(ValueError):
    """There is no picture of a result; the text says why."""

    code: str = "plot-impossible"


class NothingToDrawError(PictureError):
    """The result is a valid one without anything that a picture would show."""


@dataclass(frozen=True, kw_only=True)
class Panel:
    """What all panels have.

    Attributes:
        title: what is shown.
        note: lines below it, in whole sentences: what is left out, what bars mean.
    """

    title: str
    note: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Rows(Panel):
    """Labelled values, one below another.

    Attributes:
        axis: what the values are, with their unit.
        labels: labels of the values.
        values: the released ones.
        intervals: 95 % interval of each value, as many as values or none.
        has_bars: whether bars from zero are drawn, as of amounts, and not points.
    """

    axis: str
    labels: tuple[str, ...]
    values: tuple[float, ...]
    intervals: tuple[Interval, ...] = ()
    has_bars: bool = False


@dataclass(frozen=True, kw_only=True)
class Spectrum(Panel):
    """Values with a number each, largest first.

    Attributes:
        axis: what the values are.
        values: from number 1 on; those that are not drawn on a logarithmic axis, 0 and less, are left out.
        estimates: estimates of the first values, without the noise's share in them.
        intervals: 95 % intervals of what is estimated.
        edge: the largest value that noise alone shows.
        n_kept: how many of the values are of components in the result.
        exact: the values without noise, where somebody knows them, as in a demo.
        is_log: whether the axis is logarithmic.
    """

    axis: str
    values: tuple[float, ...]
    estimates: tuple[float, ...] = ()
    intervals: tuple[Interval, ...] = ()
    edge: float
    n_kept: int
    exact: tuple[float, ...] = ()
    is_log: bool = True


@dataclass(frozen=True, kw_only=True)
class Steps(Panel):
    """A value for each part of a range.

    Attributes:
        axis: what the range is of.
        height: what the values are.
        edges: ends of the parts, one more than values.
        values: the released ones.
        intervals: 95 % interval of each value, as many as values or none.
        exact: the values without noise, where somebody knows them, as in a demo.
    """

    axis: str
    height: str
    edges: tuple[float, ...]
    values: tuple[float, ...]
    intervals: tuple[Interval, ...] = ()
    exact: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Heat(Panel):
    """A value for each cell of two ranges, by its shade, with a bar that tells what shades mean.

    Attributes:
        axis: what the range from left to right is of.
        height: what the range from bottom to top is of.
        shade: what the values are.
        edges: ends of the parts from left to right.
        rises: ends of the parts from bottom to top.
        values: the released ones, not negative, by parts from left to right, then from bottom to top.
        intervals: 95 % intervals of the values, in the same order, or none.
    """

    axis: str
    height: str
    shade: str
    edges: tuple[float, ...]
    rises: tuple[float, ...]
    values: tuple[tuple[float, ...], ...]
    intervals: tuple[tuple[Interval, ...], ...] = ()

    def said(self) -> list[tuple[int, int, str]]:
        """Return each cell's place from left to right and from bottom to top, and in words where and how much it is."""
        found = []
        for at, column in enumerate(self.values):
            for up, value in enumerate(column):
                where = f"{shown(self.edges[at])} to {shown(self.edges[at + 1])}"
                where += f", {shown(self.rises[up])} to {shown(self.rises[up + 1])}"
                interval = self.intervals[at][up] if self.intervals else None
                found.append((at, up, f"{where}: {with_interval(value, interval)}"))
        return found


@dataclass(frozen=True, kw_only=True)
class Cells(Panel):
    """A table of numbers, each shaded by its place between the smallest and the largest of its row.

    Attributes:
        labels: labels of the rows.
        heads: headings of the columns.
        values: rows of numbers.
    """

    labels: tuple[str, ...]
    heads: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Curves(Panel):
    """Values over some numbers, by method; only somebody who holds all data has them, as in a demo.

    Attributes:
        axis: what the numbers are, on a logarithmic axis.
        height: what the values are.
        places: the numbers.
        curves: label and values, one for each number.
        levels: label and the one value of what does not depend on the numbers.
    """

    axis: str
    height: str
    places: tuple[float, ...]
    curves: tuple[tuple[str, tuple[float, ...]], ...]
    levels: tuple[tuple[str, tuple[float]], ...] = ()


AnyPanel = Rows | Spectrum | Steps | Heat | Cells | Curves


@dataclass(frozen=True)
class Picture:
    """A picture of one result, or of some beside each other.

    Attributes:
        panels: from left to right.
        heading: above all, such as the title of the job; empty for none.
    """

    panels: tuple[AnyPanel, ...]
    heading: str = ""

    @property
    def alternative(self) -> str:
        """The picture in words, for who cannot see it."""
        return ". ".join(filter(None, [self.heading, *map(in_words, self.panels)]))


def in_words(panel: AnyPanel) -> str:
    """Return what a panel shows as text: its title, its values with their labels, and its notes."""
    what = None if isinstance(panel, Cells) else panel.axis
    match panel:
        case Rows():
            known = panel.intervals or (None,) * len(panel.values)
            found = [
                f"{label}: {with_interval(value, interval)}"
                for label, value, interval in zip(panel.labels, panel.values, known, strict=True)
            ]
        case Spectrum():
            found = [f"{at}: {shown(value)}" for at, value in enumerate(panel.values, 1)]
            ends = zip(panel.estimates, panel.intervals, strict=False)
            found += [f"noise subtracted, {at}: {with_interval(*one)}" for at, one in enumerate(ends, 1)]
            found.append(f"{shown(panel.edge)} is the largest that noise alone shows")
        case Steps():
            what = f"{panel.height} by {panel.axis}"
            parts = zip(panel.edges, panel.edges[1:], panel.values, strict=False)
            found = [f"{shown(lower)} to {shown(upper)}: {shown(value)}" for lower, upper, value in parts]
        case Heat():
            what = f"{panel.shade} by {panel.axis} and {panel.height}"
            found = [said for *_, said in panel.said()]
        case Cells():
            found = [
                f"{label}: {', '.join(f'{head} {shown(one)}' for head, one in zip(panel.heads, row, strict=True))}"
                for label, row in zip(panel.labels, panel.values, strict=True)
            ]
        case Curves():
            found = [
                f"{label} at {shown(place)}: {shown(value)}"
                for label, values in panel.curves
                for place, value in zip(panel.places, values, strict=True)
            ]
            found += [f"{label}: {shown(value)}" for label, (value,) in panel.levels]
    more = [f"and {len(found) - MAX_ROWS} more"] if len(found) > MAX_ROWS else []
    head = panel.title if what is None else f"{panel.title} ({what})"
    return " ".join(f"{head}. {'; '.join([*found[:MAX_ROWS], *more])}. {' '.join(panel.note)}".split())


def legend_of(panel: AnyPanel) -> list[tuple[str, str]]:
    """Return kind and meaning of the marks that need to be explained.

    Kinds are `mark`, `estimate`, `interval`, `band`, `noise` and `exact`, and `curve` and `level` with a number.
    """
    if isinstance(panel, Curves):
        curves = [(f"curve {number}", label) for number, (label, _) in enumerate(panel.curves)]
        return [*curves, *((f"level {number}", label) for number, (label, _) in enumerate(panel.levels))]
    found = []
    if isinstance(panel, Spectrum | Steps):
        found.append(("mark", RELEASED))
    if isinstance(panel, Spectrum) and panel.estimates:
        found.append(("estimate", "noise subtracted"))
    if not isinstance(panel, Cells | Heat) and any(interval is not None for interval in panel.intervals):
        is_band = isinstance(panel, Steps) and len(panel.values) > MAX_WHISKERS
        found.append(("band" if is_band else "interval", "95 % interval"))
    if isinstance(panel, Spectrum):
        found.append(("noise", "what noise alone shows"))
    if isinstance(panel, Spectrum | Steps) and panel.exact:
        found.append(("exact", EXACT))
    return found


def around(values: Sequence[float], standard_errors: Sequence[float | None] | None) -> tuple[Interval, ...]:
    """Return the 95 % interval of each value by its standard error; none where no standard errors are stated."""
    if standard_errors is None:
        return ()
    return tuple(
        None if error is None else (value - NORMAL_95 * error, value + NORMAL_95 * error)
        for value, error in zip(values, standard_errors, strict=True)
    )


def rows_of(
    labels: Sequence[str],
    values: Sequence[float],
    intervals: Sequence[Interval] = (),
    *,
    title: str,
    axis: str,
    what: str,
    note: Sequence[str] = (),
    weights: Sequence[float] | None = None,
    has_bars: bool = False,
    most: int = MAX_ROWS,
) -> Rows:
    """Return a panel of labelled values in their order; of more than fit, the largest in size, and how many are not.

    Args:
        labels: labels of the values.
        values: the released ones.
        intervals: intervals of all values, or none.
        title: what is shown.
        axis: what the values are.
        what: the plural of what has a label, for the note on those that are left out.
        note: further notes.
        weights: weights that choose the largest values; by default the absolute values.
        has_bars: see `Rows`.
        most: largest number of values that are shown.

    Raises:
        PictureError: there is nothing to draw, or something that is no number.
    """
    if not values or not all(math.isfinite(value) for value in values):
        raise PictureError(f"there is nothing to draw: {what} without a number")
    kept = list(range(len(values)))
    notes = list(note)
    if len(values) > most:
        sizes = [abs(value) for value in values] if weights is None else weights
        kept = sorted(sorted(kept, key=lambda at: -sizes[at])[:most])
        notes.append(f"The {most} largest of {len(values)} {what} are shown; {len(values) - most} are left out.")
    return Rows(
        title=title,
        axis=axis,
        labels=tuple(str(labels[at]) for at in kept),
        values=tuple(float(values[at]) for at in kept),
        intervals=tuple(intervals[at] for at in kept) if intervals else (),
        has_bars=has_bars,
        note=tuple(notes),
    )


def with_interval(value: float, interval: Interval) -> str:
    """Return a value and where it lies as text: `12.3 ± 0.4`, or both ends where it is not in the middle."""
    if interval is None or not all(map(math.isfinite, interval)):
        return shown(value)
    below, above = value - interval[0], interval[1] - value
    if not math.isclose(below, above, rel_tol=1e-3, abs_tol=1e-12):
        return f"{shown(value)} ({shown(interval[0])} to {shown(interval[1])})"
    if above == 0 or not 1e-4 <= above < 1e7:
        return f"{shown(value)} ± {above:.2g}"
    digits = max(0, 1 - math.floor(math.log10(above)))
    if digits > MAX_DECIMALS:
        return f"{shown(value)} ± {above:.2g}"
    return f"{value:,.{digits}f} ± {above:,.{digits}f}"


def printable(text: str) -> str:
    """Return a text with a sign in the place of each character that no file of text may hold."""
    return text.translate(_NOT_IN_TEXT)


def shown(value: float) -> str:
    """Return a number as short text: four significant digits, thousands apart."""
    if value == int(value) and abs(value) < 1e7:
        return f"{int(value):,}"
    if 1000 <= abs(value) < 1e7:
        return f"{value:,.0f}"
    return f"{value:.4g}"
