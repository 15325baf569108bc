"""What a party keeps after a job, as JSON data, and what it recommends from that. Nothing of it is sent."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyses.matrix_factorization.model import FactorModel, Fitted
from analyses.matrix_factorization.own_factors import Choice
from analyses.matrix_factorization.own_ratings import OwnRatings
from analyses.matrix_factorization.posterior import Prior, Regression
from analyses.matrix_factorization.serving.recommend import (
    Recommendation,
    best_of,
    recommend,
    recommend_by_embeddings,
    with_new_items,
)

Floats = NDArray[np.float64]

ITEMS, USERS = "items", "items and users"
"""What is kept: a model of the items, or, in the vertical setting, of own items and of all users."""


class UnknownUserError(ValueError):
    """The party has no ratings of such a user, and its model has no order of items that would suit all users."""

    code: str = "user-unknown"


def kept_of_items(model: FactorModel, choice: Choice, *, bounds: tuple[float, float], centre: float) -> dict[str, Any]:
    """Return what a party of the horizontal setting keeps: its items, and why these."""
    return choice.as_data() | {
        "of": ITEMS,
        "offsets": model.offsets_q.tolist(),
        "vectors": model.vectors_q.tolist(),
        "units": model.units,
        "bounds": list(bounds),
        "centre": centre,
    }


def kept_of_users(fitted: Fitted, *, bounds: tuple[float, float], centre: float) -> dict[str, Any]:
    """Return what a party of the vertical setting keeps: offset and vector of its items, and of all users."""
    return {
        "of": USERS,
        "items": fitted.items.tolist(),
        "users": fitted.users.tolist(),
        "bounds": list(bounds),
        "centre": centre,
    }


def kept_of_descent(items: Floats, *, largest: int, bounds: tuple[float, float], centre: float) -> dict[str, Any]:
    """Return what a party of the horizontal setting keeps in the form sgd: vectors of items in the set of length R."""
    return {"of": ITEMS, "vectors": items.tolist(), "largest": largest, "bounds": list(bounds), "centre": centre}


def recommended(
    kept: Mapping[str, Any],
    own: OwnRatings,
    user: str,
    *,
    top: int,
    prior: Prior,
    features: Floats | None = None,
    new: Floats | None = None,
) -> tuple[Recommendation, ...]:
    """Return the best items for a user among those that it has not rated; for a user without ratings the best of all.

    Args:
        kept: what was kept by `kept_of_items`, `kept_of_users` or `kept_of_descent`.
        own: the party's ratings, read as for the job.
        user: the user's name in the party's table; whoever it does not name gets the order of the items' offsets.
        top: at most so many, 1 or more.
        prior: public constants.
        features: public, of the job's items, shape (items, features); None where the job had none.
        new: features of items that the job did not know, which are called by the places after those of the job's.

    Raises:
        UnknownUserError: the party's table does not name the user, and a model of the form sgd has no offsets.
        ValueError: the list of items is not that of the job, `top` is below 1, or new items are asked for that cannot
            be told from features.
    """
    place = own.place_of(user)
    n_items = len(kept["vectors"] if kept["of"] == ITEMS else kept["items"])
    if n_items != own.ratings.n_columns:
        raise ValueError("the list of items is not the one that the job had")
    bounds, centre = (kept["bounds"][0], kept["bounds"][1]), kept["centre"]
    if new is not None and (features is None or "regression" not in kept):
        raise ValueError("new items: the job had no public features, from which new items could be told")
    model = _model_of(kept) if "offsets" in kept else None
    if model is not None and features is not None and new is not None:
        model, features = with_new_items(model, features, Regression.of_data(kept["regression"]), new)
    if place is None:
        offsets = _offsets(kept)
        if new is not None and model is not None:
            offsets = model.offsets
        return best_of(offsets, np.zeros(0, dtype=np.int64), top=top, centre=centre, bounds=bounds)
    of_user = slice(own.ratings.starts[place], own.ratings.starts[place + 1])
    rated = own.ratings.columns[of_user]
    if "largest" in kept:
        of_one, largest = own.ratings.of_rows(np.array([place])), kept["largest"]
        vectors = np.array(kept["vectors"])
        return recommend_by_embeddings(vectors, of_one, largest=largest, top=top, centre=centre, bounds=bounds)
    if model is not None:
        ratings = own.ratings.deviations[of_user] + centre
        return recommend(model, rated, ratings, top=top, centre=centre, bounds=bounds, prior=prior, features=features)
    items, users = np.array(kept["items"]), np.array(kept["users"])
    scores = users[place, 0] + items[:, 0] + items[:, 1:] @ users[place, 1:]
    return best_of(scores, rated, top=top, centre=centre, bounds=bounds)


def _model_of(kept: Mapping[str, Any]) -> FactorModel:
    offsets = np.array(kept["offsets"], dtype=np.int64)
    vectors = np.array(kept["vectors"], dtype=np.int64).reshape(len(offsets), -1)
    return FactorModel(offsets, vectors, kept["units"])


def _offsets(kept: Mapping[str, Any]) -> Floats:
    """Return what each item is above the centre for a user of whom nothing is known, shape (items,)."""
    if kept["of"] == USERS:
        offsets = np.array(kept["items"])[:, 0]
    else:
        offsets = np.array(kept.get("offsets", np.zeros(len(kept["vectors"])))) / kept.get("units", 1)
    if not offsets.any():
        raise UnknownUserError("the table has no ratings of this user, and the model has no offsets of items")
    return offsets
