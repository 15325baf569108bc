"""Clusters: their centres, and to which one an analyst's own rows belong."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyst.results.own_rows import Floats
from analyst.results.result import Columns, Result


class ClusteringResult(Result):
    """Centres of clusters with about how many rows each has."""

    analyses = ("clustering",)

    @property
    def cluster_centers_(self) -> Floats:
        """The centres, shape (clusters, columns), in the units of the columns."""
        return np.array(self.fields["centres"], dtype=np.float64)

    @property
    def feature_names_in_(self) -> NDArray[np.str_]:
        """Names of the columns, `party.column`."""
        return np.array(self.fields["columns"])

    def predict(self, rows: Any) -> NDArray[np.int64]:
        """Return the number, from 0, of each row's nearest centre; all columns count alike, scaled by their bounds.

        Args:
            rows: a data frame with the columns of `feature_names_in_`, or an array in their order. Values outside the
                public bounds count as the nearer bound, as they did at the owners.

        Raises:
            RowsError: they cannot be used.
        """
        names = list(self.fields["columns"])
        values = self.own_rows(rows, names)
        lower, upper = np.array([self.column_bounds[name] for name in names]).T
        distances = np.linalg.norm((values[:, None, :] - self.cluster_centers_[None]) / (upper - lower), axis=2)
        return np.asarray(distances.argmin(axis=1), dtype=np.int64)

    def table(self) -> Columns:
        """Return a row per cluster: its number, about how many rows it has, the standard error of that, its centre."""
        centres = self.fields["centres"]
        shown: Columns = {"cluster": list(range(len(centres))), "rows": list(self.fields["weights"])}
        shown |= self._error_column
        for at, name in enumerate(self.fields["columns"]):
            shown[name] = [centre[at] for centre in centres]
        return shown
