"""An answer from a release as text, as a table of other libraries, and for notebooks."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from analyses.job.forecast import NORMAL_95
from analyses.kept_moments.answer import Answer
from results.generic.html import page_of
from results.generic.text import columns_alike, inline, table_lines

if TYPE_CHECKING:
    import pandas
    import polars

_ERRORS = ("noise_error", "chance_error", "error")


class ReleaseAnswer:
    """An answer from a release: its fields are attributes, and its table has a row for each number asked for.

    Attributes:
        found: what was computed.
        title: what stands above it.
        cost: lines that say what the release has cost, once for all answers.
    """

    def __init__(self, found: Answer, title: str, cost: Sequence[str]) -> None:
        self.found = found
        self.title = title
        self.cost = tuple(cost)

    def __getattr__(self, name: str) -> Any:
        """Return a number beside the table, or a column of the table."""
        found = self.__dict__.get("found")
        for fields in () if found is None else (found.about, found.table):
            if name in fields:
                return fields[name]
        raise AttributeError(f"this answer has no {name!r}")

    @property
    def lines(self) -> list[str]:
        """The answer as text: numbers are rounded to their errors, and half-widths are those of 95 % intervals."""
        lines = table_lines(self._rounded())
        lines += [f"{name.replace('_', ' ')}: {_short(value)}" for name, value in self.found.about.items()]
        if any(name in self.found.table for name in _ERRORS):
            lines.append("+- is half of a 95 % interval" if self._has_intervals() else "+- is 1.96 standard errors")
        return [*lines, *self.found.notes, "", *self.cost]

    def __repr__(self) -> str:
        return "\n".join(self.lines)

    def _repr_html_(self) -> str:
        columns = {name: list(values) for name, values in self.found.table.items()}
        about = [f"{name.replace('_', ' ')}: {_short(value)}" for name, value in self.found.about.items()]
        return page_of(self.title, columns, [*about, *self.found.notes, *self.cost])

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as JSON data."""
        return self.found.to_dict()

    def to_polars(self) -> "polars.DataFrame":
        """Return the table."""
        import polars

        return polars.DataFrame({name: list(values) for name, values in self.found.table.items()}, strict=False)

    def to_pandas(self) -> "pandas.DataFrame":
        """Return the table.

        Raises:
            ModuleNotFoundError: pandas is not installed.
        """
        import pandas

        return pandas.DataFrame({name: list(values) for name, values in self.found.table.items()})

    def _has_intervals(self) -> bool:
        """Return whether an interval is stated, or the question has none to state."""
        found = [values for name, values in self.found.table.items() if name.endswith("interval")]
        return not found or any(one is not None for values in found for one in values)

    def _rounded(self) -> dict[str, Sequence[Any]]:
        """Return the table with each number rounded to the error that stands behind it."""
        shown: dict[str, Sequence[Any]] = {}
        last = ""
        for name, values in self.found.table.items():
            if name == "interval" or name.endswith("_interval"):
                continue
            if name.endswith("error"):
                halves = [None if one is None else NORMAL_95 * one for one in values]
                what = name.removesuffix("error").replace("_", " ").strip()
                heading = f"+- {what}".strip()
                if heading in shown:
                    heading = f"{heading} "
                if last:
                    shown[last], _ = columns_alike(self.found.table[last], halves)
                    last = ""
                shown[heading] = columns_alike(halves, halves)[1]
            else:
                shown[name] = [_short(one) for one in values]
                last = name if values and all(one is None or isinstance(one, float) for one in values) else ""
        return shown


def _short(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_short, value))
    return inline(float(f"{value:.6g}") if isinstance(value, float) else value)
