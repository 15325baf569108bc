"""Pattern counts: how many rows have each combination of categories."""

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from dp.cost.report import describe
from results.drawing.chart import AnyPanel, NothingToDrawError, around, rows_of
from results.generic.beyond_noise import counts_beyond_noise
from results.generic.own_rows import Floats
from results.generic.result import Columns, Result
from results.generic.text import MAX_LINES, closing_lines, columns_alike, half_intervals, inline, table_lines

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
    def device_lines_of(answer: Mapping[str, Any]) -> list[str]:
        """Return what devices of the same persons said: patterns, and powers of the number of ones; or covariances."""
        lines = [f"{answer['record']}: {answer['responses']} responses about {answer['persons']} persons"]
        for title, rows in tables_of_persons(answer).items():
            lines += [title, *table_lines(rows)]
        lines.append("+- is half of a 95 % interval; each row is about those who have answered about all its records")
        if answer["contradictions"]:
            lines.append(f"{answer['contradictions']} second responses differed from the first, and were refused.")
        return [*lines, *describe(answer["privacy"], "members")]

    @staticmethod
    def panels_of(fields: Mapping[str, Any]) -> tuple[AnyPanel, ...]:
        """Return the counts that are larger than noise with 95 % intervals, in the order of the job.

        Raises:
            NothingToDrawError: none is larger than noise, or these are covariances of devices' numbers.
        """
        if "persons" in fields:
            return (_panel_of_persons(fields),)
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


def tables_of_persons(answer: Mapping[str, Any]) -> dict[str, Columns]:
    """Return title to table of what devices of the same persons said."""
    found: dict[str, Columns] = {}
    for part, (title, value, columns) in _OF_PERSONS.items():
        if rows := answer.get(part):
            table: Columns = {name: [inline(of(row)) for row in rows] for name, of in columns.items()}
            halves = half_intervals([row["standard_error"] for row in rows])
            table[value], table["+-"] = columns_alike([row[value] for row in rows], halves)
            found[title] = table | {"of persons": [row["persons"] for row in rows]}
    return found


def _pattern_of(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in zip(row["records"], row["values"], strict=True))


_OF_PERSONS: dict[str, tuple[str, str, dict[str, Callable[[Mapping[str, Any]], Any]]]] = {
    "patterns": ("persons with each pattern", "count", {"pattern": _pattern_of}),
    "powers": ("sums of powers of the number of records that are 1", "sum", {"power": lambda row: row["power"]}),
    "means": ("means", "mean", {"record": lambda row: row["record"]}),
    "covariances": ("covariances", "covariance", {"records": lambda row: ", ".join(row["records"])}),
}
"""Part of the result to its title, the name of its value, and what its rows are called by."""


def _panel_of_persons(fields: Mapping[str, Any]) -> AnyPanel:
    if not (rows := fields.get("patterns")):
        raise NothingToDrawError("there is nothing to draw: covariances have a table alone")
    most = max(len(row["records"]) for row in rows)
    shown = [row for row in rows if len(row["records"]) == most]
    counts = [row["count"] for row in shown]
    return rows_of(
        list(map(_pattern_of, shown)),
        counts,
        around(counts, [row["standard_error"] for row in shown]),
        title=f"Persons with each pattern of {most} records",
        axis="persons",
        what="patterns",
        has_bars=True,
        note=["Of those who have answered about all records of the pattern."],
    )


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
