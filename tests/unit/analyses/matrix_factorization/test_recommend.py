"""Recommendations: the local solve, what is skipped, order, refusals."""

import time

import numpy as np
import pytest

from analyses.matrix_factorization.model import FactorModel
from analyses.matrix_factorization.posterior import Prior
from analyses.matrix_factorization.serving.recommend import recommend

RNG = np.random.default_rng(1)
OFFSETS, VECTORS = 0.5 * RNG.normal(size=40), RNG.normal(size=(40, 2))
MODEL = FactorModel.nearest(OFFSETS, VECTORS, 4096)
PRIOR = Prior()


def asked(rated=(), ratings=(), top=5, model=MODEL, **more):
    return recommend(
        model, np.array(rated, dtype=int), np.array(ratings, dtype=float), top=top, centre=3.0, bounds=(1.0, 5.0),
        prior=PRIOR, **more,
    )  # fmt: skip


def test_without_ratings_the_items_of_the_largest_offsets_are_shown():
    found = asked()
    assert [r.item for r in found] == np.argsort(-MODEL.offsets)[:5].tolist()
    assert found[0].rating == pytest.approx(3 + MODEL.offsets.max())


def test_predictions_are_those_of_the_ridge_solution_and_rated_items_are_skipped():
    rated, ratings = np.array([3, 8, 20, 21]), np.array([5.0, 1.0, 2.0, 4.0])
    f = np.column_stack([np.ones(40), MODEL.vectors])
    ridge = np.diag([PRIOR.mean_ridge, PRIOR.factor_ridge, PRIOR.factor_ridge])
    y = np.linalg.solve(f[rated].T @ f[rated] + ridge, f[rated].T @ (ratings - 3 - MODEL.offsets[rated]))
    scores = 3 + MODEL.offsets + f @ y
    found = asked(rated, ratings, top=40)
    assert len(found) == 36
    assert not {r.item for r in found} & set(rated.tolist())
    expected = [j for j in np.argsort(-scores, kind="stable") if j not in rated]
    assert [r.item for r in found] == expected
    for r in found:
        assert r.rating == pytest.approx(np.clip(scores[r.item], 1, 5))


def test_of_equal_predictions_the_first_item_comes_first():
    model = FactorModel.nearest(np.zeros(10), np.zeros((10, 0)), 16)
    assert [r.item for r in asked(model=model, top=3)] == [0, 1, 2]


def test_a_user_who_has_rated_everything_is_shown_nothing():
    assert asked(range(40), np.full(40, 3.0)) == ()


@pytest.mark.parametrize(
    ("rated", "ratings", "top", "text"),
    [
        ([40], [3.0], 5, "does not exist"),
        ([1, 1], [3.0, 3.0], 5, "twice"),
        ([1], [np.nan], 5, "finite"),
        ([], [], 0, "at least 1"),
    ],
)
def test_wrong_input_is_refused(rated, ratings, top, text):
    with pytest.raises(ValueError, match=text):
        asked(rated, ratings, top)


def test_features_are_solved_with_the_rest():
    features = RNG.normal(size=(40, 3))
    with_them, without = asked([1, 2], [5.0, 1.0], features=features), asked([1, 2], [5.0, 1.0])
    assert [r.rating for r in with_them] != [r.rating for r in without]


def test_ten_thousand_items_take_milliseconds():
    """The target is 5 ms; the limit here is far above it, so that a busy machine does not fail the test."""
    model = FactorModel.nearest(RNG.normal(size=10_000), RNG.normal(size=(10_000, 8)), 4096)
    rated = np.arange(0, 10_000, 50)
    took = []
    for _ in range(5):
        start = time.process_time()
        asked(rated, np.full(len(rated), 4.0), top=10, model=model)
        took.append(time.process_time() - start)
    assert min(took) < 0.5
