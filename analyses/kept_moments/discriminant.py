"""Linear discriminant analysis: which columns tell the groups of a category apart."""

from collections.abc import Sequence

import numpy as np

from analyses.kept_moments.answer import Answer, AnswerError, Floats, check_rows, chosen, intervals, numbers
from analyses.kept_moments.redrawn import N_DRAWS, check_regular
from analyses.kept_moments.tables import SEEN_GROUP, categories_of
from analyses.second_moments.released import ReleasedMoments
from analyses.second_moments.spectrum import SimulatedNoise


def discriminant(moments: ReleasedMoments, by: str, columns: Sequence[str]) -> Answer:
    """Return log odds of each group against the first one, per unit of each column: Fisher's linear discriminant.

    With m_g the means of the groups and W their common covariance, the log odds of group g against the first are
    x' W^-1 (m_g - m_1) and a constant, for columns that are normal with this covariance in every group. Errors are of
    draws of the noise, and of such columns.

    Args:
        moments: released.
        by: a column of categories, or a yes or no with bounds 0 and 1.
        columns: numbers that tell the groups apart.

    Raises:
        AnswerError: a column is not in the release, `by` is a number or among the columns, fewer than two groups are
            distinguishable from noise, or the columns do not vary within groups beyond the noise.
    """
    groups = categories_of(moments, by)
    own = [by, *(f"{by}={label}" for label in groups.labels)]
    if not columns or set(own) & set(columns):
        raise AnswerError(f"the groups of {by!r} are told apart by other columns: name them")
    part = chosen(moments, [*columns, *(name for name in moments.names if name in own)])
    vectors = categories_of(part, by).vectors
    check_rows(part)
    p = len(columns)
    spread = np.sqrt(2) * part.deviation / part.constant**2  # at most that of a number of rows, but for a factor
    is_seen = vectors @ part.raw[:, -1] > SEEN_GROUP * spread
    if np.count_nonzero(is_seen) < 2:
        raise AnswerError(f"fewer than two groups of {by} are distinguishable from noise: ask for a larger epsilon")
    vectors, labels = vectors[is_seen], [one for one, seen in zip(groups.labels, is_seen, strict=True) if seen]
    within, means, sizes = _groups(part, part.raw, vectors, p)
    scaled = within / np.outer(part.widths[:p], part.widths[:p])
    check_regular(scaled, part.noise_level)
    degrees = max(float(sizes.sum()) - len(sizes), p + 1.0)
    found = _log_odds(within, means, sizes, degrees)
    noise, chance = _errors(part, vectors, (within, means, sizes), degrees)
    hidden = [label for label in groups.labels if label not in labels]
    notes = (f"rows of {by} = {', '.join(hidden)} are not distinguishable from noise",) if hidden else ()
    rows = found.ravel()
    return Answer(
        "discriminant",
        {
            "group": [label for label in labels[1:] for _ in range(p + 1)],
            "column": [*columns, "intercept"] * (len(labels) - 1),
            "log_odds_per_unit": numbers(rows),
            "noise_error": numbers(noise.ravel()),
            "chance_error": numbers(chance.ravel()),
            "interval": intervals(rows, np.hypot(noise, chance).ravel()),
        },
        {"against": f"{by} = {labels[0]}", "n_rows": part.n_rows},
        (*notes, "for columns that vary as a normal distribution within groups, alike in all of them"),
    )


def _groups(part: ReleasedMoments, raw: Floats, vectors: Floats, p: int) -> tuple[Floats, Floats, Floats]:
    """Return the scatter within groups, shape (p, p), the groups' means, (groups, p), and sizes, at least one row."""
    crossed = vectors @ raw
    sizes = np.maximum(crossed[:, -1], 1.0)
    means = np.clip(crossed[:, :p] / sizes[:, None], part.lower[:p], part.lower[:p] + part.widths[:p])
    # All rows less those about the groups' means; rows of groups that the noise hides count within.
    whole = raw[:p, :p] - raw[-1, :p, None] * raw[-1, :p] / max(float(raw[-1, -1]), 1.0)
    from_all = means - raw[-1, :p] / max(float(raw[-1, -1]), 1.0)
    return whole - (from_all.T * sizes) @ from_all, means, sizes


def _log_odds(within: Floats, means: Floats, sizes: Floats, degrees: float) -> Floats:
    """Return log odds of all groups but the first, shape (groups - 1, p + 1), the last column without any x."""
    inverse = np.linalg.pinv(within / degrees, hermitian=True)
    slopes = (means - means[0]) @ inverse
    middle = np.einsum("gi,ij,gj->g", means, inverse, means)
    intercepts = -(middle - middle[0]) / 2 + np.log(sizes / sizes[0])
    return np.column_stack([slopes, intercepts])[1:]


def _errors(
    part: ReleasedMoments, vectors: Floats, groups: tuple[Floats, Floats, Floats], degrees: float
) -> tuple[Floats, Floats]:
    """Return deviations of `_log_odds` by draws of the noise, and of other rows of normal groups of these sizes."""
    within, means, sizes = groups
    n_columns, simulated = len(within), SimulatedNoise()
    noisy = [
        _log_odds(*_groups(part, part.to_own @ (part.matrix + draw) @ part.to_own.T, vectors, n_columns), degrees)
        for draw in part.noise(N_DRAWS)
    ]
    values, directions = np.linalg.eigh(within / degrees)
    root = directions * np.sqrt(np.maximum(values, 0.0))
    others = []
    for _ in range(N_DRAWS):
        moved = means + simulated.normal(*means.shape) @ root.T / np.sqrt(sizes)[:, None]
        unit = np.eye(n_columns) + simulated.symmetric(n_columns) / np.sqrt(degrees)
        drawn_sizes = np.maximum(sizes + np.sqrt(sizes) * simulated.normal(len(sizes)), 1.0)
        others.append(_log_odds(root @ unit @ root.T * degrees, moved, drawn_sizes, degrees))
    return np.std(noisy, axis=0, ddof=1), np.std(others, axis=0, ddof=1)
