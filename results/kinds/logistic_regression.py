"""Logistic regressions: weights, and what they predict of an analyst's own rows."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from results.drawing.chart import Rows
from results.generic.own_rows import Floats
from results.generic.text import closing_lines
from results.kinds.regression import MAY_BE_NOISE, LineResult, effect_lines, effect_panel, effects_of

RIDGED = f"{MAY_BE_NOISE}, and the ridge shrinks them by an amount that depends on the rows"
"""Sentence below weights whose errors are not known because of the ridge."""


class LogisticRegressionResult(LineResult):
    """A logistic regression of a label that is 0 or 1."""

    analyses = ("logistic-regression",)

    _columns, _weights = "columns", "weights"

    @staticmethod
    def lines_of(fields: Mapping[str, Any]) -> list[str]:
        """Return the intercept and the weights, those that are larger than their errors first."""
        if is_only_noise(fields):
            return [f"no regression of {fields['label']}: {_why_none(fields)}", *closing_lines(fields)]
        how = f"after {fields['iterations']} steps" if fields["method"] == "gradient" else "by second moments"
        heading = f"log odds that {fields['label']} is 1, {how}: {fields['intercept']:+.6g}"
        lines = weight_lines(fields, heading)
        if fields.get("standard_errors"):
            lines.append("intervals are for noise and chance together")
        if fields.get("note"):
            lines += ["", fields["note"]]
        return [*lines, *closing_lines(fields)]

    @staticmethod
    def panels_of(fields: Mapping[str, Any]) -> tuple[Rows]:
        """Return the weights, with 95 % intervals where the result states standard errors.

        Raises:
            NothingToDrawError: the result has only noise.
        """
        weights = None if is_only_noise(fields) else fields["weights"]
        title, axis = f"Logistic regression of {fields['label']}", "log odds of label 1 per unit of each column"
        return (effect_panel(fields, fields["columns"], weights, title=title, axis=axis),)

    @property
    def coef_(self) -> Floats:
        """Weights, shape (1, features): log odds of label 1 per unit of the column."""
        return np.array([self._field("weights")], dtype=np.float64)

    @property
    def intercept_(self) -> Floats:
        """The log odds where all columns are 0, shape (1,)."""
        return np.array([self._field("intercept")], dtype=np.float64)

    @property
    def classes_(self) -> NDArray[np.int64]:
        """The labels."""
        return np.array([0, 1])

    def _model(self, lower: Floats, widths: Floats) -> Any:
        from sklearn.linear_model import LogisticRegression

        model = LogisticRegression()
        weights, intercept = self._line_of_scaled(lower, widths)
        model.coef_, model.intercept_, model.classes_ = weights[None], np.array([intercept]), self.classes_
        return model

    def decision_function(self, rows: Any) -> Floats:
        """Return the log odds of label 1 of own rows, shape (rows,); arguments and errors as `predict`."""
        return self._along(rows)

    def predict_proba(self, rows: Any) -> Floats:
        """Return the probabilities of the labels of own rows, shape (rows, 2); arguments and errors as `predict`."""
        one = np.exp(-np.logaddexp(0.0, -self._along(rows)))  # never overflows
        return np.column_stack([1.0 - one, one])

    def predict(self, rows: Any) -> NDArray[np.int64]:
        """Return the likelier label of own rows, shape (rows,).

        Args:
            rows: a data frame with the columns of `feature_names_in_`, or an array in their order. Values outside the
                public bounds count as the nearer bound, as they did at the owners.

        Raises:
            RowsError: they cannot be used.
        """
        return (self._along(rows) > 0).astype(np.int64)


def weight_lines(fields: Mapping[str, Any], heading: str = "") -> list[str]:
    """Return the weights beyond noise as `effect_lines` does, or one line where the result has only noise."""
    if is_only_noise(fields):
        return [_why_none(fields)]
    errors, bounds = fields.get("standard_errors"), fields.get("bounds")
    effects = effects_of(fields["columns"], fields["weights"], errors, bounds)
    return effect_lines(effects, heading, RIDGED if fields.get("ridge") else MAY_BE_NOISE)


def _why_none(fields: Mapping[str, Any]) -> str:
    return fields.get("note") or "no weight is beyond noise"


def is_only_noise(fields: Mapping[str, Any]) -> bool:
    """Tell whether a result has no answer: all weights then stand as 0, without errors."""
    return not fields.get("standard_errors") and not any((fields["intercept"], *fields["weights"]))
