import itertools

import numpy as np
import pytest

from analyses.logistic_regression.taylor_gradient import TaylorGradient

CHOICES = [(1, "gradient"), (3, "gradient"), (1, "three-sums")]


def gradient_of(order, release, **changes):
    given = {
        "n_columns": 2,
        "gamma": 3,
        "weight_gamma": 2,
        "squared_row_bound": 9,
        "squared_weight_bound": 16,
        "order": order,
        "release": release,
    }
    return TaylorGradient(**{**given, **changes})


def contribution(gradient, x, y, w):
    """What one record adds to the opened sums, as Python integers."""
    x, w = np.array(x, dtype=object), np.array(w, dtype=object)
    v = np.array([x @ w], dtype=object)
    factors = gradient.factors(v, np.array([y], dtype=object), v**3)
    return np.concatenate([x * factor[0] for factor in factors])


def ball(squared_bound, n=2):
    reach = int(squared_bound**0.5)
    grid = itertools.product(range(-reach, reach + 1), repeat=n)
    return [point for point in grid if sum(p * p for p in point) <= squared_bound]


@pytest.mark.parametrize(("order", "release"), CHOICES)
@pytest.mark.parametrize("bounds", [(9, 16), (5, 40), (4, 1)])
def test_no_record_and_no_weights_exceed_the_sensitivities(order, release, bounds):
    gradient = gradient_of(order, release, squared_row_bound=bounds[0], squared_weight_bound=bounds[1])
    added, replaced = (gradient.sensitivities()[view] for view in ("coordinator", "coalition"))
    worst = {"added": 0, "replaced": 0}
    for w in ball(bounds[1]):
        records = [contribution(gradient, x, y, w) for x in ball(bounds[0]) for y in (0, 1)]
        stacked = np.array(records, dtype=np.int64)
        squares = (stacked**2).sum(axis=1)
        assert squares.max() <= added.squared_l2
        assert np.abs(stacked).sum(axis=1).max() <= added.l1
        differences = stacked[:, None] - stacked[None]
        assert (differences**2).sum(axis=2).max() <= replaced.squared_l2
        assert np.abs(differences).sum(axis=2).max() <= replaced.l1
        worst["added"] = max(worst["added"], int(squares.max()))
        worst["replaced"] = max(worst["replaced"], int((differences**2).sum(axis=2).max()))
    assert worst["added"] > 0.5 * added.squared_l2, "a bound far above what records attain wastes noise"
    assert worst["replaced"] > 0.3 * replaced.squared_l2


def test_replacing_a_record_costs_less_than_twice_adding_one_where_the_weights_are_long():
    views = gradient_of(1, "gradient", squared_weight_bound=1600).sensitivities()
    assert views["coalition"].squared_l2 < 2 * views["coordinator"].squared_l2


@pytest.mark.parametrize(("order", "release"), CHOICES)
def test_the_sums_decode_to_the_gradient_of_the_taylor_polynomial(order, release):
    gradient = gradient_of(order, release, gamma=100, weight_gamma=50, squared_row_bound=10_000, n_columns=3)
    rng = np.random.default_rng(1)
    x, w, y = rng.integers(-50, 50, (20, 3)), rng.integers(-40, 40, 3), rng.integers(0, 2, 20)
    opened = sum(contribution(gradient, *record, w) for record in zip(x.tolist(), y.tolist(), strict=True))
    decoded = gradient.gradient_of(opened.reshape(gradient.n_sums, 3).T.astype(np.float64))
    u = (x / 100) @ (w / 50)
    sigmoid = 0.5 + u / 4 - (u**3 / 48 if order == 3 else 0)
    assert decoded == pytest.approx((x / 100).T @ (sigmoid - y), rel=1e-9)


@pytest.mark.parametrize(("order", "release"), CHOICES)
def test_no_factor_exceeds_its_bound(order, release):
    gradient = gradient_of(order, release, squared_weight_bound=400)
    v = np.arange(-60, 61).astype(object)  # up to floor(sqrt(400 * 9))
    for y in (0, 1):
        for factor in gradient.factors(v, np.full(len(v), y, dtype=object), v**3):
            assert max(abs(f) for f in factor) <= gradient.largest_factor


def test_one_gradient_needs_less_noise_than_three_sums_for_the_same_privacy():
    # Noise of the sensitivity's size on each entry, and what it makes of the gradient: 1/2, 1/4 and 1 of three sums.
    one, three = (gradient_of(1, release, gamma=64, squared_row_bound=4096) for release in ("gradient", "three-sums"))
    for view in ("coordinator", "coalition"):
        alone = one.sensitivities()[view].squared_l2 / one.opened_units**2
        combined = (1 / 4 + 1 / 16 + 1) * three.sensitivities()[view].squared_l2 / three.opened_units**2
        assert alone < combined / 4
