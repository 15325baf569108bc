"""How well predictions rank items for users: recall and normalised discounted cumulative gain of the first k."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


def recall_at(k: int, scores: Floats, candidates: Flags, liked: Flags) -> float:
    """Return the mean share of a user's liked items, of k at most, that are among its k best candidates.

    Args:
        k: how many items are shown, 1 or more.
        scores: shape (users, items); of equal ones the first item in the list is first.
        candidates: shape (users, items), the items that may be shown: those that the user has not rated.
        liked: shape (users, items), some of the candidates. Users without any do not count.

    Returns:
        a number from 0 to 1; NaN where no user likes any.
    """
    shown = np.take_along_axis(liked & candidates, _first(k, scores, candidates), axis=1).sum(axis=1)
    most = np.minimum(liked.sum(axis=1), k)
    return _mean(shown, most)


def ndcg_at(k: int, scores: Floats, candidates: Flags, gains: Floats) -> float:
    """Return the mean over users of the discounted gains of the k best candidates, over the largest that can be.

    The gain in place i, from 1 on, counts 1 / log2(i + 1) [JarvelinKekalainen02].

    Args:
        k: how many items are shown, 1 or more.
        scores: shape (users, items); of equal ones the first item in the list is first.
        candidates: shape (users, items), the items that are put in order.
        gains: shape (users, items), not negative; 0 beside the candidates. Users without any do not count.

    Returns:
        a number from 0 to 1; NaN where no user has a gain.
    """
    discounts = 1 / np.log2(np.arange(2, min(k, scores.shape[1]) + 2))
    found = np.take_along_axis(np.where(candidates, gains, 0.0), _first(k, scores, candidates), axis=1) @ discounts
    best = -np.sort(-gains, axis=1)[:, :k] @ discounts
    return _mean(found, best)


def _first(k: int, scores: Floats, candidates: Flags) -> NDArray[np.int64]:
    order = np.argsort(np.where(candidates, -scores, np.inf), axis=1, kind="stable")
    return order[:, :k].astype(np.int64)


def _mean(found: NDArray[np.number], most: NDArray[np.number]) -> float:
    counts = most > 0
    return float(np.mean(found[counts] / most[counts])) if counts.any() else float("nan")
