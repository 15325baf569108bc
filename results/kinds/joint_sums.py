"""Counts, sums and means over matched rows."""

from collections.abc import Mapping
from typing import Any

from results.drawing.chart import AnyPanel, Rows, around, rows_of
from results.generic.result import Columns, Result
from results.generic.text import closing_lines, columns_alike, half_intervals, table_lines

ALONE = "by noise alone: about the rows that were counted, not about others like them"


class JointCountResult(Result):
    """How many rows the parties share."""

    analyses = ("joint-count",)

    @staticmethod
    def lines_of(fields: Mapping[str, Any]) -> list[str]:
        """Return the number of rows and its 95 % interval."""
        if "people" in fields:
            return [*_people_lines(fields), *closing_lines(fields)]
        low, high = fields["n_rows_interval"]
        found = f"number of rows: {fields['n_rows']:,.0f}; 95 % interval {max(0, low):,.0f} to {high:,.0f}"
        return [found, *closing_lines(fields)]

    @staticmethod
    def panels_of(fields: Mapping[str, Any]) -> tuple[Rows]:
        """Return the number of rows, or of people at each set of owners, with 95 % intervals."""
        if "people" in fields:
            return (_people_panel(fields),)
        count = rows_of(
            ["rows"],
            [fields["n_rows"]],
            [tuple(fields["n_rows_interval"])],
            title="Number of rows",
            axis="rows",
            what="counts",
            has_bars=True,
        )
        return (count,)

    def table(self) -> Columns:
        """Return one line: the number, its standard error, and the ends of its 95 % interval.

        By bins a line per set of parties: how many people are at one of them at least, at all of them, and the errors.
        """
        if "people" in self.fields:
            rows = [{**one, "parties": ", ".join(one["parties"])} for one in self.fields["people"]]
            return {name: [row[name] for row in rows] for name in rows[0]}
        low, high = self.fields["n_rows_interval"]
        error = self.fields["n_rows_standard_error"]
        return {"n_rows": [self.fields["n_rows"]], "standard_error": [error], "at_least": [low], "at_most": [high]}


def _people_lines(fields: Mapping[str, Any]) -> list[str]:
    found = fields["people"]
    table: dict[str, list[Any]] = {"parties": [", ".join(one["parties"]) for one in found]}
    for name, shown in (("union", "at one of them at least"), ("common", "at all of them")):
        errors = half_intervals([one[f"{name}_standard_error"] for one in found])
        table[shown], table["+-" if name == "union" else " +-"] = columns_alike([one[name] for one in found], errors)
    told = f"+- is half of a 95 % interval, by noise and by people whose ids meet in one of {fields['bins']:,} bins"
    return ["number of people", *table_lines(table), told]


def _people_panel(fields: Mapping[str, Any]) -> Rows:
    several = [one for one in fields["people"] if len(one["parties"]) > 1]
    labels = [", ".join(one["parties"]) for one in fields["people"]]
    values = [one["union"] for one in fields["people"]] + [one["common"] for one in several]
    errors = [
        one[f"{name}_standard_error"] for name, of in (("union", fields["people"]), ("common", several)) for one in of
    ]
    labels += [f"all of {', '.join(one['parties'])}" for one in several]
    return rows_of(
        labels, values, around(values, errors), title="Number of people", axis="people", what="counts", has_bars=True
    )


class JointSumResult(Result):
    """Sums and means of columns over the rows that the parties share."""

    analyses = ("joint-mean", "joint-sum")

    @staticmethod
    def lines_of(fields: Mapping[str, Any]) -> list[str]:
        """Return mean and sum of each column with 95 % intervals."""
        table: dict[str, list[Any]] = {"column": fields["columns"]}
        if fields["mean"] is not None:
            ends = [one or (None, None) for one in fields["mean_intervals"]]
            table |= {"mean": fields["mean"], "from": [low for low, _ in ends], "to": [high for _, high in ends]}
        table["sum"], table["+-"] = columns_alike(fields["sum"], half_intervals(fields["sum_standard_errors"]))
        lines = table_lines(table)
        if fields["mean"] is None:
            lines.append(f"+- is half of a 95 % interval, {ALONE}")
            lines.append("no mean is stated: the number of rows is not distinguishable from noise")
        else:
            lines.append(f"from and to are the ends of a 95 % interval, and +- is half of one, {ALONE}")
            if None in fields["mean_intervals"]:
                lines.append("none: the noise moved the mean out of the bounds of its column")
        return [*lines, *closing_lines(fields)]

    @staticmethod
    def panels_of(fields: Mapping[str, Any]) -> tuple[AnyPanel, ...]:
        """Return where the mean of each column lies between its bounds, and its sum, with 95 % intervals."""
        sums = rows_of(
            fields["columns"],
            fields["sum"],
            around(fields["sum"], fields["sum_standard_errors"]),
            title="Sum of each column",
            axis="sum, in the units of each column",
            what="columns",
            has_bars=True,
            note=["No mean is stated: the number of rows is not distinguishable from noise."]
            * (fields["mean"] is None),
        )
        return (sums,) if fields["mean"] is None else (means_panel(fields), sums)

    def table(self) -> Columns:
        """Return a line per column: its sum, its mean, their standard errors, and the ends of the mean's 95 % interval.

        What the result does not state is None: a mean where the number of rows is within its noise.
        """
        names = self.fields["columns"]
        none = [None] * len(names)
        ends = [one or (None, None) for one in self.fields["mean_intervals"] or none]
        return {
            "column": list(names),
            "mean": self.fields["mean"] or none,
            "mean_standard_error": self.fields["mean_standard_errors"] or none,
            "mean_at_least": [low for low, _ in ends],
            "mean_at_most": [high for _, high in ends],
            "sum": self.fields["sum"],
            "sum_standard_error": self.fields["sum_standard_errors"],
        }


def means_panel(fields: Mapping[str, Any]) -> Rows:
    """Return where the mean of each column lies between its bounds, with 95 % intervals."""
    bounds = fields["bounds"]
    return rows_of(
        fields["columns"],
        [_place(mean, of) for mean, of in zip(fields["mean"], bounds, strict=True)],
        [
            ends and (_place(ends[0], of), _place(ends[1], of))
            for ends, of in zip(fields["mean_intervals"], bounds, strict=True)
        ],
        title="Mean of each column",
        axis="place between the bounds of the column, in per cent",
        what="columns",
    )


def _place(value: float, bounds: tuple[float, float]) -> float:
    return 100 * (value - bounds[0]) / (bounds[1] - bounds[0])
