"""Released second moments: what they answer, without a job and without further cost."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from results.drawing.chart import AnyPanel, PictureError
from results.generic.answer import ReleaseAnswer
from results.generic.result import Columns, Result, SavedResultError
from results.generic.text import closing_lines, columns_alike, half_intervals, some_of, table_lines
from results.kinds.joint_sums import ALONE, means_panel

if TYPE_CHECKING:
    from analyses.second_moments.released import ReleasedMoments
    from results.generic.synthetic import SyntheticTable

MAX_NAMES = 8
"""Columns that are named in the text of a release."""


class SecondMomentsResult(Result):
    """Second moments that were released once, and are asked again."""

    analyses = ("second-moments",)

    @staticmethod
    def lines_of(fields: Mapping[str, Any]) -> list[str]:
        """Return which columns were released, and how to ask."""
        from analyses.kept_moments.questions import QUESTIONS

        names = fields["columns"]
        lines = []
        if fields["mean"] is not None:
            means, halves = columns_alike(fields["mean"], half_intervals(fields["mean_standard_errors"]))
            lines += table_lines({"column": names, "mean": means, "+-": halves})
            lines += [f"+- is half of a 95 % interval, {ALONE}", ""]
        lines += [
            f"second moments of {len(names)} columns: {some_of(names, MAX_NAMES)}",
            "each of these questions is answered from them, without a job and without further cost:",
            *(f"  {name:<20} {question.about}" for name, question in QUESTIONS.items()),
            "moiety answer JOB QUESTION; in Python result.answer(QUESTION, ...)",
        ]
        return [*lines, *closing_lines(fields)]

    @staticmethod
    def panels_of(fields: Mapping[str, Any]) -> tuple[AnyPanel, ...]:
        """Return where the mean of each column lies between its bounds.

        Raises:
            PictureError: there is only noise.
        """
        if fields["mean"] is None:
            raise PictureError("there is nothing to draw: the number of rows is not distinguishable from noise")
        return (means_panel(fields),)

    def table(self) -> Columns:
        """Return a line per column: its mean and its error by noise."""
        names = self.fields["columns"]
        none = [None] * len(names)
        errors = self.fields["mean_standard_errors"] or none
        return {"column": list(names), "mean": self.fields["mean"] or none, "mean_standard_error": errors}

    @cached_property
    def release(self) -> "ReleasedMoments":
        """The release with all that is public about it.

        Raises:
            SavedResultError: the plan or the matrix is missing, or they do not fit together.
        """
        import numpy as np
        from pydantic import ValidationError

        from analyses.kept_moments.plan import KeptMomentsPlan
        from analyses.second_moments.released import ReleasedMoments

        try:
            plan = KeptMomentsPlan.model_validate(self.plan)
            matrix = np.array(self.fields["matrix"], dtype=np.float64)
        except (ValidationError, ValueError, TypeError, LookupError):
            raise SavedResultError(
                "the file has no plan or no matrix of second moments as this version writes"
            ) from None
        n = len(plan.column_names) + 1
        is_as_planned = list(plan.column_names) == list(self.fields["columns"]) and plan.job == self.job
        if not is_as_planned or matrix.shape != (n, n) or not np.isfinite(matrix).all() or (matrix != matrix.T).any():
            raise SavedResultError("matrix, plan and job of the file do not fit together: it has been altered")
        return ReleasedMoments.of(matrix, plan)

    def answer(self, question: str, **given: Any) -> ReleaseAnswer:
        """Return the answer to a question of `analyses.kept_moments.questions.QUESTIONS`.

        Args:
            question: its name.
            given: its arguments, such as `columns=["bank.income", "clinic.age"]`.

        Raises:
            AnswerError: there is no such question, or the release cannot answer it; the text says why.
        """
        from analyses.kept_moments.questions import ask
        from analyses.kept_moments.synthetic.question import SyntheticAnswer
        from results.generic.synthetic import SyntheticTable

        asked = {name: value for name, value in given.items() if value is not None}
        found = ask(self.release, question, **asked)
        if isinstance(found, SyntheticAnswer):
            return SyntheticTable(found, question, self.privacy_lines)
        return ReleaseAnswer(found, question, self.privacy_lines)

    def means(self, columns: Sequence[str] = ()) -> ReleaseAnswer:
        """Return means and standard deviations; see `answer`."""
        return self.answer("means", columns=columns)

    def correlation(self, columns: Sequence[str] = ()) -> ReleaseAnswer:
        """Return correlations of pairs; see `answer`."""
        return self.answer("correlation", columns=columns)

    def regress(
        self, label: str, on: Sequence[str] = (), *, ridge: float | None = None, weight: str | None = None
    ) -> ReleaseAnswer:
        """Return the linear regression of a column on others or on terms, all where none is named; see `answer`."""
        return self.answer("regress", label=label, columns=on, ridge=ridge, weight=weight)

    def components(self, k: int = 2, columns: Sequence[str] = (), *, scale: bool = False) -> ReleaseAnswer:
        """Return principal components; see `answer`."""
        return self.answer("components", k=k, columns=columns, scale=scale)

    def crosstab(self, down: str, across: str) -> ReleaseAnswer:
        """Return the table of two categories; see `answer`."""
        return self.answer("crosstab", down=down, across=across)

    def group_means(self, value: str, by: str) -> ReleaseAnswer:
        """Return the mean of a column in each category of another; see `answer`."""
        return self.answer("group-means", value=value, by=by)

    def synthetic(
        self, rows: int = 10_000, columns: Sequence[str] = (), *, seed: int = 0, label: str | None = None
    ) -> "SyntheticTable":
        """Return a synthetic table, the same for the same seed; see `answer`."""
        from results.generic.synthetic import SyntheticTable

        found = self.answer("synthetic", rows=rows, columns=columns, seed=seed, label=label)
        assert isinstance(found, SyntheticTable), "the question is answered by rows"
        return found
