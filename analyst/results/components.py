"""Principal components and low-rank approximations: directions, and own rows projected onto them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyst.results.own_rows import Floats
from analyst.results.result import Columns, Result


class ComponentsResult(Result):
    """Directions of the joint table, whose columns are scaled by their public bounds."""

    analyses = (
        "low-rank",
        "pca",
    )

    @property
    def components_(self) -> Floats:
        """The directions, shape (components, columns); unit vectors in units of scaled columns."""
        return np.array(self.fields["components"], dtype=np.float64)

    @property
    def n_components_(self) -> int:
        """How many there are."""
        return len(self.fields["components"])

    @property
    def feature_names_in_(self) -> NDArray[np.str_]:
        """Names of the columns, `party.column`."""
        return np.array(self.fields["columns"])

    @property
    def explained_variance_(self) -> Floats:
        """Variance along each component, where the result was centred."""
        return np.array(self._field("explained_variance"), dtype=np.float64)

    @property
    def explained_variance_ratio_(self) -> Floats:
        """The same as shares of the whole, where the result states them."""
        return np.array(self._field("explained_variance_ratio"), dtype=np.float64)

    @property
    def mean_(self) -> Floats:
        """Means of the columns in their own units, where the result was centred."""
        return np.array(self._field("mean"), dtype=np.float64)

    @property
    def singular_values_(self) -> Floats:
        """Roots of the leading eigenvalues, shape (components,); 0 for those that noise made negative."""
        leading = np.array(self.fields["eigenvalues"][: self.n_components_], dtype=np.float64)
        return np.sqrt(np.maximum(leading, 0.0))

    def transform(self, rows: Any) -> Floats:
        """Return the coordinates of own rows along the components, shape (rows, components).

        Values outside the public bounds count as the nearer bound, as they did at the owners. Then the mean is
        subtracted, or the origin where the result was not centred, and columns are scaled as the result says: by the
        width of their bounds where it says nothing else. Rows are not shortened to a `row_norm` of the job.

        Args:
            rows: a data frame with the columns of `feature_names_in_`, or an array in their order.

        Raises:
            RowsError: they cannot be used.
        """
        names = list(self.fields["columns"])
        origin, scale = self._origin_and_scale(names)
        return np.asarray((self.own_rows(rows, names) - origin) / scale @ self.components_.T, dtype=np.float64)

    def table(self) -> Columns:
        """Return a row per column: its weight in each component, and its mean where there is one."""
        shown: Columns = {"column": list(self.fields["columns"])}
        for number, component in enumerate(self.fields["components"], start=1):
            shown[f"component_{number}"] = list(component)
        return shown | {name: self.fields[name] for name in ("mean", "scale") if self.fields.get(name) is not None}

    def _origin_and_scale(self, names: list[str]) -> tuple[Floats, Floats]:
        lower, upper = np.array([self.column_bounds.get(name, (0.0, 1.0)) for name in names], dtype=np.float64).T
        middle = lower + (upper - lower) / 2
        fixed = middle if self.job.parameters.get("origin", "lower") == "middle" else lower
        stated = self.fields.get("mean") or self.fields.get("origin")
        origin = fixed if stated is None else np.array(stated, dtype=np.float64)
        scale = self.fields.get("scale")
        return origin, upper - lower if scale is None else np.array(scale, dtype=np.float64)
