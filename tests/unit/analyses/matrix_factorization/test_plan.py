"""Plans: published noise multipliers, the parts of rho, both views, the rule for the rank, refusals."""

import math
from fractions import Fraction

import pytest

from analyses.job.job import JobError
from analyses.matrix_factorization.plan import (
    FIRST_PART,
    FactorParams,
    Members,
    check_same_rows,
    factors_pay,
    plan_factors,
)
from dp.cost.accounting import Adjacency
from dp.cost.composition import composed_epsilon
from dp.cost.events.skellam import SkellamDpEvent
from dp.cost.views import VIEWS

TEN = Members(n_members=10, n_corrupt=1, fewest=10)
SMALL = FactorParams("horizontal", n_users=943, n_items=1682, ratings_per_user=100, rank=0)


def with_(params=SMALL, **changes) -> FactorParams:
    return FactorParams(**{**vars(params), **changes})


def planned(params=SMALL, members=TEN, epsilon=4.0, delta=1e-5, view="coordinator"):
    return plan_factors(params, members, epsilon=epsilon, delta=delta, view=view)


@pytest.mark.parametrize(
    ("epsilon", "multipliers"), [(1, (4.05, 5.72, 9.05, 12.79)), (8, (0.64, 0.90, 1.43, 2.02))], ids=str
)
def test_noise_multipliers_of_full_releases_are_the_published_ones(epsilon, multipliers):
    for n_releases, z in zip((1, 2, 5, 10), multipliers, strict=True):
        squared = 1 << 40

        def spends(z, n=n_releases, squared=squared):
            mu = Fraction(z) ** 2 * squared / 2
            one = SkellamDpEvent(
                squared / mu, squared / mu**2, squared / mu, squared / mu**2, Adjacency.ADD_OR_REMOVE_ONE
            )
            return composed_epsilon([one] * n, 1e-5).epsilon

        assert spends(z + 0.006) <= epsilon < spends(z - 0.006)


@pytest.mark.parametrize("n_rounds", [1, 5])
def test_round_0_has_a_quarter_of_rho_and_the_others_share_the_rest(n_rounds):
    plan = planned(with_(rank=3, n_rounds=n_rounds))
    rho = [release.sensitivities["coordinator"].squared_l2 / (4 * release.mu) for release in plan.releases]
    assert len(rho) == n_rounds + 1
    assert rho[0] / sum(rho) == pytest.approx(float(FIRST_PART), rel=1e-4)
    assert rho[1:] == [rho[1]] * n_rounds


@pytest.mark.parametrize("params", [SMALL, with_(rank=2, n_rounds=2)], ids=["offsets", "factors"])
@pytest.mark.parametrize("epsilon", [1.0, 8.0])
def test_the_least_noise_is_taken_that_meets_the_target(params, epsilon):
    plan = planned(params, epsilon=epsilon)
    assert epsilon * 0.999 < plan.epsilon("coordinator").epsilon <= epsilon
    both = planned(params, epsilon=epsilon, view="coalition")
    assert all(both.epsilon(view).epsilon <= epsilon for view in VIEWS)
    assert plan.deviation(0) < both.deviation(0)


@pytest.mark.parametrize(("epsilon", "published"), [(1, 2.4), (2, 4.8), (4, 10), (8, 21)])
def test_what_a_coalition_of_one_of_ten_learns(epsilon, published):
    found = planned(epsilon=epsilon, members=Members(10, 1, 7)).epsilon("coalition").epsilon
    assert found == pytest.approx(published, rel=0.035)


def test_a_vertical_sweep_is_two_releases_and_the_owner_alone_noises_its_items():
    plan = planned(with_(setting="vertical", unit="rating", rank=2, n_rounds=3))
    items, users = plan.releases[:2]
    assert plan.releases == (items, users) * 3
    assert items.least_unknown_mu("coalition") == items.mu
    assert users.least_unknown_mu("coalition") == Fraction(users.mu * 9, 10)
    assert items.mu / users.mu == pytest.approx(2, rel=1e-3)
    assert plan.epsilon("coordinator").epsilon <= 4


def test_factors_are_taken_where_there_are_many_users_for_an_item():
    large = with_(n_users=70_000, n_items=10_000, ratings_per_user=143, rank="auto")
    assert factors_pay(large, epsilon=8, delta=1e-6, members=TEN)
    plan = planned(large, epsilon=8, delta=1e-6)
    assert (plan.rank, plan.n_rounds, len(plan.releases)) == (4, 5, 6)
    small = planned(with_(rank="auto"), epsilon=8)
    assert (small.rank, small.n_rounds) == (0, 0)
    assert not factors_pay(with_(large, ratings_per_user=39), epsilon=8, delta=1e-6, members=TEN)


@pytest.mark.parametrize("signal", [13.9, 14.1])
def test_the_rule_of_the_rank_is_about_what_one_rating_is_worth(signal):
    mu = planned().releases[0].mu
    worth = math.sqrt(SMALL.rule.offset_bound / (2 * mu))
    n_users = round(signal * SMALL.n_items / math.sqrt(100) / worth)
    assert factors_pay(with_(n_users=n_users), epsilon=4.0, delta=1e-5, members=TEN) == (signal > 14)


@pytest.mark.parametrize(
    ("changes", "members", "delta", "text"),
    [
        ({}, Members(2, 0, 2), 1e-5, "at least 3 must take part"),
        ({}, Members(5, 3, 3), 1e-5, "colluding: "),
        ({}, TEN, 1 / 943, "below 1 / 943"),
        ({}, TEN, 0.0, "privacy.delta"),
        ({"unit": "rating"}, TEN, 1e-5, "one rating moves the whole contribution"),
        ({"unit": "rating", "setting": "local"}, TEN, 1e-5, "not offered in the local setting"),
        ({"setting": "vertical"}, TEN, 1e-5, "their norms add"),
        ({"rank": 65}, TEN, 1e-5, "parameters.rank"),
        ({"rank": 2, "n_rounds": 0}, TEN, 1e-5, "parameters.n_rounds"),
        ({"rank": 0, "n_rounds": 2}, TEN, 1e-5, "parameters.n_rounds"),
        ({"rank": 2, "n_rounds": 101}, TEN, 1e-5, "parameters.n_rounds"),
        ({"setting": "vertical", "unit": "rating", "n_rounds": 0}, TEN, 1e-5, "at least one sweep"),
        ({"squared_length": Fraction(1, 2)}, TEN, 1e-5, "parameters.squared_length"),
        ({"item_part": Fraction(1)}, TEN, 1e-5, "parameters.item_part"),
        ({"n_items": 0}, TEN, 1e-5, "inputs: "),
    ],
)
def test_what_cannot_be_promised_is_refused_before_it_costs_anything(changes, members, delta, text):
    with pytest.raises(JobError, match=text):
        planned(with_(**changes), members, delta=delta)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf])
def test_an_epsilon_that_is_no_budget_is_refused(epsilon):
    with pytest.raises(JobError, match="privacy: epsilon"):
        planned(epsilon=epsilon)


def test_members_whose_rows_differ_are_refused():
    check_same_rows([["a", "b"], ["a", "b"]])
    for other in (["b", "a"], ["a"], ["a", "c"]):
        with pytest.raises(JobError, match="users"):
            check_same_rows([["a", "b"], other])


def test_the_report_states_both_views_and_every_round():
    report = planned(with_(rank=2, n_rounds=2)).report()
    assert report["numbers_per_round"] == [2 * 1682, 2 * 1682 + 3, 2 * 1682 + 3]
    assert report["epsilon"]["coordinator"] < report["epsilon"]["coalition"]
