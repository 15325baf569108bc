"""Principal components of any released columns."""

from collections.abc import Sequence

import numpy as np

from analyses.job.forecast import NORMAL_95
from analyses.kept_moments.answer import N_DRAWS, Answer, AnswerError, Floats, check_rows, chosen, ends, numbers
from analyses.kept_moments.redrawn import Likeness
from analyses.second_moments.released import ReleasedMoments
from analyses.second_moments.spectrum import leading_components, noise_edge, some_components, without_noise

FAR = 2.0
"""Edges of the noise above which the variance along a component is known well enough for an interval."""


def components(moments: ReleasedMoments, columns: Sequence[str] = (), *, k: int = 2, scale: bool = False) -> Answer:
    """Return the directions in which columns vary most, one column of the table for each component.

    Columns are scaled by the widths of their bounds, as in a job of `pca`; with `scale`, by their standard deviations.
    Variances are corrected for what the noise adds to them, by a parametric bootstrap; the interval counts noise, and
    chance as of normal columns, 2 v^2 / (n - 1). Weights have no errors.

    Args:
        moments: released.
        columns: names of the columns; all where none is named.
        k: number of components.
        scale: whether each column is divided by its standard deviation.

    Raises:
        AnswerError: a column is not in the release, there is only noise, k is not from 1 to the number of columns, or
            a column varies too little to be scaled.
    """
    part = chosen(moments, columns)
    if not 1 <= k <= len(part.names):
        raise AnswerError(f"k must be from 1 to {len(part.names)}, the number of columns, got {k}")
    check_rows(part)
    weights = np.ones(len(part.names))
    if scale:
        squares = np.diagonal(part.centred.matrix)
        hidden = squares <= part.noise_level
        if hidden.any():
            name = part.names[int(np.argmax(hidden))]
            raise AnswerError(f"column {name!r} does not vary beyond the noise, so it cannot be scaled: leave it out")
        weights = 1 / np.sqrt(squares / part.n_rows)
    scatter = weights[:, None] * part.centred.matrix * weights
    values, vectors = leading_components(scatter, len(scatter))
    largest = float(weights.max())
    edge = noise_edge(len(values), part.deviation * largest**2, part.centred.lift)
    off, noise = _errors(part, weights, values, vectors, k, edge, part.deviation * largest**2)
    variance = values[:k] / part.n_rows - off
    variance = np.where(values[:k] > FAR * edge, np.maximum(variance, 0.0), np.nan)
    chance = variance * np.sqrt(2 / max(part.n_rows - 1, 1.0))
    half = NORMAL_95 * np.hypot(noise, chance)
    total = max(float(np.trace(scatter)) / part.n_rows, float(np.nansum(variance)))
    n_seen = int(np.count_nonzero(values > edge))
    notes = () if n_seen >= k else (f"from component {n_seen + 1} on, components are not distinguishable from noise",)
    return Answer(
        "components",
        {"column": part.names, **{f"component_{i + 1}": numbers(vectors[i]) for i in range(k)}},
        {
            "n_rows": part.n_rows,
            "scaled": scale,
            "variance": numbers(variance),
            "variance_noise_error": numbers(np.where(np.isnan(variance), np.nan, noise)),
            "variance_interval": ends(np.maximum(variance - half, 0.0), variance + half),
            "variance_share": numbers(variance / total),
        },
        notes,
    )


def _errors(
    part: ReleasedMoments, weights: Floats, values: Floats, vectors: Floats, k: int, edge: float, deviation: float
) -> tuple[Floats, Floats]:
    """Return by how much noise raises eigenvalues / rows above the variance along the components, and its deviation.

    As in a job of `pca`: moments like those that were released, but without noise, get draws of the noise.
    """
    scatter = (vectors.T * without_noise(values, edge, deviation)) @ vectors
    own, like, found = scatter / np.outer(weights, weights), Likeness(part), []
    for noise in part.noise(N_DRAWS if len(values) <= 64 else 40):
        again = like.released(own, noise)
        of_draw, directions = some_components(weights[:, None] * again.matrix * weights, k)
        true = np.einsum("ki,ij,kj->k", directions, scatter, directions, optimize=True) / part.n_rows
        found.append(of_draw / again.n_rows - true)
    return np.mean(found, axis=0), np.std(found, axis=0, ddof=1)
