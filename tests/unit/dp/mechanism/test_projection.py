"""The sketch's sensitivity by exhaustive search on tiny domains, its cost by exact enumeration of a tiny release."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dp.cost.accounting import Adjacency, CalibrationError, delta_of_rdp
from dp.cost.composition import composed_epsilon
from dp.cost.events.event import renyi_curve
from dp.mechanism.projection import VARIANCE_UNITS, NoisySketch
from entropy import InsecureTestEntropy


def mechanism(**changes):
    fields = {
        "sketch_rows": 2,
        "squared_norm_bounds": (4, 2),
        "constant": 0,
        "is_signed": False,
        "n_parties": 3,
        "colluding": 1,
        "multiplier": 5000,
    }
    return NoisySketch(**{**fields, **changes})


def vectors(width, squared_norm_bound, is_signed):
    """All integer rows that the bounds admit."""
    reach = math.isqrt(squared_norm_bound)
    entries = range(-reach if is_signed else 0, reach + 1)
    return [np.array(v) for v in itertools.product(entries, repeat=width) if np.dot(v, v) <= squared_norm_bound]


@pytest.mark.parametrize("is_signed", [False, True])
@pytest.mark.parametrize("bounds", [(4, 2), (5, 1), (2, 9)])
def test_no_replaced_row_moves_a_block_further_than_stated_and_some_moves_it_as_far(bounds, is_signed):
    made = mechanism(squared_norm_bounds=bounds, is_signed=is_signed)
    g = np.array([[3, -1, 2], [1, 4, -2]])
    largest = int((g**2).sum(axis=0).max())
    for stated, bound in zip(made.squared_sensitivities("coalition"), bounds, strict=True):
        rows = vectors(2, bound, is_signed)
        moved = [int(((np.outer(g[:, i], x - y)) ** 2).sum()) for i in range(3) for x in rows for y in rows]
        assert max(moved) <= largest * stated
        if math.isqrt(bound) ** 2 == bound:  # a row along an axis attains the bound
            assert max(moved) == largest * stated


def test_no_added_row_moves_a_block_further_than_stated_the_constant_column_included():
    made = mechanism(constant=3)
    g = np.array([[3, -1, 2], [1, 4, -2]])
    largest = int((g**2).sum(axis=0).max())
    for block, (stated, bound) in enumerate(zip(made.squared_sensitivities("coordinator"), (4, 2), strict=True)):
        rows = [np.append(x, 3 * block) for x in vectors(2, bound, False)]
        moved = [int((np.outer(g[:, i], x) ** 2).sum()) for i in range(3) for x in rows]
        assert max(moved) <= largest * stated
    assert made.squared_sensitivities("coordinator") == (4, 2 + 9)
    assert made.squared_sensitivities("coalition") == (8, 4)  # the constant stays when a row is replaced


def masses(centres, variance, reach):
    """The mixture, with equal weights, of discrete Gaussians about some centres: at -reach .. reach."""
    k = np.arange(-reach, reach + 1)
    total = np.exp(-(np.arange(-40 * reach, 40 * reach + 1) ** 2) / (2 * variance)).sum()
    return np.mean([np.exp(-((k - c) ** 2) / (2 * variance)) / total for c in centres], axis=0)


def hockey_stick(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


MATRICES = [np.array(signs) for signs in itertools.product((-1, 1), repeat=3)]  # one row, three columns of norm 1


def released(rows, variance, matrices=MATRICES):
    """What an onlooker sees who knows no more of G than that it is one of these."""
    return masses([int(g[: len(rows)] @ np.array(rows, dtype=np.int64)) for g in matrices], variance, 60)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.0])
def test_who_does_not_know_the_matrix_cannot_tell_any_row_removed_anywhere(epsilon):
    made = mechanism(sketch_rows=1, squared_norm_bounds=(4,), multiplier=2 * 4 * VARIANCE_UNITS)
    curve = sum(renyi_curve(event) for event in made.events("coordinator"))
    allowed = delta_of_rdp(curve, 1, epsilon)
    variance = made.variance(1)
    found = 0.0
    for table in itertools.product(range(3), repeat=3):
        p = released(table, variance)
        for i in range(3):
            q = released(table[:i] + table[i + 1 :], variance)
            found = max(found, hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon))
    assert 0 < found <= allowed


def test_who_knows_the_matrix_can_tell_a_removed_row_so_the_coordinator_must_not():
    made = mechanism(sketch_rows=1, squared_norm_bounds=(4,), multiplier=2 * 4 * VARIANCE_UNITS)
    curve = sum(renyi_curve(event) for event in made.events("coordinator"))
    known = [np.array([1, -1, 1])]
    with_first, without = (released(rows, made.variance(1), known) for rows in ((2, 0, 2), (0, 2)))
    assert hockey_stick(with_first, without, 1.0) > delta_of_rdp(curve, 1, 1.0)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.0])
def test_who_knows_the_matrix_cannot_tell_a_replaced_row(epsilon):
    made = mechanism(sketch_rows=1, squared_norm_bounds=(4,), is_signed=True, multiplier=2 * 4 * VARIANCE_UNITS)
    curve = sum(renyi_curve(event) for event in made.events("coalition"))
    known, variance = [np.array([1, -1, 1])], made.variance(1)
    pairs = [((1, x, 2), (1, y, 2)) for x in range(-2, 3) for y in range(-2, 3) if x != y]
    found = [hockey_stick(released(a, variance, known), released(b, variance, known), epsilon) for a, b in pairs]
    assert 0 < max(found) <= delta_of_rdp(curve, 1, epsilon)


@pytest.mark.parametrize("multiplier", [1, 7, 5000, 123457])
@pytest.mark.parametrize("largest", [1, 5, 99, 4096])
def test_the_cost_does_not_depend_on_the_matrix_and_is_never_below_that_of_its_noise(multiplier, largest):
    made = mechanism(multiplier=multiplier, constant=2, is_signed=True)
    for view in ("coordinator", "coalition"):
        for event, bound in zip(made.events(view), made.squared_sensitivities(view), strict=True):
            assert event.squares >= Fraction(bound * largest, made.variance(largest))
            assert event.squares == Fraction(bound * VARIANCE_UNITS, multiplier)


def test_a_record_of_the_joint_table_costs_the_blocks_of_all_parties_together():
    made = mechanism(squared_norm_bounds=(4, 2, 3))
    assert len(made.events("coalition")) == 3
    alone = composed_epsilon(made.events("coalition")[:1], 1e-6).epsilon
    assert composed_epsilon(made.events("coalition"), 1e-6).epsilon > 1.3 * alone
    assert made.events("coalition")[0].adjacency is Adjacency.REPLACE_ONE
    assert made.events("coordinator")[0].adjacency is Adjacency.ADD_OR_REMOVE_ONE


@pytest.mark.parametrize("view", ["coordinator", "coalition"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0, 16.0])
def test_calibration_meets_the_target_for_every_epsilon_with_hardly_any_noise_to_spare(view, epsilon):
    fields = {
        "sketch_rows": 10,
        "squared_norm_bounds": (1 << 22, 1 << 21),
        "constant": 500,
        "is_signed": True,
        "n_parties": 3,
        "colluding": 1,
    }
    made = NoisySketch.calibrate(**fields, epsilon=epsilon, delta=1e-6, view=view)
    assert 0.999 * epsilon < composed_epsilon(made.events(view), 1e-6).epsilon <= epsilon


def test_an_epsilon_that_no_noise_on_offer_can_give_is_refused():
    fields = {
        "sketch_rows": 10,
        "squared_norm_bounds": (1 << 60,),
        "constant": 0,
        "is_signed": True,
        "n_parties": 3,
        "colluding": 1,
    }
    with pytest.raises(CalibrationError, match="needs more noise than the sampler can draw"):
        NoisySketch.calibrate(**fields, epsilon=1e-9, delta=1e-6, view="coalition")


def test_the_noise_has_the_variance_that_the_longest_column_asks_for():
    made = mechanism(multiplier=100 * VARIANCE_UNITS)
    noise = made.draw(InsecureTestEntropy("sketch noise"), 25, 20_000)
    assert np.var(noise) == pytest.approx(2500, rel=0.03)


def test_the_report_states_both_views_and_the_scale_of_the_noise():
    report = mechanism(multiplier=100 * VARIANCE_UNITS).report(1e-6)
    assert report["views"]["coordinator"]["adjacency"] == "add_or_remove_one"
    assert report["views"]["coalition"]["epsilon"] > report["views"]["coordinator"]["epsilon"]
    assert "of 10 times the norm of the longest column" in report["views"]["coalition"]["noise"]


@pytest.mark.parametrize(
    "changes", [{"sketch_rows": 0}, {"multiplier": 0}, {"constant": -1}, {"squared_norm_bounds": (0, 1)}]
)
def test_fields_that_make_no_sense_are_refused(changes):
    with pytest.raises(ValueError, match="a sketch needs"):
        mechanism(**changes)
