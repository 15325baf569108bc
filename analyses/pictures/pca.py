"""Principal components: the spectrum beside what noise alone shows, and the leading component."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from analyses.drawing.chart import Picture, Rows, Spectrum, rows_of

MAX_EIGENVALUES = 20
"""That are drawn, and some more where the result has as many components."""

MAX_LOADINGS = 15


def picture(result: Mapping[str, Any]) -> Picture:
    """Return the eigenvalues per row with the intervals that are stated, and the largest weights of component 1."""
    per_row = result["n_rows"] or 1.0
    name = "variance along the component" if result["center"] else "sum of squares along the component"
    if result["scaled"]:
        name += ", columns scaled to variance 1"
    eigenvalues = [value / per_row for value in result["eigenvalues"]]
    intervals = [tuple(ends) for ends in result["explained_variance_interval"] or ()]
    spectrum = spectrum_of(
        eigenvalues,
        edge=result["noise_edge"] / per_row,
        n_kept=len(result["components"]),
        estimates=result["explained_variance"] or () if intervals else (),
        intervals=intervals,
        axis=name,
        title="Variance of the principal components" if result["center"] else "Spectrum",
    )
    return Picture((spectrum, loadings_of(result)))


def picture_beside(result: Mapping[str, Any], exact: Sequence[float]) -> Picture:
    """Return the picture with the exact variances beside the private ones, where somebody holds all data."""
    spectrum, loadings = picture(result).panels
    assert isinstance(spectrum, Spectrum)
    return Picture((replace(spectrum, exact=tuple(exact[: len(spectrum.values)])), loadings))


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
        intervals=tuple(tuple(ends) for ends in intervals[: len(first)]),
        edge=edge,
        n_kept=n_kept,
        is_log=is_log,
        note=tuple(note),
    )


def loadings_of(result: Mapping[str, Any]) -> Rows:
    """Return the panel of the largest weights of the first component."""
    return rows_of(
        result["columns"],
        result["components"][0],
        title="First component",
        axis="weight of the scaled column",
        what="columns",
        has_bars=True,
        most=MAX_LOADINGS,
    )
