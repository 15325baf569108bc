"""Made-up ratings with a known structure."""

import numpy as np

from analyses.matrix_factorization.ratings import Ratings


def made_up(n_users: int, n_items: int, per_user: int, rank: int = 2, seed: int = 1, factor_variance: float = 0.3):
    """Training ratings, and the users, items and values of a tenth that is left out; the centre is 0."""
    rng = np.random.default_rng(seed)
    weights = rng.exponential(size=n_items) + 0.1
    drawn = rng.choice(n_items, size=(n_users, 2 * per_user), p=weights / weights.sum())
    key = np.unique(np.repeat(np.arange(n_users), 2 * per_user) * n_items + drawn.ravel())
    key = np.sort(rng.permutation(key)[: n_users * per_user])
    users, items = key // n_items, key % n_items
    u, v = rng.normal(size=(n_users, rank)), rng.normal(size=(n_items, rank)) * (factor_variance / max(1, rank)) ** 0.5
    a, b = 0.4 * rng.normal(size=n_users), 0.5 * rng.normal(size=n_items)
    values = a[users] + b[items] + (u[users] * v[items]).sum(axis=1) + 0.7 * rng.normal(size=len(users))
    test = rng.random(len(users)) < 0.1
    ratings = Ratings.of(users[~test], items[~test], values[~test], n_users, n_items)
    return ratings, (users[test], items[test], values[test])
