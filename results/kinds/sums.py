"""Sums, means and histograms over the rows of all parties, or over many devices."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from dp.cost.report import describe
from results.drawing.chart import AnyPanel, NothingToDrawError, Steps, around, rows_of, shown
from results.generic.own_rows import Floats
from results.generic.result import Columns, Result
from results.generic.text import (
    MAX_LINES,
    closing_lines,
    columns_alike,
    half_intervals,
    rounded_alike,
    some_of,
    table_lines,
)

SMALL = 0.1
"""Standard errors that rounding may come to, at worst, without a word: so planned units leave it."""

MOST_NAMED = 8
"""Members whose names stand below a picture; of more, their number does."""


class SumResult(Result):
    """Sums of columns, each added over all parties."""

    analyses = ("secure-sum",)

    _found: ClassVar[str] = "sum"

    @classmethod
    def lines_of(cls, fields: Mapping[str, Any]) -> list[str]:
        """Return a table of what was found with half of a 95 % interval of each number, and whose rows are in it."""
        names = fields["columns"]
        table = {"column": names, cls._found: fields[cls._found] or [None] * len(names)}
        lines = _table_lines(fields, table, fields["standard_errors"])
        if fields[cls._found] is None:
            lines.append("no mean: with the noise, the weights do not add up to a positive number")
        return [*lines, *_member_lines(fields), *closing_lines(fields)]

    @classmethod
    def device_lines_of(cls, answer: Mapping[str, Any]) -> list[str]:
        """Return the sum or mean of the devices' records."""
        return _device_lines(answer, cls._found)

    @classmethod
    def panels_of(cls, fields: Mapping[str, Any]) -> tuple[AnyPanel, ...]:
        """Return the sum or mean of each column, with 95 % intervals where errors are stated."""
        kind, values = cls._found, fields[cls._found]
        if values is None:
            raise NothingToDrawError("there is no mean to draw: the weights do not add up to a positive number")
        is_of_devices = "columns" not in fields
        names = [f"entry {at}" for at in range(1, len(values) + 1)] if is_of_devices else fields["columns"]
        panel = rows_of(
            [fields["record"]] if is_of_devices and len(values) == 1 else names,
            values,
            _intervals(values, fields),
            title=f"{kind.capitalize()} of {fields['record']} over all members"
            if is_of_devices
            else f"{kind.capitalize()} of each column over all rows",
            axis=f"{kind}, in the units of the record" if is_of_devices else f"{kind}, in the units of each column",
            what="entries" if is_of_devices else "columns",
            has_bars=True,
            note=[_who_is_in(fields)],
        )
        return (panel,)

    def table(self) -> Columns:
        """Return a row per column, with all that the result says of each."""
        names = self.fields["columns"]
        values = self.fields[self._found] or [None] * len(names)  # no mean where the weights add up to nothing
        shown = {"column": list(names), self._found: list(values)}
        return shown | self._same_length(len(names), but=("columns", self._found, "survivors"))


class MeanResult(SumResult):
    """Means of columns over the rows of all parties."""

    analyses = ("secure-mean",)

    _found = "mean"


class HistogramResult(Result):
    """How many rows of all parties lie in each bin."""

    analyses = ("secure-histogram",)

    @staticmethod
    def lines_of(fields: Mapping[str, Any]) -> list[str]:
        """Return a table of the counts with half of a 95 % interval of each, and whose rows are in it."""
        edges, counts = fields["edges"], list(fields["counts"])
        names = [f"{lower:g} to {upper:g}" for lower, upper in pairwise(edges)]
        if fields.get("below") is not None:
            names, counts = [f"below {edges[0]:g}", *names], [fields["below"], *counts]
        if fields.get("above") is not None:
            names, counts = [*names, f"above {edges[-1]:g}"], [*counts, fields["above"]]
        errors = fields["standard_errors"]
        lines = _table_lines(fields, {"value": names, "rows": counts}, errors and [errors[0]] * len(names))
        return [*lines, *_member_lines(fields), *closing_lines(fields)]

    @staticmethod
    def device_lines_of(answer: Mapping[str, Any]) -> list[str]:
        """Return the counts of the devices' records."""
        return _device_lines(answer, "counts")

    @staticmethod
    def panels_of(fields: Mapping[str, Any]) -> tuple[Steps]:
        """Return the counts of bins, with 95 % intervals where errors are stated."""
        outside = [
            f"{shown(fields[name])} {name} the bins" for name in ("below", "above") if fields.get(name) is not None
        ]
        panel = Steps(
            title=f"Numbers of {fields['record']} in each bin" if "record" in fields else "Rows in each bin",
            axis="value" if "record" in fields else "value of the column",
            height="numbers" if "record" in fields else "rows",
            edges=tuple(fields["edges"]),
            values=tuple(fields["counts"]),
            intervals=_intervals(fields["counts"], fields),
            note=(*([f"Rows outside: {', '.join(outside)}."] if outside else []), _who_is_in(fields)),
        )
        return (panel,)

    @property
    def counts_(self) -> Floats:
        """The counts, shape (bins,)."""
        return np.array(self.fields["counts"], dtype=np.float64)

    def table(self) -> Columns:
        """Return a row per bin: its edges, the count and its standard error; None for an edge: no end on that side."""
        edges, errors = self.fields["edges"], self.fields.get("standard_errors")
        rows = list(zip(edges[:-1], edges[1:], self.fields["counts"], strict=True))
        if self.fields.get("below") is not None:
            rows.insert(0, (None, edges[0], self.fields["below"]))
        if self.fields.get("above") is not None:
            rows.append((edges[-1], None, self.fields["above"]))
        shown: Columns = {
            name: list(of) for name, of in zip(("lower", "upper", "count"), zip(*rows, strict=True), strict=True)
        }
        return shown if errors is None else shown | {"standard_error": errors[:1] * len(rows)}


def _table_lines(fields: Mapping[str, Any], table: dict[str, list[Any]], errors: list[float] | None) -> list[str]:
    """Return a table of names and values, with the errors of the values, and of rounding unless small, beside them."""
    rounding = fields.get("worst_rounding", ())
    is_small = [error is not None and one <= SMALL * error for one, error in zip(rounding, errors or [], strict=False)]
    if errors is not None and any(errors):
        found = list(table)[-1]
        table[found], table["+-"] = columns_alike(table[found], half_intervals(errors))
    if any(rounding) and not (is_small and all(is_small)):
        table["rounding at most"] = rounding
    return [*table_lines(table), *(["+- is half of a 95 % interval, by noise alone"] if "+-" in table else [])]


def _member_lines(fields: Mapping[str, Any]) -> list[str]:
    """Return whose rows are in a result, and who dropped out."""
    lines = [f"in it: {', '.join(fields['survivors'])}"]
    if dropped := {**fields["vanished"], **dict.fromkeys(fields["silent_after"] or (), "the last stage")}:
        lines.append(f"dropped out: {', '.join(f'{name} ({stage})' for name, stage in dropped.items())}")
    return lines


def _intervals(values: list[float], fields: Mapping[str, Any]) -> tuple[tuple[float, float] | None, ...]:
    errors = fields.get("standard_errors")
    return around(values, errors) if errors and any(errors) else ()


def _who_is_in(fields: Mapping[str, Any]) -> str:
    names = fields["survivors"]
    return f"In it: {', '.join(names) if len(names) <= MOST_NAMED else f'{len(names):,} members'}."


def _device_lines(answer: Mapping[str, Any], found: str) -> list[str]:
    """Return what was found over devices, who is not in it, and what it costs whom."""
    values, in_batch = answer[found], "channel" in answer
    who = f"{answer['devices']} devices" if in_batch else f"{len(answer['survivors'])} members"
    heading = f"{found} of {answer['record']} over {who}:"
    lines = [f"{heading} {_why_no_mean(answer)}"] if values is None else _entry_lines(heading, values, answer)
    if values is not None and any(answer["standard_errors"]):
        lines.append("+- holds the noise in 19 of 20 cases (1.96 standard errors)")
    if in_batch and answer["left_out"]:
        names = some_of(answer["left_out"], MAX_LINES)
        lines.append(f"not in it, because not every party could open their answers: {names}")
    if in_batch and (gone := [name for name in answer["parties"] if name not in answer.get("opened_by", [name])]):
        lines.append(f"opened without {some_of(gone, MAX_LINES)}")
    if in_batch and answer.get("rejected"):
        names = some_of(answer["rejected"], MAX_LINES)
        lines.append(
            f"{len(answer['rejected'])} not in it, because they did not prove that they keep the bounds: {names}"
        )
    if not in_batch and answer["vanished"]:
        lines.append("not in it: " + ", ".join(f"{name} ({stage})" for name, stage in answer["vanished"].items()))
    if not in_batch and answer["silent_after"]:
        told = ", ".join(f"{name} ({stage})" for name, stage in answer["silent_after"].items())
        lines.append(f"in it, although they dropped out later: {told}")
    return [*lines, *describe(answer["privacy"], "members")]


def _entry_lines(heading: str, values: Sequence[float], answer: Mapping[str, Any]) -> list[str]:
    """Return one entry beside the heading, or each of several in a line below it, with its bin or its number."""
    halves = half_intervals(answer["standard_errors"])
    entries = [
        " +- ".join(rounded_alike(value, half)) if half else f"{value:.12g}"
        for value, half in zip(values, halves, strict=True)
    ]
    if len(entries) == 1:
        return [f"{heading} {entries[0]}"]
    names = [f"from {lower:g} to {upper:g}" for lower, upper in pairwise(answer.get("edges") or [])]
    names = names or [f"entry {at}" for at in range(1, len(entries) + 1)]
    lines = [f"  {name}: {entry}" for name, entry in zip(names, entries, strict=True)][:MAX_LINES]
    left_out = len(entries) - len(lines)
    return [heading, *lines, *([f"  and {left_out} more; --format json has them all"] if left_out else [])]


def _why_no_mean(answer: Mapping[str, Any]) -> str:
    """Say why a mean has no value; with noise in it, the total of the weights says little about the weights."""
    error = answer["standard_error_of_weight"]
    if not error:
        return "none: the weights add up to 0"
    return (
        f"none: the noisy total of the weights is {answer['total_weight']} with a standard error of {error:.2g}, which "
        "is not distinguishable from 0; more members or a larger epsilon would help"
    )
