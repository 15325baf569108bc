"""What an analyst asks, in Python: one class per analysis, and the job that it becomes."""

import json
import warnings
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias

from analyses.job.job import Job, JobError, MatchingKind, Security
from analyst.named_files import with_files
from service.files.text_file import TextFileError, read_text

Columns: TypeAlias = str | tuple[str, Sequence[str]]
"""A table of a party, by name, with the columns that are wanted of it where not all are."""


class Question:
    """A job of one analysis, checked as far as it can be without the owners' tables.

    Args:
        inputs: party to its table, `{"bank": "people"}`, or to the table and the columns that are wanted of it,
            `{"bank": ("people", ["age", "income"])}`; in the order of the joint table's columns.
        epsilon: epsilon of the privacy guarantee; leave out both where the analysis may be exact and owners allow it.
        delta: delta of the privacy guarantee.
        view: the adversary that epsilon is for; see `analyses.job.job.PrivacyTarget`.
        compute: names of the parties that hold shares; by default those that bring columns.
        colluding: number of parties that may pool what they see; by default the most that is possible.
        deadline_s: a stage in which nothing arrives from a member for so long fails the job.
        title: title for people.
        matching: how the rows of tables are matched that hold other rows in other orders, `revealed` or `secret`, or
            the fields of `analyses.job.job.Matching`: `{"kind": "revealed", "keep": True}`, or `"match": ID` in its
            place; by default all tables must hold the same rows in the same order.
        row_order: `trusted` where the tables have no ids and rows are joined in the order in which their owners hold
            them, which nobody can check.
        security: members against which the promise of privacy holds; see `analyses.job.job.Job`.
        parameters: parameters of the analysis; the reference of job files explains them.

    Raises:
        JobError: a field is missing, unknown or out of range; the text names each.
    """

    analysis: ClassVar[str]
    """Name of the analysis."""

    def __init__(
        self,
        inputs: Mapping[str, Columns],
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        view: Literal["coalition", "coordinator"] = "coalition",
        compute: Sequence[str] = (),
        colluding: int | None = None,
        deadline_s: float = 30.0,
        title: str = "",
        matching: MatchingKind | Mapping[str, Any] | None = None,
        row_order: Literal["trusted"] | None = None,
        security: Security = "semi-honest",
        **parameters: Any,
    ) -> None:
        for name in parameters:
            if meant := get_close_matches(name, ("epsilon", "delta"), 1, cutoff=0.75):
                raise JobError(f"{name}: there is no such field; did you mean {meant[0]!r}?")
        if (epsilon is None) != (delta is None):
            raise JobError("epsilon, delta: give both or neither")
        if isinstance(compute, str):
            raise JobError(f"compute: must be a list of parties, got {compute!r}")
        fields: dict[str, Any] = {
            "analysis": self.analysis,
            "inputs": _brought(inputs),
            "compute": list(compute),
            "colluding": colluding,
            "deadline_s": _number("deadline_s", deadline_s),
            "title": title,
            "parameters": parameters,
            "security": security,
        }
        if matching is not None:
            fields["matching"] = {"kind": matching} if isinstance(matching, str) else dict(matching)
        if row_order is not None:
            fields["order"] = row_order
        if epsilon is not None and delta is not None:
            fields["privacy"] = {
                "epsilon": _number("epsilon", epsilon),
                "delta": _number("delta", delta),
                "view": view,
            }
        self.job = checked(fields)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.job.canonical_json()})"


def _brought(inputs: Mapping[str, Columns]) -> list[dict[str, Any]]:
    """Return the inputs of a job.

    Raises:
        JobError: they are not written as `Question` says.
    """
    if not isinstance(inputs, Mapping):
        raise JobError("inputs: must say which table each party brings, as in {'bank': 'people', 'clinic': 'visits'}")
    brought = []
    for party, given in inputs.items():
        pair: tuple[Any, ...] = (
            (given, ()) if isinstance(given, str) or not isinstance(given, Sequence) else tuple(given)
        )
        table, columns, *more = pair if len(pair) > 1 else (None, ())
        if more or not isinstance(table, str) or isinstance(columns, str) or not isinstance(columns, Sequence):
            how = "the name of a table, or (TABLE, [COLUMN, ...]); a filter (`where`) is named in a job file"
            raise JobError(f"inputs.{party}: must be {how}")
        brought.append({"party": party, "table": table, "columns": list(columns)})
    return brought


def _number(name: str, value: object) -> float:
    try:
        if isinstance(value, str | bytes | bool):
            raise TypeError
        return float(value)  # type: ignore[arg-type]  # whatever is a number, those of NumPy too
    except (TypeError, ValueError):
        raise JobError(f"{name}: must be a number, got {value!r}") from None


class Circuit(Question):
    """The sums of a program of your own on the rows that the parties share."""

    analysis = "circuit"


class Clustering(Question):
    """Clusters of rows, k-means or k-median."""

    analysis = "clustering"


class CrossTable(Question):
    """How many rows have each category of one party's column and each of another's."""

    analysis = "cross-table"


class Distribution(Question):
    """The distribution of one number over the rows of all parties."""

    analysis = "distribution"


class JointCount(Question):
    """How many rows the parties share."""

    analysis = "joint-count"


class JointMean(Question):
    """Means of columns over the rows that the parties share."""

    analysis = "joint-mean"


class JointSum(Question):
    """Sums of columns over the rows that the parties share."""

    analysis = "joint-sum"


class LeastSquares(Question):
    """Linear regression of one party's label."""

    analysis = "least-squares"


class LogisticRegression(Question):
    """Logistic regression of one party's label."""

    analysis = "logistic-regression"


class LowRank(Question):
    """A low-rank approximation of the joint table."""

    analysis = "low-rank"


class MatrixFactorization(Question):
    """Factors of ratings."""

    analysis = "matrix-factorization"


class Moments(Question):
    """A frequency moment: the sum over values of their frequency to some power."""

    analysis = "moments"


class PatternCount(Question):
    """How many rows have each combination of categories."""

    analysis = "pattern-count"


class PCA(Question):
    """Principal components of the joint table."""

    analysis = "pca"


class SecondMoments(Question):
    """Second moments of the joint table, released once for many questions."""

    analysis = "second-moments"


class SecureHistogram(Question):
    """Number of rows of all parties in each bin."""

    analysis = "secure-histogram"


class SecureMean(Question):
    """Means of columns over the rows of all parties."""

    analysis = "secure-mean"


class SecureSum(Question):
    """Sums of columns over the rows of all parties."""

    analysis = "secure-sum"


QUESTIONS: tuple[type[Question], ...] = (
    PCA,
    Circuit,
    Clustering,
    CrossTable,
    Distribution,
    JointCount,
    JointMean,
    JointSum,
    LeastSquares,
    LogisticRegression,
    LowRank,
    MatrixFactorization,
    Moments,
    PatternCount,
    SecondMoments,
    SecureHistogram,
    SecureMean,
    SecureSum,
)
"""A class for each analysis."""

Asked: TypeAlias = Question | Job | Path
"""What a client takes: a question, a job, or the path of a job file."""


def job_of(asked: Asked) -> Job:
    """Return the job that is asked for.

    Raises:
        JobError: the file cannot be read, or the job is wrong; the text names each field.
    """
    if isinstance(asked, Question):
        return asked.job
    if isinstance(asked, Job):
        return asked
    try:
        return with_parameters_checked(_with_files(_with_program(Job.from_toml(read_text(asked)), asked), asked))
    except TextFileError as error:
        raise JobError(str(error)) from None
    except JobError as error:
        raise JobError("\n".join(f"{asked}: {line}" for line in str(error).splitlines())) from None


def _with_program(job: Job, path: Path) -> Job:
    """Return a job file's job; a program that it names as a Python file beside it is recorded into its lines.

    Raises:
        JobError: the program is none; names its line.
        TextFileError: it cannot be read.
    """
    named = job.parameters.get("program")
    if not isinstance(named, str):
        return job
    from analyst.recording import record  # with numerics

    lines = list(record(read_text(path.parent / named), named))
    return job.model_copy(update={"parameters": {**job.parameters, "program": lines}})


def _with_files(job: Job, path: Path) -> Job:
    """Return a job file's job with what stands in files that it names; raises as `with_files`."""
    if job.analysis != MatrixFactorization.analysis:
        return job
    return job.model_copy(update={"parameters": with_files(job.parameters, path.parent)})


def job_wanted(asked: Asked, *, anyway: bool) -> Job:
    """Return the job that is asked for, which says `anyway` where the analyst does; raises as `job_of`."""
    job = job_of(asked)
    return job.model_copy(update={"anyway": True}) if anyway else job


def checked(fields: Mapping[str, Any]) -> Job:
    """Return a job from its fields, with its parameters checked.

    Raises:
        JobError: names each field.
    """
    try:
        text = json.dumps(fields, allow_nan=False)
    except (TypeError, ValueError):
        raise JobError("parameters: must be finite numbers, texts, and lists and mappings of these") from None
    return with_parameters_checked(Job.from_json(text))


def with_parameters_checked(job: Job) -> Job:
    """Return the job, its parameters under the names that they have here; warns of each that had another one.

    Raises:
        JobError: there is no such analysis, or a parameter is wrong for any tables; names each field.
    """
    from analyses.registry import analysis_of  # with numerics

    analysis = analysis_of(job)
    job, notes = analysis.renamed(job)
    for note in notes:
        warnings.warn(note, stacklevel=2)
    analysis.check_parameters(job)
    return job
