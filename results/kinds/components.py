"""Components of a joint table, for all analyses that find directions: as an object, as text, as a picture."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from results.drawing.chart import Rows, Spectrum, rows_of
from results.generic.model import ModelResult
from results.generic.own_rows import Floats
from results.generic.result import Columns

MAX_ENTRIES = 6
"""At most this many columns of a component are printed, those of largest weight; JSON has all of them."""

MAX_EIGENVALUES = 20
"""That are drawn, and some more where the result has as many components."""

MAX_LOADINGS = 15


class ComponentsResult(ModelResult):
    """Directions of the joint table, whose columns are scaled by their public bounds."""

    @property
    def components_(self) -> Floats:
        """The directions, shape (components, columns); unit vectors in units of scaled columns."""
        return np.array(self.fields["components"], dtype=np.float64)

    @property
    def n_components_(self) -> int:
        """How many there are."""
        return len(self.fields["components"])

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
        subtracted, or the origin where the result was not centred, and columns are divided by the scales that the
        result states, or by the widths of their bounds where it states none. Rows are not shortened to the job's
        `row_norm`.

        Args:
            rows: a data frame with the columns of `feature_names_in_`, or an array in their order.

        Raises:
            RowsError: they cannot be used.
        """
        names = list(self.fields["columns"])
        origin, scale = self._origin_and_scale(names)
        return np.asarray((self.own_rows(rows, names) - origin) / scale @ self.components_.T, dtype=np.float64)

    def _model(self, lower: Floats, widths: Floats) -> Any:
        from sklearn.decomposition import PCA

        origin, scale = self._origin_and_scale(list(self.fields["columns"]))
        model = PCA(n_components=self.n_components_)
        model.components_ = self.components_ * (widths / scale)  # unit vectors where columns are scaled by their bounds
        model.mean_ = (origin - lower) / widths
        model.n_components_ = self.n_components_
        for name in ("explained_variance_", "explained_variance_ratio_"):
            if hasattr(self, name):
                setattr(model, name, getattr(self, name))
        return model

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


def weight_lines(fields: Mapping[str, Any], at: int) -> list[str]:
    """Return the largest weights of one component."""
    entries = sorted(zip(fields["components"][at], fields["columns"], strict=True), key=lambda entry: -abs(entry[0]))
    lines = [f"  {weight:+.4f}  {column}" for weight, column in entries[:MAX_ENTRIES]]
    return lines + ([f"  and {len(entries) - MAX_ENTRIES} smaller ones"] if len(entries) > MAX_ENTRIES else [])


def noise_lines(n_components: int, n_seen: int) -> list[str]:
    """Return a line that says which components are no more than noise; no line if there are none."""
    if n_seen >= n_components:
        return []
    first = n_seen + 1
    which = f"component {first} is" if first == n_components else f"components {first} to {n_components} are"
    return [f"{which} not distinguishable from noise: the numbers in --format json say nothing about the rows"]


def spectrum_of(
    values: Sequence[float],
    *,
    edge: float,
    n_kept: int,
    axis: str,
    title: str,
    estimates: Sequence[float] = (),
    intervals: Sequence[Any] = (),
    is_log: bool = True,
) -> Spectrum:
    """Return the panel of a spectrum: its first values, and in words what is not drawn."""
    most = max(MAX_EIGENVALUES, n_kept)
    first = tuple(values[:most])
    note = []
    if len(values) > most:
        note.append(f"The first {most} of {len(values)} are shown.")
    if is_log and (lost := sum(value <= 0 for value in first)):
        note.append(f"{lost} of them {'is' if lost == 1 else 'are'} not positive, by noise, and not drawn.")
    return Spectrum(
        title=title,
        axis=axis,
        values=first,
        estimates=tuple(estimates[: len(first)]),
        intervals=tuple(ends and tuple(ends) for ends in intervals[: len(first)]),
        edge=edge,
        n_kept=n_kept,
        is_log=is_log,
        note=tuple(note),
    )


def loadings_of(fields: Mapping[str, Any], n_seen: int) -> tuple[Rows, ...]:
    """Return the panel of the largest weights of the first component; none where the component is no more than noise.

    Args:
        fields: fields of the result, with its `columns` and `components`.
        n_seen: number of components above the noise.
    """
    if not n_seen:
        return ()
    panel = rows_of(
        fields["columns"],
        fields["components"][0],
        title="First component",
        axis="weight of the scaled column",
        what="columns",
        has_bars=True,
        most=MAX_LOADINGS,
    )
    return (panel,)
