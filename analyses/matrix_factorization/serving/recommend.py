"""Recommendations for one user, solved locally from its own ratings: nothing is sent."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analyses.job.ratings import MAX_FEATURE
from analyses.matrix_factorization.descent.projected_descent import fit_users
from analyses.matrix_factorization.horizontal import item_rows, solve_users
from analyses.matrix_factorization.model import FactorModel
from analyses.matrix_factorization.posterior import Prior, Regression
from analyses.matrix_factorization.ratings import Ratings

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Recommendation:
    """One recommended item. Private to the user.

    Attributes:
        item: its place in the public list.
        rating: predicted, within the public bounds.
    """

    item: int
    rating: float


@dataclass(frozen=True)
class RecommendedItem:
    """One recommended item, by its name. Private to the user.

    Attributes:
        item: its name in the public list.
        rating: predicted, within the public bounds.
    """

    item: str
    rating: float


def recommend(
    model: FactorModel,
    rated: Integers,
    ratings: Floats,
    *,
    top: int,
    centre: float,
    bounds: tuple[float, float],
    prior: Prior,
    features: Floats | None = None,
) -> tuple[Recommendation, ...]:
    """Return the `top` items of the highest predicted rating among those that the user has not rated.

    The user's mean, factors and weights of features are the ridge solution of its own ratings; without any, the
    prediction is centre + b_j. Of equal predictions the item that comes first in the list is first.

    Args:
        model: released.
        rated: places of the items that the user has rated, each once.
        ratings: shape (rated,), finite; what is outside the bounds is clipped.
        top: at most so many, 1 or more.
        centre: mu0.
        bounds: a rating's bounds.
        prior: public constants.
        features: public item features, or None.

    Raises:
        ValueError: a place or rating is out of range, an item is rated twice, or `top` is below 1.
    """
    if top < 1:
        raise ValueError(f"at least 1 item is recommended, not {top}")
    n_items = len(model.offsets_q)
    rated = np.asarray(rated, dtype=np.int64)
    ratings = np.asarray(ratings, dtype=np.float64)
    if not np.isfinite(ratings).all():
        raise ValueError("a rating is not a finite number")
    own = Ratings.of(np.zeros(len(rated), dtype=np.int64), rated, np.clip(ratings, *bounds) - centre, 1, n_items)
    solved = solve_users(model, own, prior, features)[0]
    scores = model.offsets + item_rows(model, features) @ solved
    return best_of(scores, rated, top=top, centre=centre, bounds=bounds)


def with_new_items(
    model: FactorModel, features: Floats, regression: Regression, new: Floats
) -> tuple[FactorModel, Floats]:
    """Return a model and features of its items and, after these, of items that it has never seen.

    A new item's offset is what the regression says of its features, its vector is zero; so no new model is needed, and
    as the features are public and the regression was made of noisy sums, it costs nothing.

    Args:
        model: released, or improved by its owner.
        features: public, shape (items, features).
        regression: weights that the same job or question has told.
        new: features of the new items, shape (new items, features).

    Raises:
        ValueError: a new item has more or fewer features than the others, or one that is not finite or too large.
    """
    n_features = len(regression.weights) - 2
    if features.shape != (len(model.offsets_q), n_features) or new.ndim != 2 or new.shape[1] != n_features:
        raise ValueError(f"new items: each must have {n_features} features, as the items of the model have")
    if not (np.abs(new) <= MAX_FEATURE).all():
        raise ValueError(f"new items: a feature is not a number from {-MAX_FEATURE:g} to {MAX_FEATURE:g}")
    added = FactorModel.nearest(regression.of_new(new), np.zeros((len(new), model.rank)), model.units)
    offsets = np.concatenate([model.offsets_q, added.offsets_q])
    return FactorModel(offsets, np.vstack([model.vectors_q, added.vectors_q]), model.units), np.vstack([features, new])


def recommend_by_embeddings(
    vectors: Floats, own: Ratings, *, largest: int, top: int, centre: float, bounds: tuple[float, float]
) -> tuple[Recommendation, ...]:
    """Return the `top` items for one user in the form sgd: its embedding is fitted to its own ratings, within the set.

    Args:
        vectors: shape (items, p), released, or refitted by the owner.
        own: the user's ratings as one row, less the centre.
        largest: R, of squared norms.
        top: at most so many, 1 or more.
        centre: mu0, the lower bound.
        bounds: a rating's bounds.

    Raises:
        ValueError: `top` is below 1.
    """
    (solved,) = fit_users(own, vectors, largest)
    return best_of(vectors @ solved, own.columns, top=top, centre=centre, bounds=bounds)


def best_of(
    scores: Floats, rated: Integers, *, top: int, centre: float, bounds: tuple[float, float]
) -> tuple[Recommendation, ...]:
    """Return the `top` items of the highest score that are not rated.

    Args:
        scores: shape (items,), predicted ratings less the centre.
        rated: places of the items that are left out.
        top: at most so many, 1 or more.
        centre: mu0.
        bounds: a rating's bounds.

    Raises:
        ValueError: `top` is below 1.
    """
    if top < 1:
        raise ValueError(f"at least 1 item is recommended, not {top}")
    n_items, scores = len(scores), scores.copy()
    scores[rated] = -np.inf
    n_shown = min(top, n_items - len(rated))
    if n_shown == 0:
        return ()
    least = np.partition(scores, n_items - n_shown)[n_items - n_shown]
    chosen = np.flatnonzero(scores >= least)
    chosen = chosen[np.argsort(-scores[chosen], kind="stable")][:n_shown]
    return tuple(Recommendation(int(j), float(np.clip(scores[j] + centre, *bounds))) for j in chosen)
