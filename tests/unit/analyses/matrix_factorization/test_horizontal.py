"""Horizontal and local rounds: exact without noise, exactly the intended noise with it, refusals, stage 3."""

from fractions import Fraction

import numpy as np
import pytest
from rating_tables import made_up

from analyses.matrix_factorization.horizontal import (
    Estimates,
    TooFewSurvivorsError,
    item_rows,
    member_vector,
    others_priors,
    own_choice,
    run,
    solve_users,
)
from analyses.matrix_factorization.in_process import LocalMembers
from analyses.matrix_factorization.model import MAX_VALUE, FactorModel
from analyses.matrix_factorization.own_factors import Shape, fit
from analyses.matrix_factorization.plan import FactorParams, FactorPlan, Members, plan_factors
from analyses.matrix_factorization.posterior import Prior, factor_posterior, offset_posterior
from analyses.matrix_factorization.unit_vectors import VectorRule, solve
from dp.draw.skellam import sample_skellam
from entropy import InsecureTestEntropy
from mpc.errors import PeerViolationError

PRIOR = Prior()
FIVE = Members(n_members=5, n_corrupt=1, fewest=3)
RATINGS, TEST = made_up(1200, 60, 40)
PARTS = list(RATINGS.split_rows(5))


def plan_of(rank=2, n_rounds=4, epsilon=8.0, members=FIVE, n_users=1200) -> FactorPlan:
    params = FactorParams("horizontal", n_users, 60, 40, rank=rank, n_rounds=n_rounds, rule=VectorRule(mean_ridge=10.0))
    return plan_factors(params, members, epsilon=epsilon, delta=1e-5, view="coordinator")


def exact_sum(plan):
    return lambda t, model: sum(member_vector(plan, t, model, part, PRIOR) for part in PARTS)


def error_of(model) -> float:
    users, items, values = TEST
    solved = solve_users(model, RATINGS, PRIOR)
    predicted = model.offsets[items] + (solved[users] * item_rows(model)[items]).sum(axis=1)
    return float(np.mean((predicted - values) ** 2))


def test_without_noise_offsets_explain_much_and_factors_more():
    plan = plan_of()
    found = run(plan, Estimates(PRIOR), exact_sum(plan))
    alone = run(plan_of(rank=0, n_rounds=0), Estimates(PRIOR), exact_sum(plan))
    nothing = FactorModel.nearest(np.zeros(60), np.zeros((60, 0)), 4096)
    assert error_of(found.model) < 0.8 * error_of(alone.model)
    assert error_of(alone.model) < 0.8 * error_of(nothing)


def test_what_is_opened_is_the_exact_sum_plus_the_intended_noise_for_every_number_of_survivors():
    """The survivors' noise less the opened components: its variance is 2 mu whoever has dropped out."""
    plan = plan_of()
    release = plan.releases[1]
    assert release.levels == (3, 4, 5)
    assert {release.kept_mu(n) for n in release.levels} == {Fraction(release.mu)}
    model = run(plan, Estimates(PRIOR), exact_sum(plan)).model
    for absent in ((), (4,), (0, 2)):
        members = LocalMembers(plan, PARTS, PRIOR, InsecureTestEntropy(f"{absent}"), absent={1: absent})
        present = [part for i, part in enumerate(PARTS) if i not in absent]
        exact = sum(member_vector(plan, 1, model, part, PRIOR) for part in present)
        noise = np.concatenate([members(1, model) - exact for _ in range(20)]).astype(float)
        assert abs((noise**2).mean() / (2 * release.mu) - 1) < 6 * np.sqrt(2 / len(noise))
        assert members.survivors == [5 - len(absent)] * 20


def test_noise_drawn_at_once_has_the_variance_of_noise_drawn_by_each():
    plan = plan_of(rank=0, n_rounds=0)
    members = LocalMembers(plan, PARTS, PRIOR, InsecureTestEntropy("a"), together=True)
    exact = exact_sum(plan)(0, None)
    noise = np.concatenate([members(0, None) - exact for _ in range(20)]).astype(float)
    assert abs((noise**2).mean() / (2 * plan.releases[0].mu) - 1) < 6 * np.sqrt(2 / len(noise))


def test_members_who_drop_out_between_and_within_rounds_leave_a_result():
    plan = plan_of()
    members = LocalMembers(plan, PARTS, PRIOR, InsecureTestEntropy("drop"), absent={0: [1], 2: [0, 4], 3: [3]})
    found = run(plan, Estimates(PRIOR), members)
    assert members.survivors == [4, 5, 3, 4, 5]
    assert found.n_rounds == 4
    assert error_of(found.model) < error_of(run(plan_of(0, 0), Estimates(PRIOR), exact_sum(plan)).model)


def test_a_round_with_too_few_survivors_ends_with_the_last_opened_vectors():
    plan = plan_of()
    whole = LocalMembers(plan, PARTS, PRIOR, InsecureTestEntropy("same"))
    models = []

    def watched(t, model):
        models.append(model)
        return whole(t, model)

    run(plan, Estimates(PRIOR), watched)
    cut = LocalMembers(plan, PARTS, PRIOR, InsecureTestEntropy("same"), absent={3: [0, 1, 2]})
    found = run(plan, Estimates(PRIOR), cut)
    assert found.n_rounds == 2
    np.testing.assert_array_equal(found.model.vectors_q, models[3].vectors_q)


def test_without_a_first_or_second_round_no_random_vectors_are_published():
    plan = plan_of()
    cut = LocalMembers(plan, PARTS, PRIOR, InsecureTestEntropy("a"), absent={1: [0, 1, 2]})
    found = run(plan, Estimates(PRIOR), cut)
    assert (found.n_rounds, found.model.vectors_q.any()) == (0, False)
    with pytest.raises(TooFewSurvivorsError):
        run(plan, Estimates(PRIOR), LocalMembers(plan, PARTS, PRIOR, InsecureTestEntropy("a"), absent={0: [0, 1, 2]}))


def test_equal_entropy_gives_equal_results_bit_for_bit():
    plan = plan_of()
    first, second = (
        run(plan, Estimates(PRIOR), LocalMembers(plan, PARTS, PRIOR, InsecureTestEntropy("x"))) for _ in range(2)
    )
    np.testing.assert_array_equal(first.model.vectors_q, second.model.vectors_q)
    np.testing.assert_array_equal(first.model.offsets_q, second.model.offsets_q)


def test_one_user_per_member_gives_the_same_sum_as_parties_that_hold_them():
    plan = plan_of()
    model = run(plan, Estimates(PRIOR), exact_sum(plan)).model
    for t in (0, 1):
        devices = sum(
            member_vector(plan, t, None if t == 0 else model, RATINGS.of_rows(np.array([i])), PRIOR)
            for i in range(RATINGS.n_rows)
        )
        np.testing.assert_array_equal(devices, exact_sum(plan)(t, None if t == 0 else model))


GOOD = FactorModel.nearest(np.zeros(60), np.zeros((60, 2)), 4096)


@pytest.mark.parametrize(
    "bad",
    [
        FactorModel(GOOD.offsets_q, GOOD.vectors_q, 1024),
        FactorModel(GOOD.offsets_q[:-1], GOOD.vectors_q, 4096),
        FactorModel(GOOD.offsets_q, GOOD.vectors_q[:, :1], 4096),
        FactorModel(GOOD.offsets_q.astype(float), GOOD.vectors_q, 4096),
        FactorModel(GOOD.offsets_q, GOOD.vectors_q + MAX_VALUE * 4096 + 1, 4096),
        FactorModel(GOOD.offsets_q - MAX_VALUE * 4096 - 1, GOOD.vectors_q, 4096),
        FactorModel(np.full(60, np.iinfo(np.int64).min), GOOD.vectors_q, 4096),
    ],
)
def test_a_broadcast_off_the_lattice_is_the_senders_violation(bad):
    GOOD.check(60, 2, 4096, 0, "round 1")
    with pytest.raises(PeerViolationError, match="lattice"):
        bad.check(60, 2, 4096, 0, "round 1")


def test_the_nearest_lattice_point_is_within_half_a_unit_and_within_range():
    values = np.array([0.3, -0.7, 1e9, -1e9])
    model = FactorModel.nearest(values, np.zeros((4, 0)), 16)
    assert np.abs(model.offsets[:2] - values[:2]).max() <= 0.5 / 16
    assert model.offsets[2:].tolist() == [MAX_VALUE, -MAX_VALUE]
    model.check(4, 0, 16, 0, "")


def test_a_partys_own_ratings_improve_its_offsets():
    plan = plan_of(rank=0, n_rounds=0, epsilon=0.5)
    found = run(plan, Estimates(PRIOR), LocalMembers(plan, PARTS, PRIOR, InsecureTestEntropy("s")))
    part = PARTS[0]
    own, _ = own_choice(plan, found, part, PRIOR, (-5.0, 5.0))
    users, items, values = TEST
    here = users % 5 == 0
    errors = []
    for model in (found.model, own):
        solved = solve_users(model, part, PRIOR)
        of_users = (solved[users[here] // 5] * item_rows(model)[items[here]]).sum(axis=1)
        errors.append(np.mean((model.offsets[items[here]] + of_users - values[here]) ** 2))
    assert errors[1] < 0.97 * errors[0]


def test_a_partys_own_part_is_taken_off_the_opened_sums_before_they_are_used():
    """A party that holds every rating leaves nothing to the others: its offsets are those of its own ratings alone."""
    plan = plan_of(rank=0, n_rounds=0)
    found = run(plan, Estimates(PRIOR), lambda t, model: member_vector(plan, t, model, RATINGS, PRIOR))
    offsets, ones = found.released.offsets, np.ones((60, 1))
    precision = 1 / PRIOR.offset_variance + np.bincount(RATINGS.columns, minlength=60) / PRIOR.residual_variance
    for _ in range(100):
        means = solve(RATINGS, offsets, ones, np.array([PRIOR.mean_ridge]))[:, 0]
        own = np.bincount(RATINGS.columns, weights=RATINGS.deviations - means[RATINGS.rows], minlength=60)
        offsets = (found.released.expected / PRIOR.offset_variance + own / PRIOR.residual_variance) / precision
    fitted = fit(RATINGS, others_priors(plan, found, RATINGS, PRIOR), Shape(0), n_sweeps=100)
    np.testing.assert_allclose(fitted.items[:, 0], offsets, rtol=1e-6)


def test_an_item_without_ratings_has_the_offset_of_the_regression_and_vector_zero():
    counts, sums = np.array([0.0, 40.0, 30.0]), np.array([0.0, 8.0, -9.0])
    found = offset_posterior(counts, sums, 0.01, ratings_per_user=40, prior=PRIOR)
    assert found.offsets[0] == pytest.approx(found.expected[0], abs=0.02)
    vectors = factor_posterior(np.zeros((3, 2)), np.eye(2) / 5, found.counts, 0.01, ratings_per_user=40, prior=PRIOR)
    assert not vectors.any()


def test_factor_posteriors_are_those_of_the_full_normal_equations():
    rng = np.random.default_rng(4)
    root, sums, counts = rng.normal(size=(3, 3)), rng.normal(size=(5, 3)), rng.random(5) + 0.5
    moment, sigma, k = root @ root.T / 9, 0.3, 50
    found = factor_posterior(sums, moment, counts, sigma, ratings_per_user=k, prior=PRIOR)
    values, basis = np.linalg.eigh(moment)
    scale = (basis * np.sqrt(values / PRIOR.moment)) @ basis.T
    spread = (PRIOR.longest(3) * PRIOR.factor_deviation) ** 2
    for j in range(5):
        covariance = sigma**2 * np.eye(3) + counts[j] * PRIOR.residual_variance * moment / np.sqrt(k)
        gain = counts[j] * moment @ np.linalg.inv(covariance)
        mean = np.linalg.solve(gain @ (counts[j] * moment) + np.eye(3) / spread, gain @ sums[j])
        np.testing.assert_allclose(found[j], mean @ scale, rtol=1e-9)


def test_public_features_are_used_by_the_regression_and_solved_locally():
    rng = np.random.default_rng(9)
    features = rng.normal(size=(60, 2))
    plan = plan_of(rank=0, n_rounds=0)
    released = run(plan, Estimates(PRIOR, features), exact_sum(plan)).model
    solved = solve_users(released, RATINGS, PRIOR, features)
    assert solved.shape == (1200, 3)
    assert np.abs(solved[:, 1:]).max() > 0


def test_noise_comes_from_the_production_sampler(monkeypatch):
    drawn = []

    def watched(entropy, mu, size):
        drawn.append(mu)
        return sample_skellam(entropy, mu, size)

    monkeypatch.setattr("analyses.sums.noise.sample_skellam", watched)
    plan = plan_of(rank=0, n_rounds=0)
    LocalMembers(plan, PARTS, PRIOR, InsecureTestEntropy("a"))(0, None)
    mu = plan.releases[0].mu
    assert drawn.count(Fraction(mu, 5)) == 5
    assert len(drawn) == 5 * 3 + 5 * 2  # base and two components by each; both components of each drawn again
