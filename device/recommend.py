"""What a device recommends to its user: from the user's own ratings and a public model. Nothing is sent.

What is recommended depends on the exact ratings, and no noise hides them: it is for the user, and for nobody else.
"""

from pathlib import Path

from analyses.matrix_factorization.devices.statistics_rounds import PRIOR
from analyses.matrix_factorization.serving.recommend import RecommendedItem, recommend, recommend_by_embeddings
from device.config import DeviceConfig
from device.models import KeptModel, NoModelError, newest_model, read_model
from device.ratings import KeptRatings


def recommend_own(
    config: DeviceConfig, record: str, *, top: int, model_path: Path | None = None
) -> tuple[RecommendedItem, ...]:
    """Return the best items for the device's user, among those that it has not rated.

    The ratings are read as they are now. Ratings that do not count in a round do not count here either.

    Args:
        config: configuration of the device.
        record: which ratings; may be empty where there is one record of ratings only.
        top: at most so many, 1 or more.
        model_path: file of the answer to a question; None for what the device has kept.

    Raises:
        NoModelError: there is no such record, no model for it, or the model has another list of items.
        ValueError: `top` is below 1.
    """
    kept_of = config.kept_ratings()
    name = record or (next(iter(kept_of)) if len(kept_of) == 1 else "")
    if name not in kept_of:
        told = ", ".join(kept_of) or "none"
        raise NoModelError(f"there are no ratings {name!r}; records of ratings here: {told}")
    model = newest_model(config.data_dir, name) if model_path is None else read_model(model_path)
    return recommended_items(kept_of[name], model, top=top)


def recommended_items(kept: KeptRatings, model: KeptModel, *, top: int) -> tuple[RecommendedItem, ...]:
    """Return the best items for the user of these ratings.

    Args:
        kept: the ratings.
        model: public.
        top: at most so many, 1 or more.

    Raises:
        NoModelError: the ratings cannot be used, or the model has another list of items.
        ValueError: `top` is below 1.
    """
    declared = kept.declared
    if (len(model.model.offsets_q), model.items_digest) != (declared.n_items, declared.digest):
        raise NoModelError("the model has another list of items than these ratings")
    used = kept.used()
    if used.not_used_because:
        raise NoModelError(f"the ratings cannot be used: {used.not_used_because}")
    centre, bounds = model.centre, model.bounds
    if model.largest is None:
        found = recommend(model.model, used.places, used.values, top=top, centre=centre, bounds=bounds, prior=PRIOR)
    else:
        own, vectors = used.ratings(declared, centre), model.model.vectors
        found = recommend_by_embeddings(vectors, own, largest=model.largest, top=top, centre=centre, bounds=bounds)
    return tuple(RecommendedItem(declared.name_of(one.item), one.rating) for one in found)
