"""Groups of counted rows: which are large enough, and means, sums and quantiles of a number that was counted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from analyses.job.forecast import NORMAL_95
from analyses.kept_moments.answer import Answer, AnswerError, Floats, ends, intervals, numbers

_BY_NOISE = "intervals of sums are by noise alone: about the rows that were counted"


@dataclass(frozen=True)
class Groups:
    """Noisy counts of rows by groups, and within them by the values of one column.

    Attributes:
        keys: names of the columns that make groups.
        labels: a value of each key for each group.
        counts: rows by group and value, shape (groups, values); one value where no column is meant.
        variance: variance of the noise of each count.
        first: the least value of the column.
    """

    keys: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    counts: Floats = field(repr=False)
    variance: float
    first: int

    @classmethod
    def of(cls, fields: Mapping[str, Any], keys: Sequence[str], value: str | None = None) -> "Groups":
        """Return the counts of a released table, added up over all other columns.

        Args:
            fields: result of a cross-table or of pattern counts by method `mpc`.
            keys: columns that make groups; none for one group of all.
            value: column of integers, or of bins by their numbers.

        Raises:
            AnswerError: a column is not in the table or named twice, `value` is a category, or noises are not
                independent.
        """
        columns, wanted = list(fields["columns"]), [*keys, *([value] if value else [])]
        for name in wanted:
            if name not in columns:
                raise AnswerError(f"the table has no column {name!r}; it has {', '.join(columns)}")
            if wanted.count(name) > 1:
                raise AnswerError(f"column {name!r} is named twice")
        if fields["method"] != "mpc":
            raise AnswerError(f"counts by method {fields['method']} have errors that depend on each other: ask by mpc")
        if value and value in fields["labels"]:
            raise AnswerError(f"column {value!r} is a category: name a column of integers, or of bins by their numbers")
        counts, errors = (np.array(fields[name], dtype=np.float64) for name in ("counts", "standard_errors"))
        others = tuple(axis for axis, name in enumerate(columns) if name not in wanted)
        table, variance = counts.sum(others), float((errors**2).sum(others).max())
        left = [name for name in columns if name in wanted]
        table = table.transpose([left.index(name) for name in wanted])
        values = [_values(fields, name) for name in keys]
        first = int(fields["categories"][value][0]) if value else 0
        shape = (-1, table.shape[-1]) if value else (-1, 1)
        return cls(tuple(keys), tuple(product(*values)), table.reshape(shape), variance, first)

    def columns(self, kept: Sequence[int]) -> dict[str, list[str]]:
        """Return a column of each key for some groups."""
        return {name: [self.labels[at][place] for at in kept] for place, name in enumerate(self.keys)}


def groups(counted: Groups, *, at_least: float = 0.0) -> Answer:
    """Return the groups whose noisy count is at least a limit, and whether it is so without doubt.

    Args:
        counted: counts by group.
        at_least: the limit, in rows. `surely` is whether the whole 95 % interval lies above it.

    Raises:
        AnswerError: the limit is no number.
    """
    if not np.isfinite(at_least):
        raise AnswerError(f"the limit must be a number of rows, got {at_least:g}")
    counts, error = counted.counts.sum(axis=1), float(np.sqrt(counted.variance * counted.counts.shape[1]))
    kept = np.flatnonzero(counts >= at_least)
    errors = np.full(len(kept), error)
    return Answer(
        "groups",
        {
            **counted.columns(kept.tolist()),
            "count": numbers(counts[kept]),
            "noise_error": numbers(errors),
            "interval": intervals(counts[kept], errors, 0.0),
            "surely": (counts[kept] - NORMAL_95 * error >= at_least).tolist(),
        },
        {"at_least": float(at_least), "groups": len(counts), "left_out": len(counts) - len(kept)},
        ("the limit is compared with noisy counts: a group near it may be shown or left out by the noise alone",),
    )


def means(counted: Groups, *, width: float | None = None, at_least: float | None = None) -> Answer:
    """Return mean and sum of a number in each group, from counts of its values or of its bins.

    Sums are linear in the counts, so their error by noise is closed; that of a mean m is that of the sum of x - m over
    the rows. By chance a mean has the variance of the number within its group, as counts tell it, over the rows; in a
    bin numbers are even, which adds the square of its width / 12.

    Args:
        counted: counts by group and value.
        width: length of a bin: bin i holds numbers from i to i + 1 widths. None where values are the integers counted.
        at_least: noisy count of rows below which a group is left out; None for no limit.

    Raises:
        AnswerError: the width or the limit is not possible.
    """
    if width is not None and not (width > 0 and np.isfinite(width)):
        raise AnswerError(f"the width of a bin must be above 0, got {width:g}")
    if at_least is not None and not np.isfinite(at_least):
        raise AnswerError(f"the limit must be a number of rows, got {at_least:g}")
    n_bins = counted.counts.shape[1]
    values = counted.first + np.arange(n_bins, dtype=np.float64)
    if width is not None:
        values = (values + 0.5) * width
    deviation, rows = float(np.sqrt(counted.variance)), counted.counts.sum(axis=1)
    kept = np.flatnonzero(rows >= (-np.inf if at_least is None else at_least))
    counts, rows = counted.counts[kept], rows[kept]
    sums, size = counts @ values, np.where(rows > 4 * deviation * np.sqrt(n_bins), rows, np.nan)
    half_bin = (width or 0.0) / 2
    ends_of_all = float(values[0]) - half_bin, float(values[-1]) + half_bin
    mean = np.clip(sums / size, *ends_of_all)
    off = values - mean[:, None]
    noise = deviation * np.sqrt((off**2).sum(axis=1)) / size
    spread = np.maximum((counts * off**2).sum(axis=1) / size, 0.0) + half_bin**2 / 3
    chance = np.sqrt(spread / size)
    of_sums = np.full(len(kept), deviation * np.sqrt((values**2).sum()))
    notes = [_BY_NOISE]
    if width is not None:
        notes.append("numbers are taken to be even within a bin: a mean may be off by half of a width besides")
    if hidden := int(np.isnan(size).sum()):
        notes.append(f"{hidden} groups have rows that are not distinguishable from noise")
    if left_out := len(counted.counts) - len(kept):
        notes.append(f"{left_out} groups have noisy counts below {at_least:g}, and are left out")
    return Answer(
        "group-means",
        {
            **counted.columns(kept.tolist()),
            "mean": numbers(mean),
            "noise_error": numbers(noise),
            "chance_error": numbers(chance),
            "interval": intervals(mean, np.hypot(noise, chance), *ends_of_all),
            "sum": numbers(sums),
            "sum_noise_error": numbers(of_sums),
            "sum_interval": intervals(sums, of_sums),
            "rows": numbers(rows),
            "rows_noise_error": numbers(np.full(len(kept), deviation * np.sqrt(n_bins))),
        },
        {"bin_width": width},
        tuple(notes),
    )


def quantiles(counted: Groups, *, q: float = 0.5, width: float = 1.0) -> Answer:
    """Return a quantile of a number in each group, from counts in bins; numbers are even within a bin.

    With D(x) the rows up to x less q times all rows of the group, the quantile is where D crosses 0. D is linear in the
    counts, so its error is known everywhere: the interval holds all x where D is within 1.96 errors of 0, by noise, and
    by chance of variance q (1 - q) rows.

    Args:
        counted: counts by group and bin.
        q: which quantile, above 0 and below 1.
        width: length of a bin: bin i holds numbers from i to i + 1 widths.

    Raises:
        AnswerError: q or the width is not possible.
    """
    if not 0 < q < 1:
        raise AnswerError(f"q must be above 0 and below 1, got {q:g}")
    if not (width > 0 and np.isfinite(width)):
        raise AnswerError(f"the width of a bin must be above 0, got {width:g}")
    n_bins = counted.counts.shape[1]
    below = np.arange(n_bins + 1)
    noise = np.sqrt(counted.variance * ((1 - q) ** 2 * below + q**2 * (n_bins - below)))
    found, low, high = (np.full((2, len(counted.counts)), np.nan) for _ in range(3))
    rows = counted.counts.sum(axis=1)
    seen = rows > 4 * np.sqrt(counted.variance * n_bins)
    for at in np.flatnonzero(seen):
        off = np.append(0.0, np.cumsum(counted.counts[at])) - q * rows[at]
        for kind, whole in enumerate((noise, np.sqrt(noise**2 + rows[at] * q * (1 - q)))):
            found[kind, at] = _crossing(off)
            low[kind, at] = _crossing(off + NORMAL_95 * whole)
            high[kind, at] = n_bins - _crossing((NORMAL_95 * whole - off)[::-1])
    scaled = [(one + counted.first) * width for one in (found, low, high)]
    hidden = int((~seen).sum())
    return Answer(
        "quantiles",
        {
            **counted.columns(range(len(rows))),
            "quantile": numbers(scaled[0][1]),
            "noise_interval": ends(scaled[1][0], scaled[2][0]),
            "interval": ends(scaled[1][1], scaled[2][1]),
            "rows": numbers(rows),
        },
        {"q": q, "bin_width": width},
        (f"{hidden} groups have rows that are not distinguishable from noise",) if hidden else (),
    )


def _crossing(off: Floats) -> float:
    """Return where a line through points at 0, 1, 2, ... first is at 0 or above; the end where it never is."""
    above = np.flatnonzero(off >= 0)
    if not len(above):
        return float(len(off) - 1)
    at = int(above[0])
    return float(at) if at == 0 else at - float(off[at] / (off[at] - off[at - 1]))


def _values(fields: Mapping[str, Any], name: str) -> list[str]:
    lower, upper = fields["categories"][name]
    return list(map(str, fields["labels"].get(name) or range(int(lower), int(upper) + 1)))
