"""The result of a job of any analysis: its fields, its text, its picture, tables of it, and its cost in privacy."""

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from analyses.job.job import Job
from results.drawing.chart import AnyPanel, Picture, PictureError
from results.generic.html import page_of
from results.generic.own_rows import Bounds, Floats, Sources, clipped_rows
from results.generic.text import about_lines, lines_of_fields, privacy_lines

if TYPE_CHECKING:
    import pandas
    import polars

    from results.drawing.file import Drawing
    from verify.findings import Verification

FILE_VERSION = 1
"""Version of the files that `Result.save` writes."""

Columns = dict[str, list[Any]]
"""Name of a table's column to its values."""

_ONE_OF = {"standard_errors": "standard_error"}


class SavedResultError(ValueError):
    """A file holds no result of a job, or parts that do not fit together; the text says why."""

    code: str = "result-file-unusable"


class Result:
    """What a job has found.

    Every field of the analysis' result is an attribute: `result.noise_level`. So are, under the names of scikit-learn,
    what a class below adds: `result.coef_`. Nothing here is private: it is what the coordinator released.

    Attributes:
        job_id: identifier of the job.
        job: what was asked for.
        fields: the result as the coordinator sent it.
        column_bounds: the public bounds of the columns of the joint table.
        column_sources: the column of the owner's table of each that is encoded as one of several.
        plan: the JSON of the job's plan; empty without one.

    Args:
        job: what was asked for.
        fields: the result as the coordinator sent it.
        plan: the JSON of the job's plan; without one no bounds of columns are known.
        job_id: identifier of the job; empty if it ran in one process.
    """

    analyses: ClassVar[tuple[str, ...]] = ()
    """Names of the analyses whose results are of this class."""

    def __init__(
        self, job: Job, fields: Mapping[str, Any], plan: Mapping[str, Any] | None = None, job_id: str = ""
    ) -> None:
        self.job_id = job_id
        self.job = job
        self.fields = fields
        self.plan: Mapping[str, Any] = plan or {}
        self.column_bounds: Bounds = bounds_of(job, self.plan)
        self.column_sources: Sources = {
            name: f"{name.partition('.')[0]}.{column['group']}"
            for name, column in columns_of(job, self.plan).items()
            if column.get("group") is not None
        }

    @staticmethod
    def lines_of(fields: Mapping[str, Any]) -> list[str]:
        """Return the fields of a result as lines of text, with their cost; here field by field."""
        return lines_of_fields(fields)

    @staticmethod
    def device_lines_of(answer: Mapping[str, Any]) -> list[str]:
        """Return an answer of devices to such a question as lines of text, with its cost; here field by field."""
        return lines_of_fields(answer)

    @staticmethod
    def panels_of(fields: Mapping[str, Any]) -> tuple[AnyPanel, ...]:
        """Return the panels of the picture of a result, from left to right.

        Raises:
            PictureError: there is nothing to see; here always.
        """
        raise PictureError(f"results of {fields.get('analysis')} have no picture")

    @classmethod
    def picture_of(cls, fields: Mapping[str, Any], heading: str = "") -> Picture:
        """Return the picture of a result.

        Args:
            fields: result as the coordinator sent it.
            heading: to stand above it, such as the title of the job.

        Raises:
            PictureError: there is nothing to see, or fields are missing or not as this version writes them.
        """
        try:
            return Picture(cls.panels_of(fields), heading)
        except PictureError:
            raise
        except (LookupError, TypeError, ValueError, ArithmeticError) as error:
            name = fields.get("analysis")
            text = f"this result of {name} cannot be drawn: it is not as this version writes it"
            raise PictureError(text) from error

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
        from results.drawing.svg import elements_of

        try:
            drawn = elements_of(self.picture)
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
        return privacy_lines(self.fields) if self.privacy else []

    @cached_property
    def lines(self) -> list[str]:
        """The result as text, as `moiety job show` prints it: whose rows it is about, and what was found."""
        from analyses.registry import ANALYSES

        joins = self.job.analysis not in ANALYSES or ANALYSES[self.job.analysis].joins_rows(self.job)
        return [*about_lines(self.job, self.fields, joins=joins), *self.lines_of(self.fields)]

    @property
    def standard_errors_(self) -> Floats:
        """Standard errors of what was released, in its units and shape, where the analysis states them."""
        return np.array(self._field("standard_errors"), dtype=np.float64)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain Python values that JSON can hold. Changing them does not change the result."""
        copy: dict[str, Any] = json.loads(json.dumps(self.fields))
        return copy

    def save(self, path: "str | Path") -> None:
        """Write the result with its job and its plan to a file, which `moiety.load` reads without a federation.

        Raises:
            OSError: the file cannot be written.
        """
        fields = {
            "version": FILE_VERSION,
            "job_id": self.job_id,
            "analysis": self.job.analysis,
            "state": "DONE",
            "job": json.loads(self.job.canonical_json()),
            "plan": dict(self.plan) or None,
            "result": self.to_dict(),
        }
        Path(path).write_text(json.dumps(fields, sort_keys=True, allow_nan=False) + "\n")

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

    def verify(self, authority: "str | Path", revoked: "str | Path | None" = None) -> "Verification":
        """Check who has signed the result, whether all fits together, and its privacy; contacts nobody.

        Args:
            authority: path of the certificate of the federation's authority.
            revoked: path of its list of revoked certificates, if there is one.

        Raises:
            ValueError: the result carries no receipts, or a file cannot be used.
            OSError: a file cannot be read.
        """
        from verify.check import verify
        from verify.document import Document
        from verify.signers import Authority

        parts = Document.of_parts(self.job_id, None, self.plan, self.fields)
        document = replace(parts, job=json.loads(self.job.canonical_json()))
        revoked_pem = None if revoked is None else Path(revoked).read_bytes()
        return verify(document, Authority.of_pem(Path(authority).read_bytes(), revoked_pem))

    def table(self) -> Columns:
        """Return the main part of the result as columns of equal length; here the fields that are single values."""
        return {name: [value] for name, value in self.fields.items() if not isinstance(value, list | dict)}

    @property
    def picture(self) -> Picture:
        """What is to be seen of the result, as data.

        Raises:
            PictureError: there is nothing to see.
        """
        return self.picture_of(self.fields, self.job.title)

    def plot(self, path: "str | Path | None" = None) -> "Drawing":
        """Draw the result: a notebook shows what is returned.

        Args:
            path: a `.png` or `.svg` file to write besides; only the former needs the extra `plot`.

        Raises:
            PictureError: there is nothing to draw, or what a .png file needs is missing; the text says so.
            OSError: the file cannot be written.
        """
        from results.drawing.file import Drawing, write

        if path is not None:
            write(self.picture, Path(path))
        return Drawing(self.picture)

    def own_rows(self, rows: Any, names: list[str]) -> Floats:
        """Return an analyst's rows as the owners' were before scaling: each value within its public bounds.

        Args:
            rows: see `results.generic.own_rows.clipped_rows`.
            names: names of the columns that are needed.

        Raises:
            RowsError: they cannot be used.
        """
        return clipped_rows(rows, names, self.column_bounds, self.column_sources)

    def _field(self, name: str) -> Any:
        """Return a field; AttributeError, as of any attribute, where this result does not have it or it is null."""
        if self.fields.get(name) is None:
            raise AttributeError(f"the result of {self.job.analysis} has no {name}")
        return self.fields[name]

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
        job: job of the plan.
        plan: its JSON; without schemas no bounds are known.
    """
    return {name: (float(column["lower"]), float(column["upper"])) for name, column in columns_of(job, plan).items()}


def columns_of(job: Job, plan: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the JSON of the joint table's columns by their names `party.column`; arguments as of `bounds_of`."""
    schemas = {schema["party"]: schema for schema in plan.get("schemas", [])}
    return {
        f"{brought.party}.{column['name']}": column
        for brought in job.inputs
        for column in schemas.get(brought.party, {}).get("columns", [])
    }
