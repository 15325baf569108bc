"""What others do, for comparison only: noisy descent in floats. Values are ratings from 0 to R, not deviations.

As in `bench.baselines.factors`, this noise protects nobody.
"""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from analyses.matrix_factorization.descent.projected_descent import fit_users
from analyses.matrix_factorization.descent.projection import project
from analyses.matrix_factorization.model import Fitted
from analyses.matrix_factorization.ratings import Ratings

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


def gradient_clipping(
    ratings: Ratings,
    rank: int,
    multiplier: float,
    rng: np.random.Generator,
    *,
    n_steps: int = 200,
    sampling_rate: float = 0.05,
    clip: float = 10.0,
    rate: float = 0.5,
    largest: float = 5.0,
    of_users: bool = False,
) -> Fitted:
    """Return descent on U and V with each rating's gradient clipped to `clip` and Gaussian noise [Abadi16].

    On one party's ratings alone it is the local baseline with privacy ("DP local-only"). With `of_users` users are
    sampled, and all of a user's gradients are clipped together.
    """
    u, v = _start(ratings.n_rows, rank, largest, rng), _start(ratings.n_columns, rank, largest, rng)
    u_size = max(1.0, sampling_rate * ratings.n_ratings / ratings.n_rows)
    v_size = max(1.0, sampling_rate * ratings.n_ratings / ratings.n_columns)
    for _ in range(n_steps):
        if of_users:
            sample = np.flatnonzero((rng.random(ratings.n_rows) < sampling_rate)[ratings.rows])
        else:
            sample = np.flatnonzero(rng.random(ratings.n_ratings) < sampling_rate)
        i, j = ratings.rows[sample], ratings.columns[sample]
        residual = (ratings.deviations[sample] - np.einsum("ij,ij->i", u[i], v[j]))[:, None]
        both = np.hstack([-2 * residual * v[j], -2 * residual * u[i]])
        norms = np.linalg.norm(both, axis=1)
        if of_users:
            norms = np.sqrt(_squared_norms_of_users(i, both, rank, ratings.n_rows))[i]
        both *= np.minimum(1.0, clip / np.maximum(norms, 1e-12))[:, None]
        of_u, of_v = np.zeros_like(u), np.zeros_like(v)
        np.add.at(of_u, i, both[:, :rank])
        np.add.at(of_v, j, both[:, rank:])
        u = u - rate / clip * (of_u + multiplier * clip * rng.normal(size=u.shape)) / u_size
        v = v - rate / clip * (of_v + multiplier * clip * rng.normal(size=v.shape)) / v_size
    return _fitted(u, v)


def _squared_norms_of_users(users: Integers, gradients: Floats, rank: int, n_users: int) -> Floats:
    """Return |sum of the gradients of its own row|^2 + sum of |gradient of an item|^2 per user."""
    of_row = np.stack([np.bincount(users, gradients[:, a], n_users) for a in range(rank)], axis=1)
    of_items = np.bincount(users, (gradients[:, rank:] ** 2).sum(axis=1), n_users)
    return np.asarray((of_row**2).sum(axis=1) + of_items)


def syn_sgd(
    ratings: Ratings,
    rank: int,
    multiplier: float,
    rng: np.random.Generator,
    *,
    n_steps: int = 200,
    sampling_rate: float = 0.05,
    clip: float = 10.0,
    rate: float = 0.5,
    largest: float = 5.0,
) -> Fitted:
    """Return descent on V with each *user's* gradient clipped and summed in every step (HFL-synSGD of [SGDMF22])."""
    v = project(_start(ratings.n_columns, rank, largest, rng), largest)
    users = fit_users(ratings, v, largest)
    size = max(1.0, sampling_rate * ratings.n_ratings / ratings.n_columns)
    for _ in range(n_steps):
        chosen = np.flatnonzero(rng.random(ratings.n_rows) < sampling_rate)
        part = ratings.of_rows(chosen)
        u = users[chosen][part.rows]
        residual = (part.deviations - np.einsum("ij,ij->i", u, v[part.columns]))[:, None]
        gradients = -2 * residual * u
        norms = np.sqrt(np.bincount(part.rows, (gradients**2).sum(axis=1), max(1, len(chosen))))
        gradients *= np.minimum(1.0, clip / np.maximum(norms, 1e-12))[part.rows][:, None]
        total = np.zeros_like(v)
        np.add.at(total, part.columns, gradients)
        v = project(v - rate / clip * (total + multiplier * clip * rng.normal(size=v.shape)) / size, largest)
    return _fitted(fit_users(ratings, v, largest), v)


def projected_steps(
    ratings: Ratings,
    rank: int,
    rng: np.random.Generator,
    n_steps: int,
    sampling_rate: float,
    rate: float,
    *,
    largest: float = 5.0,
) -> Iterator[tuple[Floats, Floats]]:
    """Yield U and V of descent on both without any noise, in the set of [SGDMF22], twenty times on the way."""
    u, v = _start(ratings.n_rows, rank, largest, rng), _start(ratings.n_columns, rank, largest, rng)
    for step in range(1, n_steps + 1):
        sample = np.flatnonzero(rng.random(ratings.n_ratings) < sampling_rate)
        i, j = ratings.rows[sample], ratings.columns[sample]
        residual = (ratings.deviations[sample] - np.einsum("ij,ij->i", u[i], v[j]))[:, None]
        of_u, of_v = residual * v[j], residual * u[i]
        for moved, rows, gradients in ((u, i, of_u), (v, j, of_v)):
            np.add.at(moved, rows, 2 * rate * gradients)
            touched = np.unique(rows)
            moved[touched] = project(moved[touched], largest)
        if step % (n_steps // 20) == 0:
            yield u.copy(), v.copy()


def dp_sgld(
    ratings: Ratings,
    rank: int,
    epsilon: float,
    rng: np.random.Generator,
    *,
    n_steps: int = 300,
    sampling_rate: float = 0.05,
    largest: float = 5.0,
    ridge: float = 1.0,
    size: float = 1.0,
) -> Fitted:
    """Return one sample of a tempered posterior by Langevin steps [Liu15]: exp(-epsilon / (4 R^2) sum of losses).

    A loss is at most R^2, so one exact sample would be epsilon-private for one rating; that a finite chain is close to
    one is assumed, not shown.
    """
    weight = epsilon / (4 * largest**2)
    u, v = _start(ratings.n_rows, rank, largest, rng), _start(ratings.n_columns, rank, largest, rng)
    for step in range(n_steps):
        rate = 0.05 * size / (1 + 50 * weight) / (1 + step) ** 0.33
        sample = np.flatnonzero(rng.random(ratings.n_ratings) < sampling_rate)
        i, j = ratings.rows[sample], ratings.columns[sample]
        residual = weight / sampling_rate * (ratings.deviations[sample] - np.einsum("ij,ij->i", u[i], v[j]))[:, None]
        of_u, of_v = ridge * u, ridge * v
        np.add.at(of_u, i, -2 * residual * v[j])
        np.add.at(of_v, j, -2 * residual * u[i])
        u = project(u - rate / 2 * of_u + math.sqrt(rate) * rng.normal(size=u.shape), largest)
        v = project(v - rate / 2 * of_v + math.sqrt(rate) * rng.normal(size=v.shape), largest)
    return _fitted(u, v)


def shuffled_epsilon(local: float, n_users: int, delta: float) -> float:
    """Return the epsilon of n shuffled reports that are each `local`-private [Feldman21, theorem III.1]."""
    grown = math.exp(local)
    if local > math.log(n_users / (16 * math.log(2 / delta))):
        return local
    tail = 8 * math.sqrt(grown * math.log(4 / delta) / n_users) + 8 * grown / n_users
    return min(local, math.log1p((grown - 1) / (grown + 1) * tail))


def local_epsilon(epsilon: float, n_users: int, delta: float, n_rounds: int) -> float:
    """Return the largest local epsilon per report of which `n_rounds` shuffled ones cost `epsilon` at most, summed."""
    low, high = 0.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        if n_rounds * shuffled_epsilon(middle, n_users, delta / n_rounds) <= epsilon:
            low = middle
        else:
            high = middle
    return low


def gd_dr(
    ratings: Ratings,
    rank: int,
    epsilon: float,
    rng: np.random.Generator,
    *,
    delta: float = 1e-5,
    n_rounds: int = 10,
    n_dimensions: int = 100,
    bound: float = 1.0,
    rate: float = 0.5,
    largest: float = 5.0,
) -> Fitted:
    """Return descent on V from randomized, shuffled reports in a reduced dimension (GD-DR, [Shin18], with shuffling).

    In each round a user projects its gradient at random to fewer dimensions, picks one entry, clips it to `bound`, and
    reports a random sign times a constant whose mean is the entry.
    """
    v = project(_start(ratings.n_columns, rank, largest, rng), largest)
    grown = math.exp(local_epsilon(epsilon, ratings.n_rows, delta, n_rounds))
    scale = bound * n_dimensions * rank * (grown + 1) / max(grown - 1, 1e-9)
    for _ in range(n_rounds):
        users = fit_users(ratings, v, largest)
        reduction = rng.choice([-1.0, 1.0], size=(n_dimensions, ratings.n_columns)) / math.sqrt(n_dimensions)
        row, entry = rng.integers(n_dimensions, size=ratings.n_rows), rng.integers(rank, size=ratings.n_rows)
        u = users[ratings.rows]
        residual = ratings.deviations - np.einsum("ij,ij->i", u, v[ratings.columns])
        own = -2 * residual * u[np.arange(len(u)), entry[ratings.rows]]
        picked = reduction[row[ratings.rows], ratings.columns]
        value = np.clip(np.bincount(ratings.rows, own * picked, ratings.n_rows), -bound, bound)
        is_up = rng.random(ratings.n_rows) < 0.5 + value / bound / 2 * (grown - 1) / (grown + 1)
        reports = np.zeros((n_dimensions, rank))
        np.add.at(reports, (row, entry), np.where(is_up, scale, -scale))
        v = project(v - rate * (reduction.T @ reports) / ratings.n_rows, largest)
    return _fitted(fit_users(ratings, v, largest), v)


def _start(n_rows: int, rank: int, largest: float, rng: np.random.Generator) -> Floats:
    """Return random embeddings about one vector, as `projected_descent.first_embeddings`: no method starts ahead."""
    return (0.75 + 0.5 * rng.random((n_rows, rank))) * math.sqrt(0.75 * largest / rank)


def _fitted(u: Floats, v: Floats) -> Fitted:
    return Fitted(np.column_stack([np.zeros(len(u)), u]), np.column_stack([np.zeros(len(v)), v]))
