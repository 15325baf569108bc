"""Pattern counts: how many rows have each combination of categories."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from results.drawing.chart import AnyPanel, NothingToDrawError, around, rows_of
from results.generic.beyond_noise import counts_beyond_noise
from results.generic.own_rows import Floats
from results.generic.result import Columns, Result
from results.generic.text import MAX_LINES, closing_lines, columns_alike, half_intervals, table_lines

if TYPE_CHECKING:
    from results.generic.answer import ReleaseAnswer

MAX_LABEL = 36
"""Longest label that names the columns; longer ones have the categories alone, and a note names the columns."""


class PatternCountResult(Result):
    """How many rows have each combination of categories."""

    analyses = ("pattern-count",)

    @staticmethod
    def lines_of(fields: Mapping[str, Any]) -> list[str]:
        """Return a table of the counts that are larger than noise, in the order of the job; of many, the largest."""
        counts, errors, seen = _seen(fields)
        kept = np.sort(seen[np.argsort(-counts[seen], kind="stable")[:MAX_LINES]])
        patterns = [patterns_of(fields)[at] for at in kept]
        table: dict[str, list[Any]] = {
            name: [str(pattern[at]) for pattern in patterns] for at, name in enumerate(fields["columns"])
        }
        table["rows"], table["+-"] = columns_alike(counts[kept].tolist(), half_intervals(errors[kept].tolist()))
        lines = [f"rows with each pattern, by method {fields['method']}"]
        if len(kept):
            lines += [*table_lines(table), "+- is half of a 95 % interval"]
        if len(kept) < len(seen):
            lines.append(f"and {len(seen) - len(kept)} patterns with smaller counts; --format json has them all")
        if lost := len(counts) - len(seen):
            which = (
                "none of the patterns has a count that is"
                if lost == len(counts)
                else f"{lost} patterns have counts that are not"
            )
            lines.append(f"{which} distinguishable from 0")
        return [*lines, *asked_again(fields), *closing_lines(fields)]

    @staticmethod
    def panels_of(fields: Mapping[str, Any]) -> tuple[AnyPanel, ...]:
        """Return the counts that are larger than noise with 95 % intervals, in the order of the job.

        Raises:
            NothingToDrawError: none is larger than noise.
        """
        names = fields["columns"]
        patterns = patterns_of(fields)
        labels = [", ".join(f"{name} {value}" for name, value in zip(names, one, strict=True)) for one in patterns]
        note = []
        if max(map(len, labels), default=0) > MAX_LABEL:
            labels = [", ".join(map(str, one)) for one in patterns]
            note.append(f"Categories of {', '.join(names)}, in this order.")
        counts, errors, seen = _seen(fields)
        if not len(seen):
            raise NothingToDrawError("there is nothing to draw: no count is distinguishable from 0")
        if lost := len(counts) - len(seen):
            note.append(f"{lost} patterns are not shown: their counts are not distinguishable from 0.")
        shown = counts[seen].tolist()
        panel = rows_of(
            [labels[at] for at in seen],
            shown,
            around(shown, errors[seen].tolist()),
            title="Rows with each pattern",
            axis="rows",
            what="patterns",
            has_bars=True,
            note=note,
        )
        return (panel,)

    def answer(self, question: str, **given: Any) -> "ReleaseAnswer":
        """Return what the counts answer without a job and without further cost.

        Args:
            question: name of one of `analyses.pattern_count.questions.QUESTIONS`.
            given: its arguments, such as `time`, the column of 2 * interval + event, and `by`, that of groups.

        Raises:
            AnswerError: there is no such question, or these counts cannot answer it; the text says why.
        """
        from analyses.pattern_count.questions import ask_counts
        from results.generic.answer import ReleaseAnswer

        asked = {name: value for name, value in given.items() if value is not None}
        return ReleaseAnswer(ask_counts(self.fields, question, asked), question, self.privacy_lines)

    @property
    def counts_(self) -> Floats:
        """The counts, an axis per column in the order of the job; noise may have made some negative."""
        return np.array(self.fields["counts"], dtype=np.float64)

    def table(self) -> Columns:
        """Return a row per combination: a category of each column, the count and its standard error."""
        names, combinations = self.fields["columns"], patterns_of(self.fields)
        shown: Columns = {name: [one[at] for one in combinations] for at, name in enumerate(names)}
        for field, called in (("counts", "count"), ("standard_errors", "standard_error")):
            if self.fields.get(field) is not None:
                shown[called] = np.array(self.fields[field]).ravel().tolist()
        return shown


def asked_again(fields: Mapping[str, Any]) -> list[str]:
    """Return a line with the questions that the counts answer; none by methods whose errors depend on each other."""
    from analyses.pattern_count.questions import QUESTIONS

    of_sums = fields.get("counted") == "sums"
    names = ["distribution"] if of_sums else list(QUESTIONS)
    return [f"moiety answer JOB QUESTION, at no further cost: {', '.join(names)}"] if fields["method"] == "mpc" else []


def patterns_of(fields: Mapping[str, Any]) -> list[tuple[int | str, ...]]:
    """Return the combinations of categories, one category for each of `columns`, in the order of the flat counts."""
    return list(product(*(values_of(fields, name) for name in fields["columns"])))


def values_of(fields: Mapping[str, Any], name: str) -> Sequence[int | str]:
    """Return the categories of a column: numbers, or names where it is a category with names."""
    labels: Sequence[str] = fields.get("labels", {}).get(name, ())
    lower, upper = fields["categories"][name]
    return labels or range(int(lower), int(upper) + 1)


def _seen(fields: Mapping[str, Any]) -> tuple[Floats, Floats, Any]:
    """Return all counts, their standard errors, and the places of the counts that are larger than noise."""
    counts, errors = (np.array(fields[name], dtype=np.float64).ravel() for name in ("counts", "standard_errors"))
    return (
        counts,
        errors,
        np.flatnonzero(counts_beyond_noise(counts, errors, fields["privacy"], method=fields["method"])),
    )
