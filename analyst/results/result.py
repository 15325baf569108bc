"""The result of a job of any analysis: its fields, tables of it, and what it costs in privacy."""

import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, overload

import numpy as np

from analyses.job.job import Job
from analyst.results.html import page_of
from analyst.results.own_rows import Bounds, Floats, clipped, matrix_of
from transport.calls.coordinator_client import JobView

if TYPE_CHECKING:
    import pandas
    import polars
    from matplotlib.figure import Figure

    from analyses.drawing.chart import Picture

Columns = dict[str, list[Any]]
"""Name of a table's column to its values."""


_ONE_OF = {"standard_errors": "standard_error"}


class Result:
    """What a job has found.

    Every field of the analysis' result is an attribute: `result.noise_level`. So are, under the names of scikit-learn,
    what a class below adds: `result.coef_`. Nothing here is private: it is what the coordinator released.

    Attributes:
        job_id: of the job.
        job: what was asked for.
        fields: the result as the coordinator sent it.
        column_bounds: the public bounds of the columns of the joint table.

    Args:
        view: of a job that is DONE.

    Raises:
        ValueError: it has no result.
    """

    analyses: ClassVar[tuple[str, ...]] = ()
    """Names of the analyses whose results are of this class."""

    def __init__(self, view: JobView) -> None:
        if not view.result_json:
            raise ValueError(f"job {view.job_id} has no result: it is {view.state}")
        self.job_id = view.job_id
        self.job = Job.from_json(view.job_json)
        self.fields: Mapping[str, Any] = json.loads(view.result_json)
        self.column_bounds: Bounds = bounds_of(self.job, json.loads(view.plan_json) if view.plan_json else {})

    def __getattr__(self, name: str) -> Any:
        """Return a field of the result that has no attribute of its own."""
        fields = self.__dict__.get("fields", {})
        if name in fields:
            return fields[name]
        raise AttributeError(f"this result of {fields.get('analysis')} has no {name!r}; it has {', '.join(fields)}")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.fields})

    def __repr__(self) -> str:
        return "\n".join(self.lines)

    def _repr_html_(self) -> str:
        from analyses.drawing.chart import PictureError
        from analyses.drawing.svg import panels_of

        try:
            drawn = panels_of(self.picture)
        except PictureError:
            drawn = []
        return page_of(self.job.title or self.job.analysis, self.table(), self.privacy_lines, drawn)

    @property
    def privacy(self) -> Mapping[str, Any]:
        """What the job costs in privacy, in both views; empty for an exact answer."""
        found: Mapping[str, Any] = self.fields.get("privacy") or {}
        return found

    @property
    def privacy_lines(self) -> list[str]:
        """The same as text."""
        from analyses.job.text import privacy_lines

        return privacy_lines(dict(self.fields)) if self.privacy else []

    @cached_property
    def lines(self) -> list[str]:
        """The result as text, as `moiety job show` prints it."""
        from analyses.registry import lines_of

        return lines_of(self.job.analysis)(dict(self.fields))

    @property
    def standard_errors_(self) -> Floats:
        """Standard errors of what was released, in its units and shape, where the analysis states them."""
        return np.array(self._field("standard_errors"), dtype=np.float64)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain Python values that JSON can hold. Changing them does not change the result."""
        copy: dict[str, Any] = json.loads(json.dumps(self.fields))
        return copy

    def to_polars(self) -> "polars.DataFrame":
        """Return the table of the result."""
        import polars

        return polars.DataFrame(self.table(), strict=False)

    def to_pandas(self) -> "pandas.DataFrame":
        """Return the table of the result.

        Raises:
            ModuleNotFoundError: pandas is not installed; Moiety does without.
        """
        import pandas

        return pandas.DataFrame(self.table())

    def table(self) -> Columns:
        """Return the main part of the result as columns of equal length; here the fields that are single values."""
        return {name: [value] for name, value in self.fields.items() if not isinstance(value, list | dict)}

    @property
    def picture(self) -> "Picture":
        """What is to be seen of the result, as data.

        Raises:
            PictureError: there is nothing to see.
        """
        from analyses.registry import picture_of

        return picture_of(self.fields, self.job.title)

    @overload
    def plot(self, path: None = None) -> "Figure": ...

    @overload
    def plot(self, path: "str | Path") -> None: ...

    def plot(self, path: "str | Path | None" = None) -> "Figure | None":
        """Draw the result: into a file, or as a figure of matplotlib, which a notebook shows.

        Args:
            path: of a `.png` or `.svg` file; the latter, and the picture that a notebook shows of a result, need no
                matplotlib. By default a figure is returned.

        Raises:
            PictureError: there is nothing to draw, or matplotlib is missing; the text says so.
            OSError: the file cannot be written.
        """
        from analyses.drawing.file import figure_of, write

        if path is None:
            return figure_of(self.picture)
        write(self.picture, Path(path))
        return None

    def own_rows(self, rows: Any, names: list[str]) -> Floats:
        """Return an analyst's rows as the owners' were before scaling: each value within its public bounds.

        Args:
            rows: see `analyst.results.own_rows.matrix_of`.
            names: of the columns that are needed.

        Raises:
            RowsError: they cannot be used.
        """
        return clipped(matrix_of(rows, names), names, self.column_bounds)

    def _field(self, name: str) -> Any:
        """Return a field; AttributeError, as of any attribute, where this result does not have it or it is null."""
        if self.fields.get(name) is None:
            raise AttributeError(f"the result of {self.job.analysis} has no {name}")
        return self.fields[name]

    @property
    def _error_column(self) -> Columns:
        """The column of standard errors, one for each row of the table; empty where the result states none."""
        errors = self.fields.get("standard_errors")
        return {} if errors is None else {"standard_error": list(errors)}

    def _same_length(self, n: int, *, but: tuple[str, ...] = ()) -> Columns:
        """Return the fields that are lists of n single values, under the name of one of them where it is another."""
        return {
            _ONE_OF.get(name, name): value
            for name, value in self.fields.items()
            if name not in but
            and isinstance(value, list)
            and len(value) == n
            and not any(isinstance(one, list | dict) for one in value)
        }


def bounds_of(job: Job, plan: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """Return the public bounds of the joint table's columns, which a plan's schemas state.

    Args:
        job: of the plan.
        plan: its JSON; without schemas no bounds are known.
    """
    schemas = {schema["party"]: schema for schema in plan.get("schemas", [])}
    return {
        f"{brought.party}.{column['name']}": (float(column["lower"]), float(column["upper"]))
        for brought in job.inputs
        for column in schemas.get(brought.party, {}).get("columns", [])
    }
