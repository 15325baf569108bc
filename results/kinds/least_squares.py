"""Linear regressions: coefficients, and what they predict of an analyst's own rows."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from results.drawing.chart import Rows
from results.generic.own_rows import Floats
from results.generic.text import closing_lines
from results.kinds.regression import LineResult, effect_lines, effect_panel, effects_of

OF_A_RIDGE = (
    "Errors are about the line of the same rows with this ridge: how far the ridge moves coefficients is not known."
)


class LeastSquaresResult(LineResult):
    """A linear regression. Without an answer, as `note` then says, it has no `coef_`."""

    analyses = ("least-squares",)

    _columns, _weights = "features", "coefficients"

    @staticmethod
    def lines_of(fields: Mapping[str, Any]) -> list[str]:
        """Return the intercept, the columns with an effect, the share explained, and what is to be said about them."""
        lines = []
        if fields["coefficients"] is None:
            lines.append(f"no regression of {fields['label']}: {fields['note'] or 'the noise hides all of it'}")
        else:
            heading = f"{fields['label']} = {fields['intercept']:.6g}"
            errors, bounds = fields.get("standard_errors"), fields.get("bounds")
            effects = effects_of(fields["features"], fields["coefficients"], errors, bounds)
            lines += effect_lines(effects, heading)
            if errors and fields["ridge"]:
                lines.append(OF_A_RIDGE)
        if fields["r_squared"] is not None:
            interval = fields["r_squared_interval"]
            ends = "" if interval is None else f"; 95 % interval {interval[0]:.4g} to {interval[1]:.4g}"
            lines.append(f"share of the variation explained (R^2): {fields['r_squared']:.4g}{ends}")
        if fields["smallest_eigenvalue"] is not None:
            lines.append(
                f"second moments: smallest eigenvalue {fields['smallest_eigenvalue']:.6g}, noise "
                f"{fields['noise_level']:.6g}, ridge {fields['ridge']:.6g}"
            )
        if fields["note"] and fields["coefficients"] is not None:
            lines += ["", fields["note"]]
        return [*lines, *closing_lines(fields)]

    @staticmethod
    def panels_of(fields: Mapping[str, Any]) -> tuple[Rows]:
        """Return the coefficients, with 95 % intervals where the result states standard errors."""
        title, axis = f"Linear regression of {fields['label']}", f"{fields['label']} per unit of each column"
        return (effect_panel(fields, fields["features"], fields["coefficients"], title=title, axis=axis),)

    @property
    def coef_(self) -> Floats:
        """Coefficients, shape (features,), in units of the label per unit of the column."""
        return np.array(self._field("coefficients"), dtype=np.float64)

    @property
    def intercept_(self) -> float:
        """The value of the label where all columns are 0."""
        return float(self._field("intercept"))

    def _model(self, lower: Floats, widths: Floats) -> Any:
        from sklearn.linear_model import LinearRegression

        model = LinearRegression()
        model.coef_, model.intercept_ = self._line_of_scaled(lower, widths)
        return model

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
