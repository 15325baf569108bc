import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from masked_sums import exact_sum, make_config, run

from analyses.sums.noise import SumNoise, SumSensitivity, survivor_levels
from dp.cost.accounting import Adjacency, CalibrationError
from dp.cost.events.skellam import SkellamDpEvent, SkellamVectorDpEvent
from dp.cost.report import describe
from dp.cost.views import ADJACENCY
from dp.draw.skellam import MAX_MU
from entropy import InsecureTestEntropy
from mpc.errors import LocalFaultError
from mpc.secagg.opened_sum import OpenedSum
from mpc.secagg.secret.surplus import SurplusSeeds, n_opened_by
from mpc.secagg.stage import Stage
from mpc.secagg.vector.group import RingGroup

LEVELS = (6, 7, 8, 9, 10)
UNIT = "member's vector"
MEMBER = {view: SumSensitivity.of_member(100, 8, adjacency, UNIT) for view, adjacency in ADJACENCY.items()}


def noise_with(mu, length, levels, n_corrupt):
    return SumNoise(mu, length, levels, n_corrupt, MEMBER)


def seeds_of(member, n=4):
    return SurplusSeeds(InsecureTestEntropy(f"surplus {member}"), n).seeds


def noisy_sum(noise, n_survivors):
    """Noise of the survivors as they would send it, opened and with the surplus removed."""
    group = RingGroup(40)
    total = group.zeros(noise.length)
    for m in range(1, n_survivors + 1):
        drawn = noise.draw(InsecureTestEntropy(f"base {m}"), seeds_of(m))
        group.accumulate(total, group.encode(drawn))
    n_opened = n_opened_by(noise.levels, n_survivors)
    seeds = {m: seeds_of(m)[:n_opened] for m in range(1, n_survivors + 1)} if n_opened else {}
    opened = OpenedSum(group, total, tuple(range(1, n_survivors + 1)), {}, {}, (), seeds)
    return noise.remove_surplus(opened).integers()


@pytest.mark.parametrize("n_survivors", [6, 7, 8, 9, 10])
def test_whoever_survives_the_sum_has_the_intended_variance(n_survivors):
    """20,000 coordinates: the estimate errs by 1 % (one s.d.); accepted within 5 %, so +-20 % would be rejected."""
    noise = noise_with(mu=900, length=20_000, levels=LEVELS, n_corrupt=2)
    left = noisy_sum(noise, n_survivors)
    assert abs(left.var() / 1800 - 1) < 0.05
    assert abs(left.mean()) < 5 * math.sqrt(1800 / 20_000)


def test_without_removal_the_variance_would_be_too_much():
    noise = noise_with(mu=900, length=20_000, levels=LEVELS, n_corrupt=0)
    kept = sum(noise.draw(InsecureTestEntropy(f"base {m}"), seeds_of(m)) for m in range(1, 11))
    assert kept.var() / 1800 == pytest.approx(10 / 6, rel=0.05)


def test_the_parts_of_a_member_add_up_to_its_share_at_every_level():
    noise = noise_with(mu=1000, length=1, levels=LEVELS, n_corrupt=0)
    for i, level in enumerate(LEVELS):
        kept = noise.mu * (noise.base_part + sum(noise.component_parts[i:], Fraction(0)))
        assert kept == Fraction(1000, level)
        assert noise.kept_mu(level) == 1000


@pytest.mark.parametrize("excess", [Fraction(0), Fraction(1, 20), Fraction(1, 4)])
def test_coarser_levels_leave_at_least_mu_and_at_most_the_stated_excess(excess):
    levels = survivor_levels(60, 100, excess)
    noise = noise_with(mu=1000, length=1, levels=levels, n_corrupt=0)
    kept = [noise.kept_mu(n) for n in range(60, 101)]
    assert (levels[0], levels[-1], min(kept)) == (60, 100, 1000)
    assert max(kept) <= 1000 * (1 + excess)
    assert len(levels) == {0: 41, Fraction(1, 20): 10, Fraction(1, 4): 4}[excess]


def test_two_views_differ_by_what_the_corrupt_members_know():
    noise = noise_with(mu=1000, length=8, levels=LEVELS, n_corrupt=2)
    assert noise.least_unknown_mu("coordinator") == 1000
    assert noise.least_unknown_mu("coalition") == Fraction(4000, 6)  # four of the fewest six
    assert noise.unknown_mu(10, "coalition") == 800
    planned = noise.epsilon("coalition", 1e-6).epsilon
    assert planned >= max(noise.epsilon("coalition", 1e-6, n).epsilon for n in range(6, 11))


@pytest.mark.parametrize(("n_survivors", "coalition"), [(None, Fraction(4000, 6)), (10, 800)])
def test_the_report_is_that_of_any_release_and_reads_as_one(n_survivors, coalition):
    noise = noise_with(mu=1000, length=8, levels=LEVELS, n_corrupt=2)
    report = noise.report("secure-sum", 1e-6, n_survivors)
    assert set(report) == {
        *("mechanism", "sensitivity", "unit", "n_parties", "colluding", "delta", "parameters", "views")
    }
    assert (report["unit"], report["n_parties"], report["colluding"], report["delta"]) == (UNIT, 10, 2, 1e-6)
    assert report["sensitivity"] == (
        "in integer units, add_or_remove_one: L2 10, L1 28; replace_one: L2 20, L1 56"  # sqrt 100, sqrt 800, twice both
    )
    assert report["parameters"]["mu"] == 1000
    assert report["parameters"].get("survivors") == n_survivors
    for view, mu in (("coordinator", 1000), ("coalition", coalition)):
        assert report["views"][view]["epsilon"] == noise.epsilon(view, 1e-6, n_survivors).epsilon
        assert f"deviation at least {math.sqrt(2 * mu):.4g} units" in report["views"][view]["noise"]
    lines = describe(report, "members")
    assert "Protected: one member's vector. delta = 1e-06." in lines
    assert any(line.startswith("Against the coordinator and 2 of 10 members together: epsilon = ") for line in lines)


def test_noise_comes_with_what_the_sum_costs_at_most():
    noise = noise_with(mu=1000, length=8, levels=LEVELS, n_corrupt=2)
    drawn = noise.draw(InsecureTestEntropy("base"), seeds_of(1))
    assert drawn.shape == (8,)
    moved = MEMBER["coalition"]
    mu = Fraction(4000, 6)
    sums = SkellamDpEvent.of_vector(moved.squared_l2, moved.l1, mu, moved.adjacency)
    assert noise.events("coalition") == (SkellamVectorDpEvent.knowing(sums, 8, mu),)


@pytest.mark.parametrize("view", ["coordinator", "coalition"])
def test_calibrated_noise_is_the_least_that_meets_the_target(view):
    options = {"length": 8, "levels": LEVELS, "n_corrupt": 2}
    noise = SumNoise.calibrate(MEMBER, view, epsilon=1.0, delta=1e-6, **options)
    assert noise.epsilon(view, 1e-6).epsilon <= 1.0
    assert noise_with(noise.mu - 1, **options).epsilon(view, 1e-6).epsilon > 1.0


def test_unreachable_targets_are_refused():
    options = {"length": 8, "levels": LEVELS, "n_corrupt": 0}
    with pytest.raises(CalibrationError, match="positive finite"):
        SumNoise.calibrate(MEMBER, "coordinator", epsilon=math.nan, delta=1e-6, **options)
    huge = {view: SumSensitivity(MAX_MU * 10**6, 1, adjacency, "x") for view, adjacency in ADJACENCY.items()}
    with pytest.raises(CalibrationError, match="needs more noise than the sampler can draw"):
        SumNoise.calibrate(huge, "coordinator", epsilon=0.1, delta=1e-6, **options)


def test_sensitivity_covers_every_pair_of_small_vectors():
    """All integer vectors of length 2 with squared norm at most 5, added, removed and replaced."""
    bound = 5
    vectors = [np.array((a, b)) for a in range(-3, 4) for b in range(-3, 4) if a * a + b * b <= bound]
    adding = SumSensitivity.of_member(bound, 2, Adjacency.ADD_OR_REMOVE_ONE, "x")
    replacing = SumSensitivity.of_member(bound, 2, Adjacency.REPLACE_ONE, "x")
    for x in vectors:
        assert (x**2).sum() <= adding.squared_l2
        assert np.abs(x).sum() <= adding.l1
    for x, y in combinations(vectors, 2):
        assert ((x - y) ** 2).sum() <= replacing.squared_l2
        assert np.abs(x - y).sum() <= replacing.l1
    assert replacing.squared_l2 == max(((x - y) ** 2).sum() for x in vectors for y in vectors)


@pytest.mark.parametrize("n_dropouts", [0, 1, 2])
def test_a_whole_round_leaves_the_survivors_sum_and_their_kept_noise(n_dropouts):
    """The noise in the result is the survivors' kept parts; a member that is silent at the end changes nothing."""
    levels = (5, 6, 7)
    noise = noise_with(mu=50, length=12, levels=levels, n_corrupt=0)
    config = make_config(
        7, group=RingGroup(24), surplus_levels=levels, topology=make_config(7).topology.complete(7, 0, 5)
    )
    kept = {}

    def noise_of(member, seeds):
        drawn = noise.draw(InsecureTestEntropy(f"base {member}"), seeds)
        excess = noise._components(seeds[: 2 - n_dropouts])
        kept[member] = drawn - excess
        return drawn

    dropped_out = dict.fromkeys(range(1, n_dropouts + 1), Stage.MASK) | {7: Stage.UNMASK}
    opened = noise.remove_surplus(run(config, noise_of=noise_of, dropouts=dropped_out))
    expected = exact_sum(opened.survivors) + sum(kept[m] for m in opened.survivors)
    assert np.array_equal(opened.integers(), expected)
    assert opened.surplus_seeds == {}


def test_missing_seeds_are_refused():
    noise = noise_with(mu=50, length=12, levels=LEVELS, n_corrupt=0)
    opened = OpenedSum(RingGroup(24), RingGroup(24).zeros(12), tuple(range(1, 9)), {}, {}, (), {})
    with pytest.raises(LocalFaultError, match="exactly 2 seeds of each of the 8 survivors must be opened"):
        noise.remove_surplus(opened)
    with pytest.raises(LocalFaultError, match="there must be one seed for each of the 4 removable components, not 3"):
        noise.draw(InsecureTestEntropy("x"), seeds_of(1, 3))


@pytest.mark.parametrize(
    "fields",
    [
        {"mu": 0, "length": 1, "levels": (3,), "n_corrupt": 0},
        {"mu": 1, "length": 0, "levels": (3,), "n_corrupt": 0},
        {"mu": 1, "length": 1, "levels": (), "n_corrupt": 0},
        {"mu": 1, "length": 1, "levels": (3, 3), "n_corrupt": 0},
        {"mu": 1, "length": 1, "levels": (3,), "n_corrupt": 3},
    ],
)
def test_numbers_that_do_not_fit_are_refused(fields):
    with pytest.raises(LocalFaultError):
        noise_with(**fields)


def test_a_sensitivity_is_needed_for_the_neighbours_of_each_view():
    other = SumSensitivity.of_member(100, 8, Adjacency.REPLACE_ONE, "another unit")
    for wrong in ({}, {"coalition": MEMBER["coalition"]}, {**MEMBER, "coordinator": MEMBER["coalition"]}):
        with pytest.raises(LocalFaultError, match="each view needs a sensitivity"):
            SumNoise(1000, 8, LEVELS, 2, wrong)
    with pytest.raises(LocalFaultError, match="same protected unit"):
        SumNoise(1000, 8, LEVELS, 2, {**MEMBER, "coalition": other})


def test_the_tail_bound_holds_at_every_number_of_survivors():
    """At probability 2^-4 per coordinate and 20,000 of them in 5 sets, the bound must hold for nearly all."""
    noise = noise_with(mu=900, length=1, levels=LEVELS, n_corrupt=0)
    bound = noise.tail_bound(-10)
    many = noise_with(mu=900, length=20_000, levels=LEVELS, n_corrupt=0)
    exceeding = np.mean([np.mean(np.abs(noisy_sum(many, n)) > bound) for n in (6, 10)])
    assert exceeding <= 2**-10
    assert bound < 8 * math.sqrt(1800)
    assert noise_with(900, 1000, LEVELS, 0).tail_bound(-10) > bound
    coarse = noise_with(mu=900, length=1, levels=(6, 10), n_corrupt=0)
    assert coarse.tail_bound(-10) > bound  # nine survivors keep half as much again


def test_two_seeds_of_one_member_make_unrelated_noise():
    noise = noise_with(mu=10**6, length=2000, levels=LEVELS, n_corrupt=0)
    first, second = (noise._components(seeds_of(m)) for m in (1, 2))
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.1
