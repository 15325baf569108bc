"""The membership estimators other than `mpc`, over the in-process network: what they estimate, cost and refuse."""

import math

import numpy as np
import pytest
from virtual_time import run_in_virtual_time

from analyses.clustering.estimators.fm_sketch import UNIT_AGAINST_COORDINATOR, SketchEstimator
from analyses.clustering.estimators.independent import IndependentEstimator, independent_weights
from analyses.clustering.estimators.ldp import LdpEstimator
from analyses.clustering.estimators.membership import MembershipGrid
from analyses.clustering.estimators.pattern import PatternEstimator
from analyses.clustering.protocol import ESTIMATORS
from analyses.job.job import JobError, PrivacyTarget
from dp.cost.accounting import CalibrationError
from dp.cost.composition import composed_epsilon
from dp.cost.events.record import event_from, record_of
from dp.cost.views import ADJACENCY, UNIT, VIEWS
from dp.mechanism.valid_counts import valid_counts
from entropy import InsecureTestEntropy
from mpc.arithmetic.field import ResidueField
from mpc.errors import PeerViolationError
from mpc.local.network import LocalNetwork, local_names
from mpc.protocol.exchange import ShareExchange, agree_pairwise_secrets
from mpc.protocol.session import COORDINATOR

FIELD = ResidueField(3)
DELTA = 1e-6
ACCEPTED = {"accept_no_protection_against_parties": True, "sketches": 512}
OTHERS = {"fm-sketch": ACCEPTED, "independent": {}, "ldp": {}, "pattern": {}}


def make_grid(n_owners, k_local, max_rows, n_parties=3, first_owner=1):
    owners = tuple(range(first_owner, first_owner + n_owners))
    n_members = max(n_parties, owners[-1])
    return MembershipGrid(
        owners=owners,
        members=tuple(range(1, n_members + 1)),
        n_parties=n_parties,
        colluding=(n_parties - 1) // 2,
        k_local=k_local,
        max_rows=max_rows,
    )


def plan(name, grid, epsilon, options=None, view=None):
    options = OTHERS.get(name, {}) if options is None else options
    view = view or ("coordinator" if name == "fm-sketch" else "coalition")
    return ESTIMATORS[name].calibrate(grid, PrivacyTarget(epsilon=epsilon, delta=DELTA, view=view), options)


def run(counting, memberships, seed="run", fault=None):
    grid = counting.grid
    n_rows = len(memberships[0])
    n_owners_apart = max(0, max(grid.owners) - grid.n_parties)
    network = LocalNetwork(
        local_names(grid.n_parties, n_owners_apart),
        job_id=seed,
        entropy_of=lambda member: InsecureTestEntropy(f"{seed} {member}"),
        **({} if fault is None else {"fault": fault}),
    )

    async def party(session):
        secrets = await agree_pairwise_secrets(session, grid.members, grid.n_parties)
        exchange = ShareExchange(session, FIELD, grid.n_parties, grid.colluding, secrets)
        mine = memberships[grid.owners.index(session.me)] if session.me in grid.owners else None
        await counting.party(exchange, mine, n_rows)

    async def coordinator(session):
        return await counting.coordinator(ShareExchange(session, FIELD, grid.n_parties, grid.colluding, {}))

    work = {m: coordinator if m == COORDINATOR else party for m in network.names}
    found = run_in_virtual_time(network.run(work))
    errors = [error for error in found.values() if isinstance(error, Exception)]
    if errors:
        raise errors[0]
    return found[COORDINATOR], network


def correlated(n_owners, k, n_rows, seed=1):
    """Memberships that mostly go together, so that independence is far off."""
    rng = np.random.default_rng(seed)
    common = rng.integers(0, k, n_rows)
    return [np.where(rng.random(n_rows) < 0.25, rng.integers(0, k, n_rows), common) for _ in range(n_owners)]


def truth(memberships, k):
    shape = (k,) * len(memberships)
    return np.bincount(np.ravel_multi_index(memberships, shape), minlength=math.prod(shape)).reshape(shape)


@pytest.mark.parametrize("name", sorted(OTHERS))
@pytest.mark.parametrize("n_owners", [2, 3])
def test_a_counting_estimates_the_counts_within_its_stated_deviation(name, n_owners):
    k, n_rows = 3, 3000
    memberships = correlated(n_owners, k, n_rows)
    counting = plan(name, make_grid(n_owners, k, n_rows), 8.0)
    found, _ = run(counting, memberships)
    exact = truth(memberships, k)
    axes = tuple(range(2, n_owners))
    error = valid_counts(found).sum(axis=axes) - exact.sum(axis=axes)
    assert found.shape == exact.shape
    assert np.all(found >= 0)
    if name == "independent":  # the noise is small and the bias is not
        assert np.abs(error).max() > 300
    else:
        assert np.sqrt(np.mean(error**2)) < 2 * counting.count_deviation(n_rows) + 10
        assert np.abs(error).max() < 400


def test_independent_memberships_are_counted_well_without_any_joint_report():
    rng = np.random.default_rng(3)
    memberships = [rng.integers(0, 3, 4000) for _ in range(3)]
    found, network = run(plan("independent", make_grid(3, 3, 5000), 1.0), memberships)
    assert np.abs(found - truth(memberships, 3)).max() < 5 * math.sqrt(4000 / 27)
    to_coordinator = [m for m in network.transcript if m.receiver == COORDINATOR]
    assert [m.array.nbytes for m in to_coordinator] == [24, 24, 24]


@pytest.mark.parametrize(
    ("name", "options"),
    [*OTHERS.items(), ("pattern", {"share": 0.5}), ("pattern", {"patterns": "all"}), ("ldp", {})],
)
@pytest.mark.parametrize("view", VIEWS)
def test_the_cost_is_within_the_target_and_uses_nearly_all_of_it(name, options, view):
    if name == "fm-sketch" and view == "coalition":
        return
    counting = plan(name, make_grid(3, 4, 2000), 1.0, options, view)
    spent = composed_epsilon(counting.events(view), DELTA).epsilon
    assert 0.97 <= spent <= 1.0
    for each in VIEWS:
        for event in counting.events(each):
            assert event.adjacency is ADJACENCY[each]
            assert event_from(record_of(event)) == event
        assert counting.report(DELTA)["views"][each]["adjacency"] == ADJACENCY[each].value


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_a_smaller_budget_means_a_larger_deviation(name):
    grid = make_grid(2, 3, 2000)
    assert plan(name, grid, 0.5).count_deviation(2000) > plan(name, grid, 2.0).count_deviation(2000)


def test_what_a_record_changes_is_charged_for_all_owners_in_both_views():
    grid = make_grid(3, 4, 2000)
    sizes = plan("independent", grid, 1.0)
    assert [[e.l1_sensitivity for e in sizes.events(view)] for view in VIEWS] == [[1, 1, 1], [2, 2, 2]]
    bits = plan("pattern", grid, 1.0)
    assert [len(bits.events(view)) for view in VIEWS] == [3, 6]
    sampled = plan("pattern", grid, 1.0, {"share": 0.5})
    (event,) = sampled.events("coordinator")
    assert (event.n_bits, len(sampled.events("coalition"))) == (3, 6)
    reports = plan("ldp", grid, 1.0)
    assert [[e.truthful for e in reports.events(view)] for view in VIEWS] == [[reports.response.truthful] * 3] * 2
    (event,) = plan("fm-sketch", grid, 1.0).events("coordinator")
    assert (event.n_sketches, event.n_parties) == (3 * 512, 2)


def test_sizes_leave_their_owner_with_the_noise_that_is_charged():
    memberships = [np.repeat([0, 1], [30, 20])] * 2
    counting = plan("independent", make_grid(2, 2, 60), 0.2)
    noise = []
    for i in range(100):
        _, network = run(counting, memberships, f"noise {i}")
        sent = [m.array.view(np.int64) for m in network.transcript if m.receiver == COORDINATOR]
        noise += [of_owner - [30, 20] for of_owner in sent]
    ratio = math.exp(-1 / counting.scale)
    assert np.var(noise) == pytest.approx(2 * ratio / (1 - ratio) ** 2, rel=0.5)
    assert abs(np.mean(noise)) < counting.scale / 2


@pytest.mark.parametrize(("own", "shared", "estimator"), [(0, 400, "likelihood"), (1500, 1, "2pest")])
def test_phantoms_are_subtracted_from_what_sketches_say(own, shared, estimator):
    k, n_rows = 2, 2400
    memberships = correlated(3, k, n_rows)
    options = {**ACCEPTED, "sketches": 4096, "estimator": estimator}
    planned = plan("fm-sketch", make_grid(3, k, 3000), 20.0, options)
    counting = planned.model_copy(update={"own_phantoms": own, "shared_phantoms": shared, "floor": 1})
    _, network = run(counting, memberships)
    sent = {1: [], 2: [], 3: []}
    for message in network.transcript:
        if message.receiver == COORDINATOR:
            sent[message.sender].append(message.array)
    levels = [[sent[1 + place].pop(0) for place in group] for group in counting.groups]
    assert counting.estimated_rows(levels) == pytest.approx(n_rows, abs=250)
    for (first, second), counts in counting.pair_counts(levels, n_rows).items():
        error = counts - truth([memberships[first], memberships[second]], k)
        assert abs(error.mean()) < 160, error


@pytest.mark.parametrize("name", ["fm-sketch", "ldp", "pattern", "independent"])
def test_messages_to_the_coordinator_do_not_tell_the_number_of_rows(name):
    grid = make_grid(2, 3, 500)
    counting = plan(name, grid, 2.0)

    def sizes(n_rows):
        _, network = run(counting, correlated(2, 3, n_rows))
        return [(m.sender, m.array.shape, m.array.dtype) for m in network.transcript if m.receiver == COORDINATOR]

    assert sizes(100) == sizes(499)


def test_owners_that_hold_no_shares_count_too():
    memberships = correlated(2, 3, 2000)
    for name in ("fm-sketch", "ldp", "pattern", "independent"):
        counting = plan(name, make_grid(2, 3, 2000, n_parties=3, first_owner=4), 20.0)
        found, _ = run(counting, memberships)
        error = np.abs(found - truth(memberships, 3)).max()
        assert error < (800 if name == "independent" else 250), name


@pytest.mark.parametrize("estimator", ["likelihood", "2pest", "basic"])
def test_sketches_are_estimated_in_all_three_ways(estimator):
    memberships = correlated(3, 2, 2000)
    counting = plan("fm-sketch", make_grid(3, 2, 3000), 20.0, {**ACCEPTED, "sketches": 4096, "estimator": estimator})
    found, _ = run(counting, memberships)
    assert np.abs(found - truth(memberships, 2)).max() < 200
    assert len(counting.groups) == (3 if estimator == "likelihood" else 1)


@pytest.mark.slow
def test_the_likely_intersection_of_sketches_has_no_bias_and_the_stated_deviation():
    k, n_rows = 3, 1500
    memberships = correlated(2, k, n_rows)
    counting = plan("fm-sketch", make_grid(2, k, n_rows), 4.0)
    exact = truth(memberships, k)
    errors = np.array([run(counting, memberships, f"repeat {i}")[0] - exact for i in range(25)])
    stated = counting.count_deviation(n_rows)
    assert np.all(np.abs(errors.mean(axis=0)) < 4 * errors.std(axis=0) / 5 + 0.1 * stated)
    assert 0.6 * stated < errors.std() < 1.6 * stated


@pytest.mark.parametrize("name", ["ldp", "pattern"])
def test_reports_have_no_bias(name):
    k, n_rows = 2, 600
    memberships = correlated(2, k, n_rows)
    counting = plan(name, make_grid(2, k, 700), 12.0, {"patterns": "all"} if name == "pattern" else {})
    exact = truth(memberships, k)
    errors = np.array([run(counting, memberships, f"repeat {i}")[0] - exact for i in range(60)])
    assert np.all(np.abs(errors.mean(axis=0)) < 4 * errors.std(axis=0) / math.sqrt(60) + 2)
    assert errors.std() < 1.5 * counting.count_deviation(n_rows)


def test_sketches_say_plainly_that_a_colluding_party_ends_their_protection():
    counting = plan("fm-sketch", make_grid(2, 3, 500), 2.0)
    views = counting.report(DELTA)["views"]
    assert views["coordinator"]["epsilon"] <= 2.0
    assert views["coalition"]["epsilon"] is None
    assert "nothing is protected" in views["coalition"]["noise"]
    assert not counting.hides_from_parties
    assert counting.unit == counting.report(DELTA)["unit"] == UNIT_AGAINST_COORDINATOR != UNIT
    assert all(plan(name, make_grid(2, 3, 500), 2.0).unit == UNIT for name in ("ldp", "pattern", "independent"))


def test_keys_of_sketches_differ_between_jobs_and_between_pairs():
    memberships = correlated(3, 2, 300)
    counting = plan("fm-sketch", make_grid(3, 2, 500), 8.0)

    def levels(seed):
        _, network = run(counting, memberships, seed)
        return [m.array for m in network.transcript if m.receiver == COORDINATOR and m.sender == 1]

    first, again, other = levels("job 1"), levels("job 1"), levels("job 2")
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not any(np.array_equal(a, b) for a, b in zip(first, other, strict=True))
    assert not np.array_equal(first[0], first[1])


@pytest.mark.parametrize(
    ("name", "options", "view", "max_rows", "message"),
    [
        ("fm-sketch", {}, "coordinator", 100, "accept_no_protection_against_parties"),
        ("fm-sketch", {"accept_no_protection_against_parties": False}, "coordinator", 100, "single colluding party"),
        ("fm-sketch", ACCEPTED, "coalition", 100, "privacy.view"),
        ("fm-sketch", {**ACCEPTED, "sketches": 8}, "coordinator", 100, "counting_options.sketches"),
        ("fm-sketch", {**ACCEPTED, "estimator": "guess"}, "coordinator", 100, "counting_options.estimator"),
        ("fm-sketch", {**ACCEPTED, "colour": 1}, "coordinator", 100, "counting_options.colour"),
        ("fm-sketch", ACCEPTED, "coordinator", 1 << 27, "max_rows"),
        ("ldp", {"share": 0.5}, "coalition", 100, "counting_options"),
        ("ldp", {}, "coalition", 1 << 26, "max_rows"),
        ("independent", {"scale": 2}, "coalition", 100, "counting_options"),
        ("pattern", {"share": 2.0}, "coalition", 100, "counting_options.share"),
        ("pattern", {"patterns": "some"}, "coalition", 100, "counting_options.patterns"),
        ("pattern", {}, "coalition", 1 << 26, "max_rows"),
    ],
)
def test_a_counting_that_cannot_be_is_refused_by_the_name_of_its_field(name, options, view, max_rows, message):
    with pytest.raises(JobError, match=message):
        plan(name, make_grid(2, 3, max_rows), 1.0, options, view)


def test_more_owners_than_bits_can_be_accounted_for_are_refused():
    with pytest.raises(JobError, match="at most 8 owners"):
        plan("pattern", make_grid(9, 2, 100, n_parties=9), 1.0)


@pytest.mark.parametrize("name", ["fm-sketch", "ldp", "pattern"])
def test_a_budget_too_small_for_any_answer_is_refused(name):
    with pytest.raises(CalibrationError):
        plan(name, make_grid(2, 3, 100), 1e-7)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("fm-sketch", 0),
        ("fm-sketch", 34),
        ("ldp", 200),
        ("independent", 1 << 62),
    ],
)
def test_what_no_owner_sends_is_refused_and_its_sender_named(name, wrong):
    def fault(message):
        if message.sender == 2 and message.receiver == COORDINATOR:
            return (message.altered(np.full_like(message.array, wrong)),)
        return (message,)

    with pytest.raises(PeerViolationError, match="party-2"):
        run(plan(name, make_grid(2, 3, 200), 2.0), correlated(2, 3, 200), fault=fault)


def test_no_rows_have_no_weight():
    assert np.all(independent_weights([np.array([-1.0, 0.5]), np.zeros(2)]) == 0)
    for estimator_class, name in (
        (IndependentEstimator, "independent"),
        (LdpEstimator, "ldp"),
        (PatternEstimator, "pattern"),
        (SketchEstimator, "fm-sketch"),
    ):
        counting = plan(name, make_grid(2, 2, 50), 8.0)
        assert isinstance(counting, estimator_class)
        found, _ = run(counting, [np.zeros(0, dtype=np.int64)] * 2)
        assert np.all(np.isfinite(found))
        assert found.sum() <= 60
