"""Compiled loops over sparse ratings: local solves, and the certified integers of users and of single ratings.

Ratings are in compressed rows: those of row i are at starts[i] .. starts[i + 1] - 1, `items` says whose they are and
`deviations` what they are, less a public centre. No loop makes a dense matrix of ratings, and none allocates memory:
scratch space is an argument.

Every vector of one protected unit is scaled, rounded toward zero and, where floating-point error has left it above its
bound, shrunk until the sum of the squares of its *integers* is within it. Only then is it added to a total. The bound
therefore holds exactly, whatever the ratings and whatever was broadcast, provided that no input is NaN or infinite.

`np.divide` stands for `/`, which numba guards by an exception that a library without numba cannot raise. Square roots
are taken by the caller, as they would be calls of another library.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc.machine_code import Array, inlined, kernel

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

_MIN_STEP = 2.0**-40
"""How much a vector that is too long is shrunk first. Each further step is twice as large, so few are ever needed."""

_INDEX = Array("int64")
_TOTAL = Array("int64", is_written=True)
_FLOATS = Array("float64")
_MATRIX = Array("float64", 2)
_WRITTEN_MATRIX = Array("float64", 2, is_written=True)
_WRITTEN_FLOATS = Array("float64", is_written=True)


@inlined
def _clipped(x: Any, largest: Any) -> Any:
    return min(max(x, -largest), largest)


@kernel(_TOTAL, _INDEX, _INDEX, _FLOATS, _FLOATS, "float64", "float64", "float64", "float64", "int64",
        returns="int64")  # fmt: skip
def add_offset_vectors(
    total: Integers,
    starts: Integers,
    items: Integers,
    deviations: Floats,
    weights: Floats,
    units: float,
    count_weight: float,
    largest: float,
    mean_ridge: float,
    squared_bound: int,
) -> int:
    """Add to `total` every row's vector of weighted counts and weighted residuals; return how many were shrunk.

    With n ratings of deviations d, weight w <= 1 / sqrt(n) and own mean a = sum d / (n + mean_ridge), the entries of a
    rated item j are 2 j: units w count_weight, and 2 j + 1: units w clip(d_j - a, largest), rounded toward zero.
    """
    n_shrunk = 0
    for i in range(starts.size - 1):
        first, end = starts[i], starts[i + 1]
        if end <= first:
            continue
        mean = 0.0
        for k in range(first, end):
            mean += deviations[k]
        mean = np.divide(mean, float(end - first) + mean_ridge)
        whole = units * weights[i]
        factor, step = whole, _MIN_STEP
        while True:
            count = np.int64(factor * count_weight)
            squared = (end - first) * count * count
            for k in range(first, end):
                z = np.int64(factor * _clipped(deviations[k] - mean, largest))
                squared += z * z
            if squared <= squared_bound:
                break
            factor *= 1.0 - step
            step = min(2.0 * step, 0.5)
        n_shrunk += factor < whole
        for k in range(first, end):
            total[2 * items[k]] += count
            total[2 * items[k] + 1] += np.int64(factor * _clipped(deviations[k] - mean, largest))
    return n_shrunk


@kernel(_WRITTEN_MATRIX, _INDEX, _INDEX, _FLOATS, _FLOATS, _MATRIX, _FLOATS, _WRITTEN_MATRIX)
def solve_rows(
    solutions: Floats,
    starts: Integers,
    items: Integers,
    deviations: Floats,
    offsets: Floats,
    vectors: Floats,
    ridges: Floats,
    scratch: Floats,
) -> None:
    """Solve every row's ridge regression: minimise sum (d_j - offset_j - f_j y)^2 + sum ridge_a y_a^2 over y.

    Args:
        solutions: shape (rows, q), written; 0 for a row without ratings.
        starts: shape (rows + 1,).
        items: which row of `vectors` a rating belongs to.
        deviations: d, one per rating.
        offsets: one per item.
        vectors: shape (items, q), the f_j.
        ridges: shape (q,), positive.
        scratch: shape (q + 1, q), zeros, and zeros again at the end: the lower triangle of the normal equations, and
            their right side. Cells are cleared where they are last read: a loop that did nothing else would become a
            call of a library.
    """
    q = ridges.size
    for i in range(starts.size - 1):
        for a in range(q):
            scratch[a, a] += ridges[a]
        for k in range(starts[i], starts[i + 1]):
            j = items[k]
            residual = deviations[k] - offsets[j]
            for a in range(q):
                f = vectors[j, a]
                scratch[q, a] += residual * f
                for b in range(a + 1):
                    scratch[a, b] += f * vectors[j, b]
        # L D L' without square roots: below the diagonal stands L, on it 1 / D.
        for a in range(q):
            for b in range(a):
                value = scratch[a, b]
                for c in range(b):
                    value -= scratch[a, c] * scratch[b, c]
                scratch[a, b] = value  # L D for now
            value = scratch[a, a]
            for b in range(a):
                times_diagonal = scratch[a, b]
                scratch[a, b] = times_diagonal * scratch[b, b]
                value -= times_diagonal * scratch[a, b]
            scratch[a, a] = np.divide(1.0, max(value, ridges[a] * 2.0**-20))  # at least the ridge but for rounding
        for a in range(q):
            value = scratch[q, a]
            scratch[q, a] = 0.0
            for c in range(a):
                value -= scratch[a, c] * solutions[i, c]
            solutions[i, a] = value
        for a in range(q - 1, -1, -1):
            value = solutions[i, a] * scratch[a, a]
            scratch[a, a] = 0.0
            for c in range(a + 1, q):
                value -= scratch[c, a] * solutions[i, c]
                scratch[c, a] = 0.0
            solutions[i, a] = value


@kernel(_TOTAL, _INDEX, _INDEX, _FLOATS, _FLOATS, _FLOATS, _FLOATS, _MATRIX, "float64", "float64", "float64", "int64",
        returns="int64")  # fmt: skip
def add_factor_vectors(
    total: Integers,
    starts: Integers,
    items: Integers,
    deviations: Floats,
    offsets: Floats,
    weights: Floats,
    means: Floats,
    factors: Floats,
    units: float,
    moment_weight: float,
    largest: float,
    squared_bound: int,
) -> int:
    """Add to `total` every row's vector of weighted residuals times its factors, and of its factors' second moments.

    With weight w <= 1 / sqrt(n), mean a and factors q of the row, the entries of a rated item j are, from p j on,
    units w clip(d_j - offset_j - a, largest) q; behind all items follow, once, units moment_weight q_b q_c for
    b <= c. All are rounded toward zero. A row without ratings adds nothing. Returns how many rows were shrunk.
    """
    p = factors.shape[1]
    behind = total.size - p * (p + 1) // 2
    n_shrunk = 0
    for i in range(starts.size - 1):
        first, end = starts[i], starts[i + 1]
        if end <= first:
            continue
        weight = weights[i]
        factor, step = units, _MIN_STEP
        while True:
            squared: Any = 0
            for k in range(first, end):
                residual = factor * weight * _clipped(deviations[k] - offsets[items[k]] - means[i], largest)
                for a in range(p):
                    z = np.int64(residual * factors[i, a])
                    squared += z * z
            for a in range(p):
                for b in range(a, p):
                    z = np.int64(factor * moment_weight * factors[i, a] * factors[i, b])
                    squared += z * z
            if squared <= squared_bound:
                break
            factor *= 1.0 - step
            step = min(2.0 * step, 0.5)
        n_shrunk += factor < units
        for k in range(first, end):
            residual = factor * weight * _clipped(deviations[k] - offsets[items[k]] - means[i], largest)
            start = p * items[k]
            for a in range(p):
                total[start + a] += np.int64(residual * factors[i, a])
        at = behind
        for a in range(p):
            for b in range(a, p):
                total[at] += np.int64(factor * moment_weight * factors[i, a] * factors[i, b])
                at += 1
    return n_shrunk


@kernel(_TOTAL, _INDEX, _INDEX, _FLOATS, _FLOATS, _MATRIX, "float64", "float64", "float64", "float64", "int64",
        returns="int64")  # fmt: skip
def add_rating_vectors(
    total: Integers,
    rows: Integers,
    others: Integers,
    deviations: Floats,
    offsets: Floats,
    vectors: Floats,
    units: float,
    count_weight: float,
    moment_weight: float,
    largest: float,
    squared_bound: int,
) -> int:
    """Add to `total` every single rating's vector; return how many were shrunk.

    With f = (1, vectors_o) of the other side o, of length 1 + p, a rating of row r adds from r (2 + p) on: units
    count_weight, and units clip(d - offset_o, largest) f; and behind all rows units moment_weight f_b f_c for b <= c
    but for f_0 f_0. All are rounded toward zero.
    """
    p = vectors.shape[1]
    behind = total.size - (p + 1) * (p + 2) // 2 + 1
    n_shrunk = 0
    for k in range(rows.size):
        o = others[k]
        residual = _clipped(deviations[k] - offsets[o], largest)
        factor, step = units, _MIN_STEP
        while True:
            count, alone = np.int64(factor * count_weight), np.int64(factor * residual)
            squared = count * count + alone * alone
            for a in range(p):
                z = np.int64(factor * residual * vectors[o, a])
                squared += z * z
                z = np.int64(factor * moment_weight * vectors[o, a])
                squared += z * z
                for b in range(a, p):
                    z = np.int64(factor * moment_weight * vectors[o, a] * vectors[o, b])
                    squared += z * z
            if squared <= squared_bound:
                break
            factor *= 1.0 - step
            step = min(2.0 * step, 0.5)
        n_shrunk += factor < units
        start = rows[k] * (2 + p)
        total[start] += count
        total[start + 1] += alone
        at = behind
        for a in range(p):
            total[start + 2 + a] += np.int64(factor * residual * vectors[o, a])
            total[at] += np.int64(factor * moment_weight * vectors[o, a])
            at += 1
        for a in range(p):
            for b in range(a, p):
                total[at] += np.int64(factor * moment_weight * vectors[o, a] * vectors[o, b])
                at += 1
    return n_shrunk
