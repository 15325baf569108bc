"""Clusters: their centres with about how many rows each has, and to which one an analyst's own rows belong."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from results.drawing.chart import AnyPanel, Cells, NothingToDrawError, rows_of, shown
from results.generic.model import ModelResult
from results.generic.own_rows import Floats
from results.generic.result import Columns
from results.generic.text import MAX_LINES, closing_lines

MAX_CLUSTERS = 12
MAX_COLUMNS = 25


class ClusteringResult(ModelResult):
    """Centres of clusters with about how many rows each has."""

    analyses = ("clustering",)

    @staticmethod
    def lines_of(fields: Mapping[str, Any]) -> list[str]:
        """Return each cluster with its rows and its centre, and whether the clusters are more than noise."""
        lines = []
        for number, (centre, rows, error) in enumerate(
            zip(fields["centres"], fields["weights"], fields["standard_errors"], strict=True), start=1
        ):
            lines.append(f"cluster {number} (about {rows:,.0f} rows, counted with noise of {error:,.0f})")
            values = [f"  {value:.6g}  {name}" for value, name in zip(centre, fields["columns"], strict=True)]
            lines += values[:MAX_LINES]
            if len(centre) > MAX_LINES:
                lines.append(f"  and {len(centre) - MAX_LINES} more columns; --format json has them all")
        return [*lines, *certainty_lines(fields), *closing_lines(fields)]

    @staticmethod
    def panels_of(fields: Mapping[str, Any]) -> tuple[AnyPanel, ...]:
        """Return a table of the centres, each column shaded from its smallest to its largest, and the weights."""
        names, centres, weights = fields["columns"], fields["centres"], fields["weights"]
        if not centres:
            raise NothingToDrawError("there is nothing to draw: no cluster")
        clusters = sorted(sorted(range(len(centres)), key=lambda at: -weights[at])[:MAX_CLUSTERS])
        note = []
        if len(clusters) < len(centres):
            note.append(f"The {len(clusters)} largest of {len(centres)} clusters are shown.")
        columns = list(range(len(names)))
        if len(columns) > MAX_COLUMNS:
            apart = sorted(columns, key=lambda at: -_apart([centres[cluster][at] for cluster in clusters]))
            columns = sorted(apart[:MAX_COLUMNS])
            lost = len(names) - MAX_COLUMNS
            note.append(f"The {MAX_COLUMNS} of {len(names)} columns that differ most are shown; {lost} are left out.")
        table = Cells(
            title="Centres of the clusters, in the units of the columns",
            labels=tuple(names[at] for at in columns),
            heads=tuple(f"cluster {at + 1}\n{shown(round(weights[at]))} rows" for at in clusters),
            values=tuple(tuple(centres[cluster][at] for cluster in clusters) for at in columns),
            note=(*note, "Darker: nearer to the largest of a column's centres."),
        )
        sizes = rows_of(
            [f"cluster {at + 1}" for at in range(len(weights))],
            weights,
            (),  # the noise of counting alone bounds no number of rows near a centre
            title="Sizes of the clusters",
            axis="rows, about",
            what="clusters",
            has_bars=True,
            note=[f"{said[0].upper()}{said[1:]}."] if (said := fields.get("note")) else [],
        )
        return table, sizes

    @property
    def cluster_centers_(self) -> Floats:
        """The centres, shape (clusters, columns), in the units of the columns."""
        return np.array(self.fields["centres"], dtype=np.float64)

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

    def _model(self, lower: Floats, widths: Floats) -> Any:
        from sklearn.cluster import KMeans

        if not len(self.cluster_centers_):
            raise AttributeError("the result of clustering has no cluster")
        model = KMeans(n_clusters=len(self.cluster_centers_))
        model.cluster_centers_ = np.ascontiguousarray((self.cluster_centers_ - lower) / widths)
        model._n_threads = 1  # of the C code; fit would ask the machine
        return model

    def table(self) -> Columns:
        """Return a row per cluster: its number, about how many rows it has, the noise of counting them, its centre."""
        centres = self.fields["centres"]
        shown: Columns = {"cluster": list(range(len(centres))), "rows": list(self.fields["weights"])}
        if self.fields.get("standard_errors") is not None:
            shown["counting_noise"] = list(self.fields["standard_errors"])
        for at, name in enumerate(self.fields["columns"]):
            shown[name] = [centre[at] for centre in centres]
        return shown


def certainty_lines(fields: Mapping[str, Any]) -> list[str]:
    """Return what the centres explain at least, or why they are not distinguishable from noise."""
    lines = []
    if fields["explained_at_least"] is not None and not fields["note"]:
        part = fields["explained_at_least"]
        lines.append(f"the centres explain at least {part:.0%} of how cells lie about one centre, in 19 of 20 cases")
    return lines + ([fields["note"]] if fields["note"] else [])


def _apart(values: list[float]) -> float:
    """Return how far values lie apart, in parts of the largest."""
    return (max(values) - min(values)) / (max(map(abs, values)) or 1.0)
