"""What an analyst asks, in Python: one class per analysis, and the job that it becomes."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias

from analyses.job.job import Job, JobError, MatchingKind
from service.files.text_file import TextFileError, read_text

Columns: TypeAlias = str | tuple[str, Sequence[str]]
"""A table of a party, by name, with the columns that are wanted of it where not all are."""


class Question:
    """A job of one analysis, checked as far as it can be without the owners' tables.

    Args:
        inputs: party to its table, `{"bank": "people"}`, or to the table and the columns that are wanted of it,
            `{"bank": ("people", ["age", "income"])}`; in the order of the joint table's columns.
        epsilon: of the privacy guarantee; leave out both where the analysis may be exact and owners allow it.
        delta: of the privacy guarantee.
        view: the adversary that epsilon is for; see `analyses.job.job.PrivacyTarget`.
        compute: names of the parties that hold shares; by default those that bring columns.
        colluding: number of parties that may pool what they see; by default the most that is possible.
        deadline_s: a stage in which nothing arrives from a member for so long fails the job.
        title: for people.
        matching: how the rows of tables are matched that hold other rows in other orders, `revealed` or `secret`, or
            the fields of `analyses.job.job.Matching`: `{"kind": "revealed", "keep": True}`, or `"match": ID` in its
            place; by default all tables must hold the same rows in the same order.
        parameters: of the analysis; the reference of job files explains them.

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
        **parameters: Any,
    ) -> None:
        if (epsilon is None) != (delta is None):
            raise JobError("epsilon, delta: both or neither must be given")
        brought = [(party, (table, ()) if isinstance(table, str) else table) for party, table in inputs.items()]
        fields: dict[str, Any] = {
            "analysis": self.analysis,
            "inputs": [{"party": party, "table": table, "columns": list(wanted)} for party, (table, wanted) in brought],
            "compute": list(compute),
            "colluding": colluding,
            "deadline_s": float(deadline_s),
            "title": title,
            "parameters": parameters,
        }
        if matching is not None:
            fields["matching"] = {"kind": matching} if isinstance(matching, str) else dict(matching)
        if epsilon is not None and delta is not None:
            fields["privacy"] = {"epsilon": float(epsilon), "delta": float(delta), "view": view}
        self.job = checked(fields)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.job.canonical_json()})"


class Clustering(Question):
    """Clusters of rows, k-means or k-median."""

    analysis = "clustering"


class Distribution(Question):
    """The distribution of one number over the rows of all parties."""

    analysis = "distribution"


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


class SecureHistogram(Question):
    """How many rows of all parties lie in each bin."""

    analysis = "secure-histogram"


class SecureMean(Question):
    """Means of columns over the rows of all parties."""

    analysis = "secure-mean"


class SecureSum(Question):
    """Sums of columns over the rows of all parties."""

    analysis = "secure-sum"


QUESTIONS: tuple[type[Question], ...] = (
    PCA,
    Clustering,
    Distribution,
    LeastSquares,
    LogisticRegression,
    LowRank,
    MatrixFactorization,
    Moments,
    PatternCount,
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
        return with_parameters_checked(Job.from_toml(read_text(asked)))
    except TextFileError as error:
        raise JobError(str(error)) from error
    except JobError as error:
        raise JobError("\n".join(f"{asked}: {line}" for line in str(error).splitlines())) from error


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
    except (TypeError, ValueError) as error:
        raise JobError("parameters: must be finite numbers, texts, and lists and mappings of these") from error
    return with_parameters_checked(Job.from_json(text))


def with_parameters_checked(job: Job) -> Job:
    """Return the job.

    Raises:
        JobError: there is no such analysis, or a parameter is wrong for any tables; names each field.
    """
    from analyses.registry import analysis_of  # with numerics

    analysis_of(job).check_parameters(job)
    return job
