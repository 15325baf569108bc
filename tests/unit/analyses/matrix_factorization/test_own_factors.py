"""Stage 3: own regressions with priors, and the choice between joint and alone by left-out ratings."""

import numpy as np
import pytest
from rating_tables import made_up

from analyses.matrix_factorization import own_factors
from analyses.matrix_factorization.own_factors import ALONE, JOINT, RowPrior, RowPriors, Shape, chosen, fit
from analyses.matrix_factorization.ratings import Ratings

RATINGS, TEST = made_up(300, 60, 30)
WIDE = (-9.0, 9.0)
NOTHING = RowPriors(RowPrior.of_nothing(300, 10.0), RowPrior.of_nothing(60, 4.5))


def few(n_users=12):
    return RATINGS.of_rows(np.arange(n_users))


def error_of(fitted, n_users=300) -> float:
    users, items, values = (column[TEST[0] < n_users] for column in TEST)
    return float(np.mean((fitted.predict(users, items) - values) ** 2))


def priors_of_items(items, ridge, n_users=12):
    return RowPriors(RowPrior.of_nothing(n_users, 10.0), RowPrior.of_offsets(items, np.full(60, ridge)))


def test_one_regression_is_that_of_the_written_equations():
    """Items of one sweep, given the users of the same sweep."""
    rng = np.random.default_rng(3)
    root = rng.normal(size=(60, 2, 2))
    precisions, means = root @ np.swapaxes(root, 1, 2) + np.eye(2), rng.normal(size=(60, 2))
    prior = RowPrior.of_precisions(precisions, np.einsum("nab,nb->na", precisions, means))
    np.testing.assert_allclose(prior.means(), means, rtol=1e-7)
    found = fit(RATINGS, RowPriors(NOTHING.users, prior), Shape(2, 7.0), n_sweeps=1)
    by_item = RATINGS.transposed()
    for j in (0, 17, 59):
        mine = by_item.rows == j
        f = np.column_stack([np.ones(mine.sum()), found.users[by_item.columns[mine], 1:]])
        residuals = by_item.deviations[mine] - found.users[by_item.columns[mine], 0]
        left, right = f.T @ f, f.T @ residuals
        left[:2, :2] += precisions[j]
        left[2, 2] += 7.0
        right[:2] += precisions[j] @ means[j]
        np.testing.assert_allclose(found.items[j], np.linalg.solve(left, right), rtol=1e-6)


def test_priors_of_factors_stand_beside_those_of_offsets():
    offsets, vectors = np.arange(60.0), np.ones((60, 2))
    prior = RowPrior.of_offsets(offsets, np.full(60, 4.0)).with_factors(vectors, 9.0)
    np.testing.assert_allclose(prior.means(), np.column_stack([offsets, vectors]), rtol=1e-12)
    same = RowPrior.of_vectors(prior.means(), np.tile([4.0, 9.0, 9.0], (60, 1)))
    np.testing.assert_allclose(prior.features, same.features)
    np.testing.assert_allclose(prior.targets, same.targets)


def test_own_factors_explain_what_offsets_do_not():
    assert error_of(fit(RATINGS, NOTHING, Shape(4))) < 0.9 * error_of(fit(RATINGS, NOTHING, Shape(0)))
    assert chosen(RATINGS, [], NOTHING, WIDE).shape.rank > 0


def test_a_party_with_few_ratings_keeps_what_all_say_and_is_told():
    own, all_say = few(), fit(RATINGS, NOTHING, Shape(0)).items[:, 0]
    alone = RowPriors(RowPrior.of_nothing(12, 10.0), RowPrior.of_nothing(60, 4.5))
    choice = chosen(own, [(priors_of_items(all_say, 40.0), own_factors.SHAPES)], alone, WIDE)
    assert choice.whose == JOINT
    assert choice.errors[JOINT] < choice.errors[ALONE]
    assert choice.as_data()["told"].startswith("own model kept for recommendations: joint, rank ")
    assert 0.4 < choice.n_left_out / own.n_ratings < 0.6
    assert error_of(choice.fitted, 12) < error_of(chosen(own, [], alone, WIDE).fitted, 12)


def test_a_party_keeps_its_own_model_where_the_others_say_what_is_wrong():
    wrong = priors_of_items(np.full(60, 3.0) * (-1) ** np.arange(60), 400.0, 300)
    choice = chosen(RATINGS, [(wrong, own_factors.SHAPES)], NOTHING, WIDE)
    assert choice.whose == ALONE
    assert choice.as_data()["whose"] == "alone"
    np.testing.assert_array_equal(choice.fitted.items, chosen(RATINGS, [], NOTHING, WIDE).fitted.items)


@pytest.mark.parametrize("n_ratings", [0, 1])
def test_a_party_with_nothing_to_leave_out_keeps_the_joint_model(n_ratings):
    nothing = Ratings.of(np.arange(n_ratings), np.arange(n_ratings), np.ones(n_ratings), 2, 60)
    alone = RowPriors(RowPrior.of_nothing(2, 10.0), RowPrior.of_nothing(60, 4.5))
    choice = chosen(nothing, [(priors_of_items(np.arange(60.0), 1.0, 2), own_factors.SHAPES)], alone, WIDE)
    assert choice.whose == JOINT
    assert np.isfinite(choice.fitted.items).all()
    np.testing.assert_allclose(choice.fitted.items[2:, 0], np.arange(2.0, 60.0), atol=1e-5)


def test_shapes_are_chosen_among_some_users_where_ratings_are_many(monkeypatch):
    monkeypatch.setattr(own_factors, "MOST_TO_CHOOSE", RATINGS.n_ratings // 3)
    choice = chosen(RATINGS, [(NOTHING, own_factors.SHAPES)], NOTHING, WIDE)
    assert choice.n_left_out > RATINGS.n_ratings / 20
    assert choice.errors[JOINT] == choice.errors[ALONE]


def test_joint_is_kept_where_it_is_better_by_more_than_a_standard_error_of_the_difference(monkeypatch):
    """Squared errors by hand: the same mean difference, once about equal at all ratings, once at few of them."""
    steady, rare = np.full(100, 1.0), np.where(np.arange(100) < 50, 21.0, -19.0)
    monkeypatch.setattr(own_factors, "SHAPES", (Shape(0),))
    for difference, whose in ((steady, JOINT), (rare, ALONE), (-steady, ALONE), (0 * steady, ALONE)):
        found = iter([np.full(100, 30.0) - difference, np.full(100, 30.0)])  # joint, alone
        monkeypatch.setattr(own_factors, "_squares", lambda *_, found=found: next(found))
        choice = chosen(RATINGS, [(NOTHING, own_factors.SHAPES)], NOTHING, WIDE)
        assert choice.whose == whose
        assert choice.standard_error == pytest.approx(np.std(difference) / 10)
        assert choice.errors[ALONE] - choice.errors[JOINT] == pytest.approx(np.mean(difference))
        why = f"better by more than a standard error of the difference, {choice.standard_error:.2g}"
        assert choice.as_data()["told"].endswith(why)


def test_joint_that_errs_as_alone_does_is_kept_by_few_of_many_parties(monkeypatch):
    """What the others say is as good as nothing: a little noise. 16 of 100 by the argument; 10 of 25 are 40."""
    monkeypatch.setattr(own_factors, "SHAPES", (Shape(0),))
    kept = []
    for k in range(25):
        own = RATINGS.of_rows(np.arange(12 * k, 12 * k + 12))
        alone = RowPriors(RowPrior.of_nothing(12, 10.0), RowPrior.of_nothing(60, 4.5))
        noise = np.random.default_rng(k).normal(size=60) * 0.05
        kept.append(chosen(own, [(priors_of_items(noise, 4.5), own_factors.SHAPES)], alone, WIDE).whose)
    assert kept.count(JOINT) <= 10


def test_every_left_out_rating_is_predicted_by_a_fit_without_it():
    """Offsets of users and items held at 0 by ridges: only a rating that is fitted to itself would be predicted."""
    own = Ratings.of(np.arange(40), np.arange(40), np.full(40, 5.0), 40, 40)
    loose = RowPriors(RowPrior.of_nothing(40, 1e-3), RowPrior.of_nothing(40, 1e-3))
    choice = chosen(own, [], loose, WIDE)
    assert 8 < choice.n_left_out < 32
    assert choice.errors[ALONE] == pytest.approx(25.0, rel=1e-3)


def test_fewer_tenths_are_left_out_where_ratings_are_many(monkeypatch):
    monkeypatch.setattr(own_factors, "ENOUGH_LEFT_OUT", RATINGS.n_ratings // 10)
    assert 0.05 < chosen(RATINGS, [], NOTHING, WIDE).n_left_out / RATINGS.n_ratings < 0.25
