"""What a demo says of rankings: by a model that knows all, and by one that knows the opposite."""

import numpy as np
import pytest

from analyses.matrix_factorization.ratings import Ratings
from demo.rating_errors import SHOWN, _ranking

N_ITEMS = 3 * SHOWN
LEFT_OUT = np.array([[0, 1, 5], [0, 2, 3], [1, 4, 5], [1, 5, 1]])
"""User, item, rating; each user has rated item 0, which a model likes best."""


@pytest.mark.parametrize(("sign", "recall", "least", "most"), [(1, 1.0, 1.0, 1.0), (-1, 0.0, 0.4, 0.95)])
def test_a_model_ranks_what_it_has_not_seen(sign, recall, least, most):
    items = np.zeros((N_ITEMS, 2))
    items[:, 1] = np.linspace(1, 0, N_ITEMS) * sign
    kept = {"of": "items and users", "users": [[0.0, 1.0]] * 2, "items": items.tolist()}
    ratings = Ratings.of(np.array([0, 1]), np.array([0, 0]), np.zeros(2), 2, N_ITEMS)
    found = _ranking(kept, ratings, ratings.columns, *LEFT_OUT.T)
    assert found[0] == recall
    assert least <= found[1] <= most
