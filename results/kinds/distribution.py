"""Distributions: the density of a number, its mean and its quantiles."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from analyses.job.forecast import NORMAL_95
from dp.cost.report import describe
from results.drawing.chart import Heat, NothingToDrawError, Rows, Steps
from results.generic.own_rows import Floats
from results.generic.result import Columns, Result
from results.generic.text import closing_lines, how_many, rounded_alike, table_lines

MAX_COARSE_PARAMETER = 25
"""Epsilon falls about like one over the root of the parameter, so above it a step moves epsilon by less than 2 %."""


PREFIXES = "prefixes"
"""The method whose result has frequent values, and no distribution."""

GRID = "grid"
"""The method whose result is about two numbers."""

ENDS = ("at_least", "at_most")
CLOSED_VARIANCE = ("closed_variance", "closed_variance_error")
CLOSED_MEAN = ("closed_mean", "closed_mean_error")

MAX_SHARES = 32
"""Most categories, or parts of a range, that have a line each; the table has all."""

MAX_COLUMNS = 58
"""Widest table of cells in the lines of a result, so that no narrow terminal breaks it; of others the picture tells."""


class DistributionResult(Result):
    """How a number is distributed."""

    analyses = ("distribution",)

    @staticmethod
    def lines_of(fields: Mapping[str, Any]) -> list[str]:
        """Return what was found and what it costs."""
        return [*found_lines(fields), *closing_lines(fields)]

    @staticmethod
    def device_lines_of(answer: Mapping[str, Any]) -> list[str]:
        """Return the result of a survey, or of a masked sum over devices."""
        about = f"{answer['responses']} responses, about {answer['rows']:.0f} of them about a value"
        lines = [f"{answer['record']}: {about}", *found_lines(answer)]
        if answer["contradictions"]:
            lines.append(f"{answer['contradictions']} second responses differed from the first, and were refused.")
        return [*lines, *describe(answer["privacy"], "members")]

    @staticmethod
    def panels_of(fields: Mapping[str, Any]) -> tuple[Steps | Rows | Heat]:
        """Return the density with its 95 % intervals, where the method has some; or what alone is known.

        Of two numbers the shares of the cells.

        Raises:
            NothingToDrawError: that mean, or any frequent value, is not known.
        """
        if fields["method"] == PREFIXES:
            return (_frequent_of(fields),)
        if fields["method"] == GRID:
            return (heat_of(fields["grid"], title="Two numbers", note=_about_cells(fields)),)
        if fields["probabilities"] is None:
            return (_mean_of(fields),)
        known = fields["intervals"]
        said = f"Mean {fields['mean']:.4g}"
        said += "" if known is None else " ({:.4g} to {:.4g})".format(*known["mean"])
        notes = (f"{said}; about {fields['rows']:,.0f} rows.", *filter(None, [fields.get("about_intervals")]))
        return (density_of(fields, title="Density", note=notes),)

    @property
    def probabilities_(self) -> Floats:
        """Probability of each bucket between the `edges`, shape (buckets,); none where only the mean is known."""
        return np.array(self.fields["probabilities"] or [], dtype=np.float64)

    def table(self) -> Columns:
        """Return a row per bucket: its edges, its probability, and the ends of its 95 % interval where one is known.

        Of a method that tells the mean alone a row with it and its standard error; of `prefixes` a row per frequent
        value: its share, and the ends of its interval. Of `grid` a row per cell: its edges in both ranges first.
        """
        if self.fields["method"] == GRID:
            return _columns_of_cells(self.fields)
        if self.fields["method"] == PREFIXES:
            names, found = ("value", "share", *ENDS), self.fields["frequent"] or []
            return {name: [one[at] for one in found] for at, name in enumerate(names)}
        if self.fields["probabilities"] is None:
            return {name: [self.fields[name]] for name in ("mean", *CLOSED_MEAN, *CLOSED_VARIANCE)}
        edges = self.fields["edges"]
        shown: Columns = {"lower": edges[:-1], "upper": edges[1:], "probability": list(self.fields["probabilities"])}
        shares = self.fields.get("shares") or ()
        if len(shares) == len(edges) - 1:
            return shown | {name: [one[at] for one in shares] for at, name in enumerate(("share", *ENDS))}
        intervals = (self.fields.get("intervals") or {}).get("probabilities")
        if intervals is None:
            return shown
        return shown | {name: [ends[at] for ends in intervals] for at, name in enumerate(ENDS)}


def found_lines(fields: Mapping[str, Any]) -> list[str]:
    """Return mean, quantiles, queries, and what intervals are about, one line each."""
    if fields["method"] == PREFIXES:
        lines = [f"{PREFIXES}: about {fields['rows']:.0f} rows, {len(fields['frequent'] or [])} frequent values"]
        lines += ["  {:.15g}: {:.4f} ({:.4f} to {:.4f})".format(*one) for one in fields["frequent"] or []]
        return [*lines, f"  {fields['about_intervals']}"]
    if fields["method"] == GRID:
        return _lines_of_cells(fields)
    known = fields["intervals"]

    def ends(name: str, at: int | None = None) -> str:
        if known is None:
            return ""
        lower, upper = known[name] if at is None else known[name][at]
        return f" ({lower:.5g} to {upper:.5g})"

    lines = [f"{fields['method']}: rows {how_many(fields)}; mean {fields['mean']:.6g}{ends('mean')}"]
    for at, (level, value) in enumerate(fields["quantiles"]):
        lines.append(f"  {100 * level:g} % below {value:.6g}{ends('quantiles', at)}")
    for at, (lower, upper, probability) in enumerate(fields["queries"]):
        lines.append(f"  from {lower:g} to {upper:g}: {probability:.4f}{ends('queries', at)}")
    shares = fields.get("shares") or ()
    if shares and len(shares) == len(fields["edges"]) - 1 <= MAX_SHARES:
        for code, numbers in zip(fields["edges"], shares, strict=False):
            lines.append("  share of {:g}: {:.4f} ({:.4f} to {:.4f})".format(code, *numbers))
    for name in ("mean", "variance"):
        if fields.get(f"closed_{name}") is not None:
            said = rounded_alike(fields[f"closed_{name}"], NORMAL_95 * fields[f"closed_{name}_error"])
            lines.append(f"  {name} without smoothing, in closed form: {' +- '.join(said)}")
    lines += [f"  {said}" for said in [fields.get("about_intervals")] if said]
    if fields["has_converged"] is False:
        lines.append("  The estimate did not converge.")
    if fields["gain_of_a_response"] is None and "survivors" in fields:
        lines.append("  A party that lies about its counts can move all of this without bound.")
        if (mu := fields["privacy"]["parameters"]["mu"]) <= MAX_COARSE_PARAMETER:
            lines.append(
                f"  The parameter of the noise is a whole number, {mu}: less epsilon may be spent than was asked for."
            )
    return lines


def _frequent_of(fields: Mapping[str, Any]) -> Rows:
    if not fields["frequent"]:
        raise NothingToDrawError("there is nothing to draw: no value is seen to be frequent")
    values, shares, lower, upper = zip(*fields["frequent"], strict=True)
    labels, note = tuple(f"{value:.15g}" for value in values), (f"About {fields['rows']:,.0f} rows.",)
    ends = tuple(zip(lower, upper, strict=True))
    return Rows(title="Frequent values", axis="share", labels=labels, values=shares, intervals=ends, note=note)


def _lines_of_cells(fields: Mapping[str, Any]) -> list[str]:
    found = fields["grid"]
    first, second = (len(edges) - 1 for edges in found["edges"])
    lines = [f"{GRID}: rows {how_many(fields)}; {first} x {second} cells"]
    for a, b, c, d, part, error, *ends in found["rectangles"]:
        said = "" if error is None else "; {:.4f} to {:.4f}, standard error {:.4f}".format(*ends, error)
        lines.append(f"  first from {a:g} to {b:g}, second from {c:g} to {d:g}: {part:.4f}{said}")
    for name, edges, margin in zip(("first", "second"), found["edges"], found["margins"], strict=True):
        if len(margin) <= MAX_SHARES:
            for (lower, upper), (part, *ends) in zip(pairwise(edges), margin, strict=True):
                said = "" if ends[0] is None else " ({:.4f} to {:.4f})".format(*ends)
                lines.append(f"  {name} from {lower:g} to {upper:g}: {part:.4f}{said}")
    return [*lines, *_table_of_cells(found), f"  {fields['about_intervals']}"]


def _table_of_cells(found: Mapping[str, Any]) -> list[str]:
    """Return the shares of all cells as a table, or nothing where that is too wide."""
    first, second = found["edges"]
    columns: Columns = {"": [f"{lower:.15g} to {upper:.15g}" for lower, upper in pairwise(first)]}
    for at, lower in enumerate(second[:-1]):
        columns[f"{lower:.15g}"] = [f"{100 * column[at][0]:.1f}" for column in found["cells"]]
    lines = table_lines(columns)
    if max(map(len, lines)) > MAX_COLUMNS:
        return []
    said = (
        "  Shares of cells in %: the first number downwards, the second from left to right, from the number above on."
    )
    return [said, *(f"  {line}" for line in lines)]


def _columns_of_cells(fields: Mapping[str, Any]) -> Columns:
    names = ("lower", "upper", "second_lower", "second_upper", "share", *ENDS)
    first, second = (list(pairwise(edges)) for edges in fields["grid"]["edges"])
    rows = [
        (*ends, *others, *share)
        for ends, column in zip(first, fields["grid"]["cells"], strict=True)
        for others, share in zip(second, column, strict=True)
    ]
    return {name: [row[at] for row in rows] for at, name in enumerate(names)}


def _about_cells(fields: Mapping[str, Any]) -> tuple[str, ...]:
    notes = [f"About {fields['rows']:,.0f} rows."]
    if known := [ends for column in fields["grid"]["cells"] for _, *ends in column if ends[0] is not None]:
        half = sum(upper - lower for lower, upper in known) / len(known) / 2
        notes.append(f"The interval of a cell reaches {half:.2g} to either side, on average.")
    return (*notes, fields["about_intervals"])


def heat_of(
    found: Mapping[str, Any], *, title: str, exact: Sequence[Sequence[float]] = (), note: Sequence[str]
) -> Heat:
    """Return the panel of the shares of cells.

    Args:
        found: field `grid` of the result.
        title: what it is of.
        exact: shares without noise to draw in their place, where somebody knows them, as in a demo.
        note: lines below.
    """
    cells, (edges, rises) = found["cells"], found["edges"]
    shares = exact or [[share for share, *_ in column] for column in cells]
    ends = (
        ()
        if exact
        else tuple(tuple(None if lower is None else (lower, upper) for _, lower, upper in column) for column in cells)
    )
    return Heat(
        title=title,
        axis="first number",
        height="second number",
        shade="share",
        edges=tuple(edges),
        rises=tuple(rises),
        values=tuple(map(tuple, shares)),
        intervals=ends,
        note=tuple(note),
    )


def _mean_of(fields: Mapping[str, Any]) -> Rows:
    of_squares = fields["closed_variance"] is not None
    mean, error = (fields[name] for name in (CLOSED_VARIANCE if of_squares else CLOSED_MEAN))
    if mean is None:
        raise NothingToDrawError("there is nothing to draw: those who have a value are hardly seen in the noise")
    interval = (mean - NORMAL_95 * error, mean + NORMAL_95 * error)
    note = (f"About {fields['rows']:,.0f} rows.", fields["about_intervals"])
    title = f"Variance about {fields['mean']:g}" if of_squares else "Mean"
    axis, label = ("squared distance", "variance") if of_squares else ("value", "mean")
    return Rows(title=title, axis=axis, labels=(label,), values=(mean,), intervals=(interval,), note=note)


def density_of(
    fields: Mapping[str, Any],
    *,
    title: str,
    axis: str = "value",
    exact: Sequence[float] = (),
    note: Sequence[str] = (),
) -> Steps:
    """Return the panel of one density.

    Args:
        fields: fields of the result.
        title: what it is of, or by which method.
        axis: what is distributed, with its unit.
        exact: probabilities of the buckets without noise, where somebody knows them, as in a demo.
        note: lines below.
    """
    edges, stated = fields["edges"], fields["intervals"]
    widths = [upper - lower for lower, upper in pairwise(edges)]
    found = fields["probabilities"]
    intervals: tuple[tuple[float, float], ...] = ()
    if stated is not None:
        known = zip(stated["probabilities"], widths, strict=True)
        intervals = tuple((lower / width, upper / width) for (lower, upper), width in known)
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
