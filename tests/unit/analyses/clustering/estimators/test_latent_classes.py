"""Cells from counts of pairs: the tables that they agree with, and what they keep of three memberships at once."""

import numpy as np
import pytest

from analyses.clustering.estimators import latent_classes
from analyses.clustering.estimators.cells import Cells
from analyses.clustering.estimators.latent_classes import CELLS, cells_of_pairs, fitted, shrunk_shares
from analyses.clustering.estimators.membership import MembershipGrid
from analyses.clustering.estimators.mpc import MpcEstimator
from analyses.clustering.weighted_clustering import Choices
from dp.mechanism.valid_counts import valid_counts

N_ROWS = 20_000
CHOICES = b"choices that protect nothing, 32"


def rows_of(n_owners=6, k_local=4, n_clusters=3, purity=0.85, seed=5):
    """Memberships of rows in clusters, each of which has a favourite local cluster at every owner."""
    rng = np.random.default_rng(seed)
    cluster = rng.integers(0, n_clusters, N_ROWS)
    favourite = rng.integers(0, k_local, (n_clusters, n_owners))
    kept = rng.random((N_ROWS, n_owners)) < purity
    return np.where(kept, favourite[cluster], rng.integers(0, k_local, (N_ROWS, n_owners)))


def cells_of(rows, k_local=4):
    return Cells(rows, np.ones(len(rows)), k_local)


def drawn_from(rows, k_local=4, deviation=0.0):
    rng = np.random.default_rng(1)
    pairs = {p: c + deviation * rng.normal(size=c.shape) for p, c in cells_of(rows, k_local).pairs().items()}
    return cells_of_pairs(pairs, rows.shape[1], float(len(rows)), deviation, Choices.of_key(CHOICES))


def test_cells_of_a_grid_have_its_sums():
    weights = np.random.default_rng(2).random((3, 3, 3))
    cells = Cells.of_grid(weights)
    assert cells.total == pytest.approx(weights.sum())
    np.testing.assert_allclose(list(cells.sizes()), [weights.sum((1, 2)), weights.sum((0, 2)), weights.sum((0, 1))])
    np.testing.assert_allclose(cells.pairs()[0, 2], weights.sum(1))


@pytest.mark.parametrize("deviation", [0.0, 40.0])
def test_cells_agree_with_the_counts_of_all_pairs(deviation):
    rows = rows_of()
    exact, found = cells_of(rows).pairs(), drawn_from(rows, deviation=deviation)
    assert found.total == pytest.approx(N_ROWS, rel=0.01)
    assert found.places.shape == (CELLS, 6)
    for pair, counts in exact.items():
        assert np.abs(found.pairs()[pair] - counts).sum() < 0.1 * N_ROWS


def test_cells_keep_what_three_memberships_show_together_which_independent_owners_would_lose():
    rows = rows_of()
    triple = np.bincount(rows[:, :3] @ [16, 4, 1], minlength=64) / N_ROWS
    found = np.bincount(drawn_from(rows).places[:, :3] @ [16, 4, 1], minlength=64) / CELLS
    independent = np.einsum("a,b,c->abc", *(np.bincount(r, minlength=4) / N_ROWS for r in rows[:, :3].T)).reshape(-1)
    assert np.abs(found - triple).sum() < 0.15
    assert np.abs(independent - triple).sum() > 0.5


def test_more_iterations_never_make_the_pairs_less_likely(monkeypatch):
    rows = rows_of(n_owners=4, k_local=3)
    shares = np.zeros((4, 3, 4, 3))
    for (one, other), counts in cells_of(rows, 3).pairs().items():
        shares[one, :, other], shares[other, :, one] = counts / N_ROWS, counts.T / N_ROWS
    likely = []
    for iterations in (1, 2, 5, 20, 100):
        monkeypatch.setattr(latent_classes, "ITERATIONS", iterations)
        model = fitted(shares, Choices.of_key(CHOICES), 5)
        of_pairs = np.einsum("z,zla,zmb->lamb", model.shares, model.memberships, model.memberships)
        likely.append(float((shares[shares > 0] * np.log(of_pairs[shares > 0])).sum()))
    assert likely == sorted(likely)
    assert model.shares.sum() == pytest.approx(1)
    np.testing.assert_allclose(model.memberships.sum(axis=2), 1)


def uneven_rows(n_owners=16):
    """Memberships in one of two large local clusters, which half of the owners share, seldom in four small ones."""
    rng = np.random.default_rng(3)
    cluster = rng.integers(0, 2, (N_ROWS, 2))[:, np.arange(n_owners) % 2]
    large = np.where(rng.random((N_ROWS, n_owners)) < 0.9, cluster, 1 - cluster)
    return np.where(rng.random((N_ROWS, n_owners)) < 0.01, rng.integers(2, 6, (N_ROWS, n_owners)), large)


def noisy_pairs(rows, k_local, deviation):
    rng = np.random.default_rng(4)
    return {p: c + deviation * rng.normal(size=c.shape) for p, c in cells_of(rows, k_local).pairs().items()}


def test_little_noise_adds_up_to_rows_in_small_local_clusters():
    """A hundredth of the rows of each owner is there."""
    rows, deviation = uneven_rows(), 75.0
    pairs = noisy_pairs(rows, 6, deviation)
    found = cells_of_pairs(pairs, 16, float(N_ROWS), deviation, Choices.of_key(CHOICES))
    assert 0.005 < (found.places >= 2).mean() < 0.0165
    unshrunk = [valid_counts(counts, N_ROWS) for counts in pairs.values()]
    assert np.mean([counts[2:].sum() for counts in unshrunk]) > 0.018 * N_ROWS


def test_a_counting_shrinks_its_tables_by_the_noise_of_all_parties_together():
    members = tuple(range(1, 17))
    grid = MembershipGrid(owners=members, members=members, n_parties=16, colluding=1, k_local=6, max_rows=N_ROWS)
    counting = MpcEstimator(grid=grid, cells="pairs", party_mu=45_000)
    assert counting.cell_deviation == pytest.approx(75.0)
    found = counting.cells_of(noisy_pairs(uneven_rows(), 6, 75.0))
    assert 0.005 < (found.places >= 2).mean() < 0.0165


def test_shrunk_shares_err_less_than_valid_counts_and_are_exact_without_noise():
    rows = uneven_rows()
    exact = {pair: counts / N_ROWS for pair, counts in cells_of(rows, 6).pairs().items()}
    without = shrunk_shares(noisy_pairs(rows, 6, 0.0), 16, float(N_ROWS), 0.0)
    pairs = noisy_pairs(rows, 6, 75.0)
    shrunk = shrunk_shares(pairs, 16, float(N_ROWS), 75.0)
    for pair, shares in exact.items():
        np.testing.assert_allclose(without[pair], shares, atol=1e-12)
        assert shrunk[pair].sum() == pytest.approx(1)
    unshrunk = {pair: valid_counts(counts, N_ROWS) / N_ROWS for pair, counts in pairs.items()}
    off = [sum(np.abs(found[pair] - shares).sum() for pair, shares in exact.items()) for found in (shrunk, unshrunk)]
    assert off[0] < 0.8 * off[1]


def test_counts_that_are_noise_alone_become_independent_owners():
    rng = np.random.default_rng(8)
    rows = rng.integers(0, 4, (N_ROWS, 6))
    shrunk = shrunk_shares(noisy_pairs(rows, 4, 400.0), 6, float(N_ROWS), 400.0)
    raw = noisy_pairs(rows, 4, 400.0)
    for pair, shares in shrunk.items():
        independent = np.outer(shares.sum(axis=1), shares.sum(axis=0))
        assert np.abs(shares - independent).sum() < 0.6 * np.abs(raw[pair] / N_ROWS - 1 / 16).sum()


def test_without_rows_there_are_cells_without_weight():
    nothing = {pair: np.full((4, 4), -3.0) for pair in cells_of(rows_of()).pairs()}
    found = cells_of_pairs(nothing, 6, -48.0, 40.0, Choices.of_key(CHOICES))
    assert found.total == 0
    assert len(np.unique(found.places[:, 0])) == 4
