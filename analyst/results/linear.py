"""Linear and logistic regression: coefficients, and what they predict of an analyst's own rows."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyst.results.own_rows import Floats
from analyst.results.result import Columns, Result


class _Line(Result):
    """A weight for each of some columns, and an intercept, in the units of the columns."""

    _columns, _weights = "columns", "weights"  # names of fields

    @property
    def feature_names_in_(self) -> NDArray[np.str_]:
        """Names of the columns that the coefficients belong to, `party.column`."""
        return np.array(self.fields[self._columns])

    def table(self) -> Columns:
        """Return a row per column: its coefficient, and whatever else the result says of each column."""
        names = self.fields[self._columns]
        shown = {"column": list(names), "coefficient": self.fields[self._weights] or [None] * len(names)}
        return shown | self._same_length(len(names), but=(self._columns, self._weights))

    def _along(self, rows: Any) -> Floats:
        weights = np.array(self._field(self._weights), dtype=np.float64)
        names = list(self.fields[self._columns])
        return np.asarray(self.own_rows(rows, names) @ weights + self._field("intercept"), dtype=np.float64)


class LeastSquaresResult(_Line):
    """A linear regression. Without an answer, as `note` then says, it has no `coef_`."""

    analyses = ("least-squares",)

    _columns, _weights = "features", "coefficients"

    @property
    def coef_(self) -> Floats:
        """Coefficients, shape (features,), in units of the label per unit of the column."""
        return np.array(self._field("coefficients"), dtype=np.float64)

    @property
    def intercept_(self) -> float:
        """The value of the label where all columns are 0."""
        return float(self._field("intercept"))

    def predict(self, rows: Any) -> Floats:
        """Return the label of own rows, shape (rows,).

        Args:
            rows: a data frame with the columns of `feature_names_in_`, or an array in their order. Values outside the
                public bounds count as the nearer bound, as they did at the owners.

        Raises:
            RowsError: they cannot be used.
            AttributeError: the result has no coefficients.
        """
        return self._along(rows)


class LogisticRegressionResult(_Line):
    """A logistic regression of a label that is 0 or 1."""

    analyses = ("logistic-regression",)

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
