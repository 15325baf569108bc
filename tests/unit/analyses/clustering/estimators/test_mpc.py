import itertools

import numpy as np
import pytest

from analyses.clustering.estimators.membership import MembershipGrid
from analyses.clustering.estimators.mpc import SCALE, MpcEstimator
from analyses.job.job import JobError, PrivacyTarget
from dp.cost.composition import composed_epsilon
from dp.cost.views import VIEWS
from entropy import InsecureTestEntropy
from mpc.arithmetic.field import ResidueField
from mpc.local.network import LocalNetwork
from mpc.protocol.exchange import ShareExchange, agree_pairwise_secrets
from mpc.protocol.session import COORDINATOR

N_ROWS = 700


def make_grid(owners=(1, 2, 3), k_local=3, n_parties=3, n_members=None):
    members = tuple(range(1, (n_members or n_parties) + 1))
    return MembershipGrid(
        owners=owners, members=members, n_parties=n_parties, colluding=1, k_local=k_local, max_rows=1000
    )


def calibrated(grid, epsilon=2.0, view="coalition", **options):
    return MpcEstimator.calibrate(grid, PrivacyTarget(epsilon=epsilon, delta=1e-5, view=view), options)


async def count(counting, memberships, seed="fixed"):
    """Run the estimator among all members; return the coordinator's weights."""
    grid = counting.grid
    names = {COORDINATOR: "coordinator", **{m: f"member-{m}" for m in grid.members}}
    network = LocalNetwork(names, entropy_of=lambda m: InsecureTestEntropy(f"{seed} {m}"))
    field = ResidueField.for_bound(counting.opened_bound)

    async def member(session):
        if session.me == COORDINATOR:
            return await counting.coordinator(ShareExchange(session, field, grid.n_parties, 1, {}))
        secrets = await agree_pairwise_secrets(session, grid.members, grid.n_parties)
        exchange = ShareExchange(session, field, grid.n_parties, 1, secrets)
        mine = memberships[grid.owners.index(session.me)] if session.me in grid.owners else None
        return await counting.party(exchange, mine, N_ROWS)

    results = await network.run(dict.fromkeys(names, member))
    for result in results.values():
        if isinstance(result, Exception):
            raise result
    return results[COORDINATOR], network


def exact(memberships, k_local):
    counts = np.zeros((k_local,) * len(memberships))
    np.add.at(counts, tuple(memberships), 1)
    return counts


@pytest.mark.parametrize(
    ("owners", "n_parties", "k_local"),
    [((1, 2), 3, 5), ((4, 5), 3, 2), ((1, 2, 3), 3, 4), ((3, 1, 2, 4), 5, 3), ((4, 1, 2, 3, 5), 3, 2)],
)
async def test_the_counts_of_all_cells_are_exact_but_for_noise_on_the_lattice(owners, n_parties, k_local):
    grid = make_grid(owners, k_local, n_parties, max(n_parties, *owners))
    counting = calibrated(grid, epsilon=8.0, cells="joint")
    rng = np.random.default_rng(1)
    memberships = [rng.integers(0, k_local, N_ROWS) for _ in owners[:-1]]
    memberships.append(memberships[0])
    weights, _ = await count(counting, memberships)
    noise = SCALE * (weights - exact(memberships, k_local))
    assert weights.shape == grid.shape
    assert np.array_equal(noise, np.rint(noise))
    assert 0 < np.abs(noise).max() <= grid.n_parties * counting._noise_bound
    assert noise.std() < 3 * counting.mechanism.standard_deviation("coordinator")


async def test_the_noise_has_the_stated_deviation():
    """The noise of 1024 cells: three standard errors of a standard deviation from such a sample are 7 % of it."""
    counting = calibrated(make_grid((1, 2), 32), epsilon=1.0, cells="joint")
    memberships = [np.zeros(N_ROWS, dtype=np.int64)] * 2
    weights, _ = await count(counting, memberships)
    noise = (weights - exact(memberships, 32)).std()
    assert noise == pytest.approx(counting.cell_deviation, rel=0.07)


async def test_the_coordinator_hears_nothing_that_depends_on_the_number_of_rows():
    counting = calibrated(make_grid((1, 2), 3))
    _, network = await count(counting, [np.zeros(N_ROWS, dtype=np.int64)] * 2)
    heard = [message for message in network.transcript if message.receiver == COORDINATOR]
    heard = [message for message in heard if not message.stage.endswith("/parameters")]  # a digest of what is public
    assert {message.array.size for message in heard} <= {counting.mechanism.length, *range(1, 9)}


@pytest.mark.parametrize(("owners", "n_parties"), [((1, 2), 3), ((4, 2, 1), 3), ((1, 2, 3, 4), 5)])
async def test_counts_of_pairs_give_the_weights_that_agree_with_all_pairs(owners, n_parties):
    """Two clusters and much less noise than rows: each pair of the estimated grid has its exact counts, nearly."""
    counting = calibrated(make_grid(owners, 3, n_parties, max(n_parties, *owners)), epsilon=50.0)
    rng = np.random.default_rng(3)
    cluster = rng.integers(0, 2, N_ROWS)
    memberships = [(cluster + shift) % 3 for shift in range(len(owners))]
    weights, _ = await count(counting, memberships)
    np.testing.assert_allclose(weights, exact(memberships, 3), atol=0.05 * N_ROWS)
    assert weights.min() >= 0


@pytest.mark.parametrize("cells", ["pairs", "joint"])
@pytest.mark.parametrize("view", VIEWS)
def test_the_noise_costs_the_target_and_hardly_less(view, cells):
    counting = calibrated(make_grid(), epsilon=1.5, view=view, cells=cells)
    assert 1.49 < composed_epsilon(counting.events(view), 1e-5).epsilon <= 1.5


@pytest.mark.parametrize("cells", ["pairs", "joint"])
def test_sensitivities_are_those_of_any_two_neighbours(cells):
    """All rows of three owners with two clusters each: what each adds to the counts that are opened."""
    counting = calibrated(make_grid(k_local=2), cells=cells)
    rows = list(itertools.product(range(2), repeat=3))

    def counts(row):
        one_hot = [np.eye(2, dtype=int)[a] for a in row]
        if cells == "joint":
            return SCALE * np.einsum("a,b,c->abc", *one_hot).reshape(-1)
        return SCALE * np.concatenate([np.outer(a, b).reshape(-1) for a, b in itertools.combinations(one_hot, 2)])

    differences = [counts(a) - counts(b) for a, b in itertools.combinations(rows, 2)]
    for view, moved in (("coordinator", [counts(row) for row in rows]), ("coalition", differences)):
        stated = counting.mechanism.sensitivities[view]
        assert stated.squared_l2 == max((d**2).sum() for d in moved)
        assert stated.l1 == max(np.abs(d).sum() for d in moved)
    assert counting.mechanism.length == len(differences[0])


@pytest.mark.parametrize(
    ("options", "says"),
    [({"sketches": 4096}, "no option 'sketches'"), ({"cells": "all"}, "cells: must be 'pairs' or 'joint'")],
)
def test_an_unknown_option_is_refused(options, says):
    with pytest.raises(JobError, match=says):
        calibrated(make_grid(), **options)
