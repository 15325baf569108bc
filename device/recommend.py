"""What a device recommends to its user: from the user's own ratings and a public model. Nothing is sent.

What is recommended depends on the exact ratings, and no noise hides them: it is for the user, and for nobody else.
"""

from pathlib import Path

import numpy as np

from analyses.matrix_factorization.devices.statistics_rounds import PRIOR
from analyses.matrix_factorization.serving.new_items import NewItems
from analyses.matrix_factorization.serving.recommend import (
    RecommendedItem,
    recommend,
    recommend_by_embeddings,
    with_new_items,
)
from device.config import DeviceConfig
from device.models import KeptModel, NoModelError, newest_model, read_model
from device.ratings import KeptRatings


def recommend_own(
    config: DeviceConfig, record: str, *, top: int, model_path: Path | None = None, new: NewItems | None = None
) -> tuple[RecommendedItem, ...]:
    """Return the best items for the device's user, among those that it has not rated.

    The ratings are read as they are now. Ratings that do not count in a round do not count here either.

    Args:
        config: configuration of the device.
        record: which ratings; may be empty where there is one record of ratings only.
        top: at most so many, 1 or more.
        model_path: file of the answer to a question; None for what the device has kept.
        new: items that the model does not know, by their features; they are among those that are recommended.

    Raises:
        NoModelError: there is no such record, no model for it, or the model has another list of items or other
            features.
        ValueError: `top` is below 1, or new items do not fit the model.
    """
    kept_of = config.kept_ratings()
    name = record or (next(iter(kept_of)) if len(kept_of) == 1 else "")
    if name not in kept_of:
        told = ", ".join(kept_of) or "none"
        raise NoModelError(f"there are no ratings {name!r}; records of ratings here: {told}")
    model = newest_model(config.data_dir, name) if model_path is None else read_model(model_path)
    return recommended_items(kept_of[name], model, top=top, new=new)


def recommended_items(
    kept: KeptRatings, model: KeptModel, *, top: int, new: NewItems | None = None
) -> tuple[RecommendedItem, ...]:
    """Return the best items for the user of these ratings.

    Args:
        kept: the ratings.
        model: public.
        top: at most so many, 1 or more.
        new: items that the model does not know.

    Raises:
        NoModelError: the ratings cannot be used, or the model has another list of items or other features.
        ValueError: `top` is below 1, or new items do not fit the model.
    """
    declared = kept.declared
    if (len(model.model.offsets_q), model.items_digest) != (declared.n_items, declared.digest):
        raise NoModelError("the model has another list of items than these ratings")
    features = None
    if model.regression is not None:
        if model.features_digest != declared.features_digest:
            raise NoModelError("the model has other features of items than these ratings are declared with")
        features = np.array(declared.features, dtype=np.float64)
    found_in, names = model.model, () if new is None else new.names
    if new is not None:
        if model.regression is None or features is None:
            raise ValueError("new items: the model has no public features, from which new items could be told")
        found_in, features = with_new_items(found_in, features, model.regression, new.features)
    used = kept.used()
    if used.not_used_because:
        raise NoModelError(f"the ratings cannot be used: {used.not_used_because}")
    centre, bounds = model.centre, model.bounds
    if model.largest is None:
        found = recommend(
            found_in,
            used.places,
            used.values,
            top=top,
            centre=centre,
            bounds=bounds,
            prior=PRIOR,
            features=features,
        )
    else:
        own, vectors = used.ratings(declared, centre), model.model.vectors
        found = recommend_by_embeddings(vectors, own, largest=model.largest, top=top, centre=centre, bounds=bounds)
    n_items = declared.n_items
    return tuple(
        RecommendedItem(declared.name_of(one.item) if one.item < n_items else names[one.item - n_items], one.rating)
        for one in found
    )
