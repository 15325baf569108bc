"""What others do, for comparison only: least squares, without privacy, and with noise from floats that protects nobody.

Floating-point noise leaks its low bits, and none of this runs inside a service. Multipliers z are the deviation of the
Gaussian noise over the sensitivity that the method claims, so that methods can be compared at equal cost.
"""

import numpy as np
from numpy.typing import NDArray

from analyses.matrix_factorization.model import Fitted
from analyses.matrix_factorization.ratings import Ratings
from analyses.matrix_factorization.unit_vectors import solve, within_ball

Floats = NDArray[np.float64]


def central_non_private(
    ratings: Ratings, rank: int, rng: np.random.Generator, *, ridge: float = 10.0, n_sweeps: int = 15
) -> Fitted:
    """Return biased alternating least squares on all ratings, without any noise.

    The ridge of an item's and of a user's factors; means and offsets have a third of it.
    """
    by_item = ratings.transposed()
    ridges = np.array([ridge / 3, *[ridge] * rank])
    items = np.zeros((ratings.n_columns, 1 + rank))
    items[:, 1:] = 0.1 * rng.normal(size=(ratings.n_columns, rank))
    users = np.zeros((ratings.n_rows, 1 + rank))
    for _ in range(n_sweeps):
        users = solve(ratings, items[:, 0], _with_one(items), ridges)
        items = solve(by_item, users[:, 0], _with_one(users), ridges)
    return Fitted(users, items)


def local_non_private(parts: list[Ratings], rank: int, rng: np.random.Generator, **options: float) -> list[Fitted]:
    """Return what each party learns alone, without noise."""
    return [central_non_private(part, rank, rng, **options) for part in parts]  # type: ignore[arg-type]


def dpals(
    ratings: Ratings,
    rank: int,
    multiplier: float,
    rng: np.random.Generator,
    *,
    n_rounds: int = 5,
    residual_bound: float = 1.5,
    ridge: float = 1.0,
    user_ridge: float = 3.0,
) -> Fitted:
    """Return private alternating least squares with a noisy Gram matrix *per item* [Chien21], offsets included.

    A user, cut to |u| <= 1 behind a constant 1, with weight w = 1 / sqrt(n): per item w^(1/2) f f' and w r f. Each part
    is bounded by its largest norm, and both are noised by `multiplier` times the norm of both together.
    """
    q = 1 + rank
    by_item = ratings.transposed()
    rows = by_item.rows
    weights = 1.0 / np.sqrt(np.maximum(ratings.row_sizes, 1))
    vectors = np.column_stack([np.zeros(ratings.n_columns), 0.2 * rng.normal(size=(ratings.n_columns, rank))])
    ridges = np.array([10.0, *[user_ridge] * rank])
    deviation = multiplier * np.sqrt(2.0**2 + 2.0 * residual_bound**2)  # |f|^2 <= 2
    users = np.zeros((ratings.n_rows, q))
    for _ in range(n_rounds):
        users = solve(ratings, vectors[:, 0], _with_one(vectors), ridges)
        f = np.column_stack([np.ones(len(users)), within_ball(users[:, 1:])])[by_item.columns]
        w = weights[by_item.columns]
        residuals = np.clip(by_item.deviations - users[by_item.columns, 0], -residual_bound, residual_bound)
        gram = np.empty((ratings.n_columns, q, q))
        for a in range(q):
            for b in range(a + 1):
                entry = np.bincount(rows, w * f[:, a] * f[:, b], ratings.n_columns)
                gram[:, a, b] = gram[:, b, a] = entry + deviation * rng.normal(size=ratings.n_columns)
        right = np.stack([np.bincount(rows, w * residuals * f[:, a], ratings.n_columns) for a in range(q)], axis=1)
        right += deviation * rng.normal(size=right.shape)
        values, basis = np.linalg.eigh(gram)
        gram = np.einsum("nab,nb,ncb->nac", basis, np.maximum(values, 0.0), basis)
        vectors = np.linalg.solve(gram + (ridge + deviation) * np.eye(q), right[:, :, None])[:, :, 0]
    return Fitted(solve(ratings, vectors[:, 0], _with_one(vectors), ridges), vectors)


def objective_perturbation(
    ratings: Ratings,
    rank: int,
    epsilon: float,
    rng: np.random.Generator,
    *,
    largest: float = 4.0,
    ridge: float = 10.0,
) -> Fitted:
    """Return item vectors whose least-squares objective has a random linear term [Hua15]; users are learned first.

    The term of an item is eta v with |eta| of a Gamma distribution and a uniform direction, scale 2 Delta / epsilon,
    Delta the largest residual times the largest user vector, here `largest` times 1.
    """
    fitted = central_non_private(ratings, rank, rng, ridge=ridge)
    users = np.column_stack([fitted.users[:, :1], within_ball(fitted.users[:, 1:])])
    ridges = np.array([ridge / 3, *[ridge] * rank])
    by_item = ratings.transposed()
    # Linear terms change the right side of the normal equations: solved again with them, item by item.
    directions = rng.normal(size=(ratings.n_columns, 1 + rank))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    eta = directions * rng.gamma(1 + rank, 4 * largest / epsilon, size=(ratings.n_columns, 1))
    exact = solve(by_item, users[:, 0], _with_one(users), ridges)
    f = _with_one(users)[by_item.columns]
    gram = np.empty((ratings.n_columns, 1 + rank, 1 + rank))
    for a in range(1 + rank):
        for b in range(1 + rank):
            gram[:, a, b] = np.bincount(by_item.rows, f[:, a] * f[:, b], ratings.n_columns)
    items = exact - np.linalg.solve(gram + np.diag(ridges), eta[:, :, None])[:, :, 0] / 2
    return Fitted(users, items)


def _with_one(rows: Floats) -> Floats:
    """Return (1, vector) of rows (offset, vector)."""
    return np.column_stack([np.ones(len(rows)), rows[:, 1:]])
