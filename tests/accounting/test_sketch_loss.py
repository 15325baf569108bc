"""The sketch's loss against an enumeration of all that the parties publish, and against published claims."""

import itertools
import math

import numpy as np
import pytest

from dp.cost.accounting import Adjacency, CalibrationError
from dp.cost.losses.sketch import SketchCell


def published_cell(total_epsilon: float, total_delta: float, shared_phantoms: int) -> tuple[SketchCell, float, float]:
    """Two parties with the constants of the published protocol, gamma = 1, and the pair that it claims for both."""
    n_sketches, epsilon, delta = 4096, total_epsilon, total_delta
    per_sketch = epsilon / (4 * math.sqrt(n_sketches * math.log(1 / delta)))
    own = math.ceil(1 / math.expm1(per_sketch))
    floor = math.ceil(math.log2(1 / -math.expm1(-per_sketch)))
    return SketchCell(1.0, n_sketches, 2, own, shared_phantoms, floor), 2 * epsilon, 2 * delta


@pytest.mark.parametrize(("own", "shared", "floor", "n_parties"), [(2, 0, 1, 2), (3, 2, 2, 2), (1, 1, 2, 3)])
def test_the_grouped_outcomes_are_those_of_an_enumeration(own, shared, floor, n_parties):
    highest, gamma = 14, 0.7

    def cdf(r: int, n: int) -> float:
        return 0.0 if r < floor else (1 - (1 + gamma) ** -r) ** n

    cell = SketchCell(gamma, 1, n_parties, own, shared, floor)
    for n_common, grouped in zip((shared, shared + 1), cell.outcomes(), strict=True):
        found = np.zeros((highest - floor + 1, n_parties))
        values = range(floor, highest + 1)
        for common, *each in itertools.product(values, repeat=n_parties + 1):
            mass = cdf(common, n_common) - (cdf(common - 1, n_common) if common > floor else 0.0)
            for p in each:
                mass *= cdf(p, own) - cdf(p - 1, own)
            outcome = [max(common, p) for p in each]
            least = min(outcome)
            found[least - floor, outcome.count(least) - 1] += mass
        # The enumeration ends at `highest`: what lies above is missing from it.
        assert grouped[: 5 - floor] == pytest.approx(found[: 5 - floor], rel=0.1)
        assert np.all(grouped[: len(found)] >= found * (1 - 1e-9))
        assert grouped.sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "least_delta"), [(0.25, 3.3e-4), (1.0, 6.4e-4)])
def test_the_published_claim_for_two_parties_that_share_keys_is_false(epsilon, least_delta):
    cell, claimed_epsilon, claimed_delta = published_cell(epsilon, 1e-5, shared_phantoms=0)
    # A lower bound of the true delta, without any composition: that some sketch has both parties at m or above, alike.
    without, with_target = cell.outcomes()
    lower = max(
        -math.expm1(cell.n_sketches * math.log1p(-with_target[m:, 1].sum()))
        + math.exp(claimed_epsilon) * math.expm1(cell.n_sketches * math.log1p(-without[m:, 1].sum()))
        for m in range(len(without) - 1)
    )
    assert lower > 10 * claimed_delta
    assert cell.delta(claimed_epsilon) >= max(lower, least_delta)


@pytest.mark.parametrize(
    ("gamma", "party_epsilon", "others", "least_epsilon"),
    [
        (1.0, 0.245, 0, 1.81),
        (1.0, 0.98, 0, 4.42),
        (0.1, 0.245, 0, 3.64),
        (0.1, 0.98, 0, 6.39),
        (1.0, 0.245, 4000, 0.73),
        (0.1, 0.245, 4000, 2.18),
    ],
)
def test_one_event_shows_that_two_parties_spend_more_than_they_claim(gamma, party_epsilon, others, least_epsilon):
    """The event: some sketch has both parties at m or above, alike. `others`: users of each cluster that none share."""
    n_sketches, party_delta = 4096, 2.5e-5
    per_sketch = party_epsilon / (4 * math.sqrt(n_sketches * math.log(1 / party_delta)))
    own = math.ceil(1 / math.expm1(per_sketch)) + others
    floor = math.ceil(math.log(1 / -math.expm1(-per_sketch)) / math.log1p(gamma))
    without, with_target = SketchCell(gamma, n_sketches, 2, own, 0, floor).outcomes()
    shown = -math.inf
    for m in range(len(without) - 1):
        rare, likely = (-math.expm1(n_sketches * math.log1p(-w[m:, 1].sum())) for w in (without, with_target))
        if likely > 2 * party_delta:
            shown = max(shown, math.log((likely - 2 * party_delta) / rare))
    assert shown == pytest.approx(least_epsilon, abs=0.01)
    assert shown > 2 * party_epsilon


def test_ten_users_in_the_cell_make_the_claim_true_by_far():
    cell, claimed_epsilon, claimed_delta = published_cell(0.25, 1e-5, shared_phantoms=10)
    assert cell.delta(claimed_epsilon) < 1e-11
    assert cell.epsilon(claimed_delta) < claimed_epsilon / 2


def test_with_as_many_shared_phantoms_as_own_ones_the_pure_bound_per_sketch_holds_for_all_parties():
    for n_parties in (1, 2, 4):
        cell = SketchCell(1.0, 1, n_parties, 20, 20, floor=5)
        per_sketch = max(math.log(21 / 20), -math.log(1 - 2.0**-5))
        without, with_target = cell.outcomes()
        seen = (without > 0) & (with_target > 0)
        assert np.abs(np.log(with_target[seen] / without[seen])).max() <= per_sketch * (1 + 1e-9)


def test_more_shared_phantoms_cost_less():
    found = [SketchCell(1.0, 64, 2, 50, c, 4).epsilon(1e-5) for c in (1, 5, 50)]
    assert found == sorted(found, reverse=True)


@pytest.mark.parametrize(
    "changes",
    [
        {"gamma": 0.0},
        {"gamma": math.nan},
        {"n_sketches": 0},
        {"n_parties": 0},
        {"own_phantoms": -1},
        {"floor": 0},
        {"adjacency": Adjacency.REPLACE_ONE},
    ],
)
def test_a_cell_that_cannot_be_is_refused(changes):
    good = {"gamma": 1.0, "n_sketches": 4, "n_parties": 2, "own_phantoms": 3, "shared_phantoms": 1}
    with pytest.raises(CalibrationError):
        SketchCell(**{**good, **changes})
