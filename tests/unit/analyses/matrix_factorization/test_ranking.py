"""Recall and NDCG of rankings, on orders whose values are known."""

from math import isnan, log2

import numpy as np
import pytest

from analyses.matrix_factorization.serving.ranking import ndcg_at, recall_at

SCORES = np.array([[5.0, 4, 3, 2, 1], [1, 1, 1, 1, 1], [0, 0, 0, 0, 9]])
ALL = np.ones((3, 5), dtype=bool)


def flags(*users):
    return np.array([[item in liked for item in range(5)] for liked in users])


def test_recall_is_the_share_of_liked_items_that_are_shown_where_all_could_be_shown():
    assert recall_at(2, SCORES, ALL, flags({0, 4}, {0}, {4})) == pytest.approx((1 / 2 + 1 + 1) / 3)
    assert recall_at(2, SCORES, ALL, flags({0, 1, 2, 3}, (), ())) == 1  # two of four is all that two places hold


def test_what_a_user_has_rated_takes_no_place():
    rated = flags({0}, (), ())
    assert recall_at(1, SCORES, ~rated, flags({1}, (), ())) == 1
    assert recall_at(1, SCORES, ALL, flags({1}, (), ())) == 0


def test_ndcg_is_1_in_the_order_of_the_gains_and_counts_later_places_less():
    gains = np.array([[3.0, 2, 1, 0, 0], [0] * 5, [0] * 5])
    assert ndcg_at(5, SCORES, ALL, gains) == pytest.approx(1)
    turned = ndcg_at(5, -SCORES + np.array([0, 0, 0, -9, -9]), ALL, gains)
    assert turned == pytest.approx((3 / log2(4) + 2 / log2(3) + 1) / (3 + 2 / log2(3) + 1 / log2(4)))


def test_users_who_like_nothing_do_not_count():
    assert isnan(recall_at(2, SCORES, ALL, flags((), (), ())))
    assert isnan(ndcg_at(2, SCORES, ALL, np.zeros((3, 5))))
