"""The form `sgd`: projection, sensitivities attained, costs, refusals, three stages."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from analyses.job.job import JobError
from analyses.matrix_factorization.descent.descent_plan import DescentParams, plan_descent
from analyses.matrix_factorization.descent.horizontal_descent import HorizontalMember, fine_tuned
from analyses.matrix_factorization.descent.in_process_steps import LocalSteps
from analyses.matrix_factorization.descent.projected_descent import (
    as_floats,
    descend,
    first_embeddings,
    fit_users,
    moved,
)
from analyses.matrix_factorization.descent.projection import (
    add_rows,
    gradient_bound,
    integer_gradients,
    project,
    project_to_lattice,
    squared_sensitivity,
)
from analyses.matrix_factorization.descent.vertical_descent import VerticalMember
from analyses.matrix_factorization.plan import Members
from analyses.matrix_factorization.ratings import Ratings
from dp.cost.accounting import Adjacency
from dp.cost.composition import composed_epsilon
from dp.cost.events.skellam import SkellamDpEvent
from dp.mechanism.bounded_sampling import BoundedPoisson
from entropy import InsecureTestEntropy

R, UNITS = 4, 64
FIVE = Members(n_members=5, n_corrupt=1, fewest=5)
CORNERS = np.array([[2.0, 0.0], [0.0, 2.0], [0.0, 0.0], [math.sqrt(2), math.sqrt(2)], [1.0, 1.0]])


def params(**changes) -> DescentParams:
    start = {"setting": "horizontal", "n_users": 200, "n_items": 30, "rank": 2, "largest": R, "theta": 5, "steps": 20}
    return DescentParams(**{**start, "sampling_rate": 0.2, "divisor": 30.0, **changes})


def planned(epsilon=8.0, view="coordinator", members=FIVE, delta=1e-4, **changes):
    return plan_descent(params(**changes), members, epsilon=epsilon, delta=delta, view=view)


def test_the_projection_is_the_nearest_point_of_the_set():
    rng = np.random.default_rng(1)
    rows = 4 * rng.normal(size=(200, 2))
    found = project(rows, R)
    angle, radius = np.meshgrid(np.linspace(0, math.pi / 2, 91), np.linspace(0, 2, 81))
    grid = np.column_stack([(radius * np.cos(angle)).ravel(), (radius * np.sin(angle)).ravel()])
    for row, point in zip(rows, found, strict=True):
        nearest = np.sqrt(((grid - row) ** 2).sum(axis=1).min())
        assert np.linalg.norm(row - point) <= nearest + 1e-9
    assert (found >= 0).all()
    assert ((found**2).sum(axis=1) <= R * (1 + 1e-12)).all()


def test_on_the_lattice_every_iterate_is_in_the_set_as_integers():
    rng = np.random.default_rng(2)
    for scale in (0.1, 1, 1e6):
        points = project_to_lattice(scale * rng.normal(size=(500, 3)), 5, 4096)
        assert (points >= 0).all()
        assert max(sum(int(v) ** 2 for v in row) for row in points) <= 5 * 4096**2
    with pytest.raises(ValueError, match="not finite"):
        project_to_lattice(np.array([[math.nan]]), 5, 4096)


def gradients_of(cells, both):
    """Of all ratings, (user, item, value), at given embeddings: of V and, with `both`, of U, as one vector."""
    found = []
    for u, items in itertools.product(CORNERS, ([CORNERS[0], CORNERS[0]], [CORNERS[0], CORNERS[3]])):
        users, columns, values = (np.array(column) for column in zip(*cells, strict=True)) if cells else ([], [], [])
        n = len(users)
        own_u, own_v = np.tile(u, (n, 1)).reshape(n, 2), np.array(items)[np.array(columns, dtype=int)].reshape(n, 2)
        values = np.array(values, dtype=float)
        at_items = np.array(columns, dtype=int)
        parts = [add_rows(at_items, integer_gradients(own_v, own_u, values, R, UNITS), 2).ravel()]
        if both:
            parts.append(integer_gradients(own_u, own_v, values, R, UNITS).sum(axis=0))
        found.append(np.concatenate(parts))
    return found


@pytest.mark.parametrize("both", [False, True], ids=["V", "U and V"])
@pytest.mark.parametrize("unit", ["rating", "user"])
def test_sensitivities_hold_for_all_neighbours_of_tiny_tables_and_are_attained(unit, both):
    theta, values = 2, (0.0, 1.3, 4.0, 9.0)
    bound = squared_sensitivity(R, UNITS, unit=unit, theta=theta, both=both)
    most = 0
    for n_rated in (1,) if unit == "rating" else (1, 2):
        for rated in itertools.product(values, repeat=n_rated):
            cells = [(0, j, x) for j, x in enumerate(rated)]
            for moved_by in gradients_of(cells, both):
                most = max(most, int(moved_by @ moved_by))
    assert most == bound


@pytest.mark.parametrize(
    ("unit", "both", "expected"),
    [
        ("rating", False, 2 * 5**1.5),
        ("rating", True, 2 * math.sqrt(2) * 5**1.5),
        ("user", False, math.sqrt(10) * 2 * 5**1.5),
        ("user", True, 2 * 5**1.5 * math.sqrt(110)),
    ],
)
def test_sensitivities_are_those_of_the_specification(unit, both, expected):
    assert math.sqrt(squared_sensitivity(5, 1, unit=unit, theta=10, both=both)) == pytest.approx(expected)
    printed = 10 * 2 * 5**1.5  # theta Delta_2v
    if (unit, both) == ("user", False):
        assert printed / expected == pytest.approx(3.16, abs=0.01)


def test_a_gradient_of_any_rating_is_within_its_bound_as_integers():
    rng = np.random.default_rng(3)
    for units in (1, 256, 1 << 20):
        own, other = project(4 * rng.normal(size=(400, 3)), 5), project(4 * rng.normal(size=(400, 3)), 5)
        found = integer_gradients(own, other, 20 * rng.normal(size=400), 5, units)
        assert max(sum(int(v) ** 2 for v in row) for row in found) <= gradient_bound(5, units)


@pytest.mark.parametrize("bad", [[[2.0, 1.0]], [[-0.1, 0.0]], [[math.nan, 0.0]]])
def test_an_embedding_that_was_not_projected_is_refused(bad):
    good = np.ones((1, 2))
    with pytest.raises(ValueError, match="projected"):
        integer_gradients(np.array(bad), good, np.zeros(1), R, UNITS)
    with pytest.raises(ValueError, match="projected"):
        integer_gradients(good, np.array(bad), np.zeros(1), R, UNITS)


def gaussian_like(multiplier: float) -> SkellamDpEvent:
    """A Skellam release so fine that it costs what the Gaussian one of this multiplier does."""
    squared = 1 << 40
    mu = Fraction(multiplier) ** 2 * squared / 2
    return SkellamDpEvent(squared / mu, squared / mu**2, squared / mu, squared / mu**2, Adjacency.ADD_OR_REMOVE_ONE)


def test_the_closed_form_gives_too_little_noise():
    """eta .01, TT' 1000, epsilon 8: the constant 2 gives z = .19; what is needed is .617."""
    closed = math.sqrt(2 * 0.01**2 * 1000 * math.log(1e5)) / 8
    assert closed == pytest.approx(0.19, abs=0.005)
    sampling = BoundedPoisson.with_rate(0.01, 1000, 1000)
    cost = {z: composed_epsilon([sampling.sampled_event(gaussian_like(z))], 1e-5).epsilon for z in (closed, 0.60, 0.64)}
    assert cost[closed] > 50
    assert cost[0.64] < 8 < cost[0.60]


def test_costs_of_parties_add_as_curves_and_not_as_squares():
    """A user with ratings at ten parties, each of which spends 8: 34.5; the printed rule says 25.3."""
    multiplier = 0.6402
    assert composed_epsilon([gaussian_like(multiplier)], 1e-5).epsilon == pytest.approx(8, abs=0.05)
    assert math.sqrt(10) * 8 == pytest.approx(25.3, abs=0.05)
    assert composed_epsilon([gaussian_like(multiplier)] * 10, 1e-5).epsilon == pytest.approx(34.5, abs=0.3)


@pytest.mark.parametrize("changes", [{}, {"noise": "party", "local_steps": 2, "steps": 10}])
def test_a_plan_meets_its_target_in_the_view_that_it_is_made_for(changes):
    plan = planned(**changes)
    assert 7.99 < plan.epsilon("coordinator").epsilon <= 8
    assert plan.epsilon("coalition").epsilon > 8
    both = planned(view="coalition", **changes)
    assert max(both.report()["epsilon"].values()) <= 8
    assert both.mu > plan.mu


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"unit": "rating"}, "parameters.unit"),
        ({"setting": "vertical"}, "would add up before the noise"),
        ({"setting": "vertical", "unit": "rating", "pre_train": False}, "parameters.pre_train"),
        ({"setting": "vertical", "unit": "rating", "sampled": "row"}, "no amplification"),
        ({"sampled": "fixed"}, "no amplification"),
        ({"local_steps": 2}, "noise .once."),
        ({"setting": "local", "noise": "party"}, "a device holds one user"),
        ({"final_steps": 2}, "parameters.final_steps"),
        ({"steps": 0}, "parameters.steps"),
        ({"largest": 0}, "parameters.largest"),
        ({"sampling_rate": 0.0}, "parameters.sampling_rate"),
        ({"n_users": 10_001}, "smaller than 1 / 10001"),
        ({"members": Members(2, 0, 2)}, "at least 3"),
        ({"members": Members(5, 5, 5)}, "colluding"),
        ({"epsilon": -1.0}, "privacy: epsilon"),
    ],
)
def test_what_cannot_be_promised_is_refused(changes, text):
    with pytest.raises(JobError, match=text):
        planned(**changes)


def table(n_users=200, n_items=30, seed=4) -> Ratings:
    rng = np.random.default_rng(seed)
    u, v = project(rng.random((n_users, 2)) * 1.6, R), project(rng.random((n_items, 2)) * 1.6, R)
    users, items = np.nonzero(rng.random((n_users, n_items)) < 0.4)
    values = np.clip((u[users] * v[items]).sum(axis=1) + 0.1 * rng.normal(size=len(users)), 0, R)
    return Ratings.of(users, items, values, n_users, n_items)


TABLE = table()


def error_of(plan, items) -> float:
    users, vectors = fine_tuned(plan, TABLE, items)
    predicted = (users[TABLE.rows] * vectors[TABLE.columns]).sum(axis=1)
    return float(np.mean((predicted - TABLE.deviations) ** 2))


def members_of(plan, items, label="m"):
    entropy = InsecureTestEntropy(label)
    return [HorizontalMember(plan, part, items, entropy) for part in TABLE.split_rows(5)]


HORIZONTAL = [
    {"steps": 60},
    {"noise": "party", "steps": 20, "local_steps": 3},
    {"steps": 60, "pre_train": False},
    {"setting": "local", "steps": 60},
]


@pytest.mark.parametrize("changes", HORIZONTAL, ids=["once", "party", "users moved in each step", "local"])
def test_descent_improves_item_vectors_and_keeps_them_in_the_set(changes):
    is_local = changes.get("setting") == "local"
    devices = Members(40, 0, 32)
    plan = planned(epsilon=5000.0, learning_rate=1.0, divisor=60.0, members=devices if is_local else FIVE, **changes)
    start, entropy = first_embeddings(plan, 30, "V"), InsecureTestEntropy("n")
    parts = TABLE.split_rows(40 if is_local else 5)
    members = [HorizontalMember(plan, part, start, entropy) for part in parts]
    found = descend(plan, start, LocalSteps(plan, members, entropy, together=is_local))
    assert error_of(plan, found) < 0.5 * error_of(plan, start)
    assert (found >= 0).all()
    assert max(sum(int(v) ** 2 for v in row) for row in found) <= R * plan.params.factor_units**2


def owners_of(plan, entropy):
    for k in range(3):
        mine = TABLE.columns % 3 == k
        part = Ratings.of(TABLE.rows[mine], TABLE.columns[mine] // 3, TABLE.deviations[mine], 200, 10)
        yield VerticalMember(plan, part, first_embeddings(plan, 10, f"V {k}"), entropy)


THREE = Members(3, 1, 3)
VERTICAL = [
    {"unit": "rating", "steps": 60},
    {"unit": "rating", "steps": 20, "local_steps": 3, "noise": "party", "learning_rate": 2.0},
    {"unit": "user", "steps": 20, "local_steps": 3, "noise": "party", "learning_rate": 0.2},
]


@pytest.mark.parametrize("changes", VERTICAL, ids=["once", "party", "party, users"])
def test_vertical_steps_move_both_sides_and_final_steps_items_alone(changes):
    plan = planned(
        epsilon=50_000.0, setting="vertical", final_steps=3, divisor=10.0, theta=10, members=THREE, **changes
    )
    entropy = InsecureTestEntropy("v")
    members = list(owners_of(plan, entropy))
    users = first_embeddings(plan, 200, "U")

    def error(users):
        items = np.empty((30, 2))
        for k, member in enumerate(members):
            items[k::3] = as_floats(plan, member.items)
        predicted = (as_floats(plan, users)[TABLE.rows] * items[TABLE.columns]).sum(axis=1)
        return np.mean((predicted - TABLE.deviations) ** 2)

    before = error(users)
    steps = LocalSteps(plan, members, entropy)
    found = descend(plan, users, steps)
    after = error(found)
    assert after < 0.8 * before
    items = [member.items for member in members]
    for member in members:
        member.finish(found, steps.final_noise)
        member.finish(found, steps.final_noise)  # all final steps have been taken
    assert all((member.items != were).any() for member, were in zip(members, items, strict=True))
    assert error(found) < before


class Nothing:
    """A member that has nothing to add, so that the noise is seen."""

    def contribution(self, points, noise):
        return np.zeros_like(points)


def opened_noise(plan, shape, survivors, n_times=30):
    absent = {0: range(survivors, plan.members.n_members)}
    members = [Nothing()] * plan.members.n_members
    zero = np.zeros(shape, dtype=np.int64)
    drawn = []
    for i in range(n_times):
        total, n = LocalSteps(plan, members, InsecureTestEntropy(f"{i}"), absent=absent)(0, zero)
        assert n == survivors
        drawn.append(total.ravel())
    return np.concatenate(drawn).astype(float)


@pytest.mark.parametrize("survivors", [3, 4, 5])
def test_noise_of_a_sum_has_the_plans_variance_whoever_drops_out(survivors):
    members = Members(5, 1, 3)
    plan = planned(steps=3, members=members)
    noise = opened_noise(plan, (30, 2), survivors)
    assert abs((noise**2).mean() / (2 * plan.mu) - 1) < 6 * math.sqrt(2 / len(noise))
    vertical = planned(setting="vertical", unit="rating", steps=3, members=members, n_users=30)
    noise = opened_noise(vertical, (30, 2), survivors)
    # With 3 survivors, of whom one colludes, the others' two thirds are still mu.
    assert abs((noise**2).mean() / (2 * vertical.mu * 3 / 2) - 1) < 6 * math.sqrt(2 / len(noise))
    assert vertical.sum_noise.least_unknown_mu("coalition") >= vertical.mu


def test_a_round_that_too_few_survive_moves_nothing():
    plan = planned(steps=3, members=Members(5, 1, 4))
    start = first_embeddings(plan, 30, "V")
    members = members_of(plan, start)
    all_fail = LocalSteps(plan, members, InsecureTestEntropy("n"), absent=dict.fromkeys(range(3), (0, 1)))
    np.testing.assert_array_equal(descend(plan, start, all_fail), start)
    one_fails = LocalSteps(plan, members, InsecureTestEntropy("n"), absent={0: (2,), 1: (0, 1)})
    assert (descend(plan, start, one_fails) != start).any()
    assert one_fails.survivors == [4, 5]


@pytest.mark.parametrize("changes", [{}, {"setting": "vertical", "unit": "rating"}], ids=["horizontal", "vertical"])
def test_noise_of_a_member_of_its_own_has_the_plans_variance(changes):
    """A step from the middle of the set, in which no iterate is projected: what moved beyond the gradient is noise."""
    plan = planned(
        epsilon=400.0,
        noise="party",
        steps=1,
        n_users=2000,
        n_items=2000,
        rank=1,
        divisor=1e3,
        factor_units=1 << 20,
        members=THREE,
        **changes,
    )
    empty = Ratings.of(np.zeros(0), np.zeros(0), np.zeros(0), 2000, 2000)
    start = np.full((2000, 1), plan.params.factor_units, dtype=np.int64)  # 1, far from 0 and from 2
    member = (VerticalMember if changes else HorizontalMember)(plan, empty, start, InsecureTestEntropy("n"))
    noise = LocalSteps(plan, [member], InsecureTestEntropy("n")).own_noise
    moved_by = [member.contribution(start, noise) - start]
    if changes:
        moved_by.append(3 * (member.items - start))  # an owner's items move by a third of its step
    lattice = plan.params.factor_units * plan.params.learning_rate / (plan.params.divisor * plan.params.units)
    for shift in moved_by:
        drawn = (shift + 0.5) / lattice  # rounded toward zero
        assert abs(drawn.var() / (2 * plan.mu) - 1) < 6 * math.sqrt(2 / len(drawn))


def test_a_final_step_costs_what_another_does_at_less_noise():
    joint = planned(setting="vertical", unit="rating", steps=10, members=THREE)
    longer = planned(setting="vertical", unit="rating", steps=10, final_steps=10, members=THREE)
    assert joint.final_mu == -(-joint.mu // 2)
    twice = planned(setting="vertical", unit="rating", steps=20, members=THREE)
    assert len(longer.events("coordinator")) == 2
    assert longer.mu == pytest.approx(twice.mu, rel=0.02)
    user = planned(setting="vertical", unit="user", noise="party", steps=10, members=THREE)
    assert user.final_mu == -(-user.mu // 6)  # theta is 5


def test_owners_of_one_users_ratings_add_up():
    changes = {"setting": "vertical", "unit": "user", "noise": "party", "steps": 10}
    plan = planned(members=THREE, **changes)
    assert len(plan.events("coordinator")) == 3
    assert "adds up" in plan.report()["warning"]
    alone = composed_epsilon(plan.events("coordinator")[:1], plan.delta).epsilon
    assert alone < plan.epsilon("coordinator").epsilon < 3 * alone
    assert "warning" not in planned(setting="vertical", unit="rating").report()


def test_a_user_moves_no_other_users_embedding_and_at_most_theta_rows():
    plan = planned(sampling_rate=1.0, steps=1)
    items = first_embeddings(plan, 30, "V")
    one = HorizontalMember(plan, TABLE.of_rows(np.array([3])), items, InsecureTestEntropy("a")).gradient(items)
    assert np.count_nonzero(one.any(axis=1)) <= plan.params.theta
    assert (one**2).sum() <= squared_sensitivity(R, plan.params.units, unit="user", theta=5, both=False)
    alone = fit_users(TABLE.of_rows(np.array([3])), as_floats(plan, items), R)
    among = fit_users(TABLE.of_rows(np.array([1, 3, 5])), as_floats(plan, items), R)
    np.testing.assert_array_equal(alone[0], among[1])


def test_an_iterate_is_projected_whatever_the_noise():
    plan = planned()
    start = first_embeddings(plan, 30, "V")
    for size in (1, 10**6, 10**12):
        noise = np.random.default_rng(size).integers(-size, size, (30, 2))
        found = moved(plan, start, noise)
        assert (found >= 0).all()
        assert (found**2).sum(axis=1).max() <= R * plan.params.factor_units**2


def test_nothing_private_is_printed():
    plan = planned()
    items = first_embeddings(plan, 30, "V")
    assert repr(members_of(plan, items)[0]) == "HorizontalMember()"
