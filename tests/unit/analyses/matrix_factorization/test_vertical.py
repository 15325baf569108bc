"""Vertical sweeps: owner-noised items, a masked sum by user, stage 3 at the owner."""

from dataclasses import replace

import numpy as np
import pytest
from rating_tables import made_up

from analyses.matrix_factorization.horizontal import TooFewSurvivorsError
from analyses.matrix_factorization.in_process import add_user_vectors
from analyses.matrix_factorization.plan import FactorParams, FactorPlan, Members, plan_factors
from analyses.matrix_factorization.posterior import Prior
from analyses.matrix_factorization.ratings import Ratings
from analyses.matrix_factorization.unit_vectors import add_ratings, n_rating_entries
from analyses.matrix_factorization.vertical import (
    OpenedRows,
    Owner,
    VerticalPrior,
    first_users,
    normal_equations,
    on_lattice,
    posterior_rows,
    run,
    squared_length_of,
)
from entropy import InsecureTestEntropy

N_USERS, N_ITEMS, N_OWNERS = 300, 90, 3
RATINGS, TEST = made_up(N_USERS, N_ITEMS, 40)
PRIOR = VerticalPrior(Prior())


def plan_of(rank=0, n_rounds=1, epsilon=8.0) -> FactorPlan:
    params = FactorParams("vertical", N_USERS, N_ITEMS, 40, unit="rating", rank=rank, n_rounds=n_rounds)
    members = Members(N_OWNERS, 1, N_OWNERS)
    return plan_factors(params, members, epsilon=epsilon, delta=1e-5, view="coordinator")


def without_noise(plan: FactorPlan) -> FactorPlan:
    return replace(plan, releases=tuple(replace(release, mu=1) for release in plan.releases))


def part_of(owner: int) -> Ratings:
    mine = RATINGS.columns % N_OWNERS == owner
    return Ratings.of(
        RATINGS.rows[mine], RATINGS.columns[mine] // N_OWNERS, RATINGS.deviations[mine], N_USERS, N_ITEMS // N_OWNERS
    )


def result_of(plan, label="v"):
    entropy = InsecureTestEntropy(label)
    owners = [Owner(plan, part_of(k), PRIOR, entropy) for k in range(N_OWNERS)]
    return owners, run(plan, owners, PRIOR, add_user_vectors(plan, entropy))


def errors_of(plan) -> tuple[float, float]:
    """Of the released model, and of stage 3."""
    owners, found = result_of(plan)
    users, items, values = TEST
    released, own = np.zeros(len(values)), np.zeros(len(values))
    for k, (owner, model) in enumerate(zip(owners, found.items, strict=True)):
        here = items % N_OWNERS == k
        j, i = items[here] // N_OWNERS, users[here]
        vectors = (model.vectors[j] * found.users.vectors[i]).sum(axis=1)
        released[here] = model.offsets[j] + found.users.offsets[i] + vectors
        own[here] = owner.own_choice(found.opened, (-5.0, 5.0)).fitted.predict(i, j)
    return float(np.mean((released - values) ** 2)), float(np.mean((own - values) ** 2))


def test_offsets_are_learned_and_stage_3_forgives_noise():
    values = TEST[2]
    exact, _ = errors_of(without_noise(plan_of()))
    assert exact < 0.8 * np.mean(values**2)
    noisy, own = errors_of(plan_of(epsilon=0.3))
    assert own < noisy


def test_factors_explain_more_where_there_is_no_noise():
    offsets, _ = errors_of(without_noise(plan_of()))
    factors, _ = errors_of(without_noise(plan_of(rank=2, n_rounds=6)))
    assert factors < 0.85 * offsets


def test_an_owners_noise_is_the_plans_and_the_user_sum_has_the_noise_of_all():
    plan = plan_of()
    entropy = InsecureTestEntropy("n")
    owners = [Owner(plan, part_of(k), PRIOR, entropy) for k in range(N_OWNERS)]
    users = first_users(plan)
    for owner in owners:
        owner.release_items(0, users)
    vectors = [owner.user_vector() for owner in owners]
    noisy = add_user_vectors(plan, entropy)
    noise = np.concatenate([noisy(0, vectors) - np.sum(vectors, axis=0) for _ in range(20)]).astype(float)
    assert abs((noise**2).mean() / (2 * plan.releases[1].mu) - 1) < 6 * np.sqrt(2 / len(noise))
    drawn = replace(plan.releases[0], length=20_000).draw(entropy, []).astype(float)
    assert abs((drawn**2).mean() / (2 * plan.releases[0].mu) - 1) < 6 * np.sqrt(2 / 20_000)


def test_all_owners_take_part_in_the_user_sum():
    with pytest.raises(TooFewSurvivorsError):
        add_user_vectors(plan_of(), InsecureTestEntropy("n"))(0, [np.zeros(2 * N_USERS, dtype=np.int64)] * 2)


def test_user_vectors_are_padded_to_all_users():
    plan = plan_of(rank=2, n_rounds=1)
    empty = Ratings.of(np.zeros(0), np.zeros(0), np.zeros(0), N_USERS, 30)
    owner = Owner(plan, empty, PRIOR, InsecureTestEntropy("n"))
    owner.release_items(0, first_users(plan))
    assert owner.user_vector().shape == (n_rating_entries(N_USERS, 2),) == (plan.releases[1].length,)


def test_released_vectors_are_within_the_public_bound_after_rounding():
    plan = plan_of(rank=3, n_rounds=1)
    rng = np.random.default_rng(3)
    for scale in (0.1, 1.0, 100.0):
        model = on_lattice(plan, scale * rng.normal(size=(500, 4)))
        lengths = [1 + sum(int(v) ** 2 for v in row) / 4096**2 for row in model.vectors_q]
        assert max(lengths) <= 2


def test_sums_without_noise_are_read_back_exactly():
    plan = without_noise(plan_of(rank=2, n_rounds=1))
    users = first_users(plan)
    by_item = part_of(0).transposed()
    total = add_ratings(plan.params.rule, by_item, users.offsets, users.vectors, squared_length_of(plan))
    found = OpenedRows.read(plan, 0, total)
    f = np.column_stack([np.ones(N_USERS), users.vectors])[by_item.columns]
    residuals = np.clip(by_item.deviations - users.offsets[by_item.columns], -1.5, 1.5)
    expected = np.stack([np.bincount(by_item.rows, residuals * f[:, a], 30) for a in range(3)], axis=1)
    np.testing.assert_allclose(found.sums, expected, atol=by_item.row_sizes.max() / 1024)
    np.testing.assert_array_equal(found.counts, by_item.row_sizes)
    np.testing.assert_allclose(found.moment, f.T @ f / len(f), atol=5 / 1024)


def test_posteriors_are_those_of_the_written_equations():
    rng = np.random.default_rng(8)
    root = rng.normal(size=(2, 2))
    opened = OpenedRows(rng.random(4) * 30, rng.normal(size=(4, 2)), root @ root.T + np.eye(2), 0.7)
    variances = np.array([0.2, 0.5])
    found = posterior_rows(opened, variances, 0.9)
    precisions, _ = normal_equations(opened, 0.9)
    for row in range(4):
        mean = opened.counts[row] * opened.moment
        inverse = np.linalg.inv(0.49 * np.eye(2) + 0.9 * mean)
        np.testing.assert_allclose(precisions[row], mean @ inverse @ mean, rtol=1e-9)
        expected = np.linalg.solve(mean @ inverse @ mean + np.diag(1 / variances), mean @ inverse @ opened.sums[row])
        np.testing.assert_allclose(found[row], expected, rtol=1e-9)


def test_a_row_without_a_positive_count_is_its_prior():
    opened = OpenedRows(np.array([-3.0, 0.0]), np.ones((2, 1)), np.eye(1), 0.5)
    assert not posterior_rows(opened, np.ones(1), 0.9).any()


def test_equal_entropy_gives_equal_results_and_nothing_private_is_printed():
    plan = plan_of(rank=2, n_rounds=2)
    (owners, first), (_, second) = result_of(plan), result_of(plan)
    np.testing.assert_array_equal(first.users.vectors_q, second.users.vectors_q)
    assert repr(owners[0]) == "Owner(n_items=30)"
