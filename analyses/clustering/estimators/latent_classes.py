"""Cells of a grid that is too large to be held, estimated from noisy counts of pairs by a latent class model.

Sixteen owners with four local clusters each have 4^16 cells, but 120 tables of pairs with 16 counts each. The model
says that a row is in one of a few classes, and that within a class the memberships at different owners are independent
[Goodman74]. The model's tables of pairs are sums over the classes; noise is shrunk out of the noisy tables, the classes
are fitted to them, and cells are drawn from the fitted model. Noisy counts are released already, so all of this is
post-processing without privacy cost.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analyses.clustering.estimators.cells import Cells, Pair
from analyses.clustering.weighted_clustering import Choices
from dp.mechanism.valid_counts import valid_counts

Floats = NDArray[np.float64]

CELLS = 4096
"""Cells that are drawn from the model."""

CLASSES = 40
"""Classes of the model. With 5 to 40 of them the losses of five clusters differ by less than those of two jobs."""

ITERATIONS = 100

_LEAST = 1e-300  # so that nothing is divided by 0


@dataclass(frozen=True)
class LatentClasses:
    """A mixture of classes within which memberships are independent.

    Attributes:
        shares: shares of the classes, shape (classes,), of sum 1.
        memberships: probabilities of the local clusters of each owner in each class, shape (classes, S, k').
    """

    shares: Floats
    memberships: Floats

    def draw(self, n_rows: float, choices: Choices) -> Cells:
        """Return cells that are drawn from the model, `CELLS` of them, all of the same weight.

        Args:
            n_rows: sum of the weights, at least 0.
            choices: that protect nothing.
        """
        _, n_owners, n_local = self.memberships.shape
        class_of = np.searchsorted(np.cumsum(self.shares)[:-1], (np.arange(CELLS) + 0.5) / CELLS)
        reached = self.memberships.cumsum(axis=2)
        asked = choices.random((CELLS, n_owners))
        places = [
            (asked[:, owner, None] >= reached[class_of, owner, :-1]).sum(axis=1, dtype=np.int64)
            for owner in range(n_owners)
        ]
        return Cells(np.stack(places, axis=1), np.full(CELLS, n_rows / CELLS), n_local)


def cells_of_pairs(
    pairs: Mapping[Pair, Floats], n_owners: int, n_rows: float, deviation: float, choices: Choices
) -> Cells:
    """Return cells that agree with noisy counts of pairs, by the model that is fitted to them.

    Args:
        pairs: (l, m), l < m, to the noisy counts of owners l and m, shape (k', k'); every two of at least three owners.
        n_owners: S.
        n_rows: sum of the weights; where it is not positive all weights are 0.
        deviation: standard deviation of the noise of a count, in rows; public.
        choices: that protect nothing.
    """
    n_local = len(next(iter(pairs.values())))
    shares = np.zeros((n_owners, n_local, n_owners, n_local))
    for (one, other), share in shrunk_shares(pairs, n_owners, n_rows, deviation).items():
        shares[one, :, other], shares[other, :, one] = share, share.T
    return fitted(shares, choices).draw(max(n_rows, 0.0), choices)


def shrunk_shares(pairs: Mapping[Pair, Floats], n_owners: int, n_rows: float, deviation: float) -> dict[Pair, Floats]:
    """Return the shares of rows in each table of pairs, with less of the noise in them than the counts have.

    A local cluster is counted in the tables of all S - 1 other owners, so the mean of these counts is far less off than
    a cell. By sizes alone a table would be that of independent owners. The difference D of the noisy table from that
    has about k'^2 sigma^2 of its squares from noise, so it is multiplied by 1 - (k'^2 - 2) sigma^2 / |D|^2, or 0: the
    estimator of James and Stein [JamesStein61]. Its mean squared error is less than the noisy table's, whatever the
    true one is, where the table that it shrinks to is given. Without it what `valid_counts` leaves of noise in cells
    that are almost empty adds up to rows in small local clusters, far from all others.

    Args:
        pairs: see `cells_of_pairs`.
        n_owners: S.
        n_rows: sum of each table.
        deviation: sigma.

    Returns:
        for each pair shares of sum 1, shape (k', k'), even ones where `n_rows` is not positive.
    """
    if n_rows <= 0:
        return {pair: np.full(counts.shape, counts.size**-1.0) for pair, counts in pairs.items()}
    sums: list[list[Floats]] = [[] for _ in range(n_owners)]
    for (one, other), counts in pairs.items():
        sums[one].append(counts.sum(axis=1))
        sums[other].append(counts.sum(axis=0))
    sizes = [valid_counts(np.mean(of_owner, axis=0), n_rows) for of_owner in sums]
    found = {}
    for (one, other), counts in pairs.items():
        independent = np.outer(sizes[one], sizes[other]) / n_rows
        differs = counts - independent
        of_noise = (counts.size - 2) * deviation**2
        kept = max(0.0, 1 - of_noise / max(float(np.square(differs).sum()), _LEAST))
        found[one, other] = valid_counts(independent + kept * differs, n_rows) / n_rows
    return found


def fitted(shares: Floats, choices: Choices, n_classes: int = CLASSES) -> LatentClasses:
    """Return the classes that make shares of pairs likely: EM on the sum of the pairs' log-likelihoods.

    Each iteration splits the share of each pair of local clusters among the classes, in proportion to what the model
    says of it, and takes what a class gets for its share and its memberships; this never lowers the sum
    sum_lm,ab s_lm(a, b) log sum_z w_z p_zl(a) p_zm(b). It begins at the owners' own sizes times random numbers, and
    ends after a number of iterations that depends on no value.

    Args:
        shares: s, shape (S, k', S, k'), those of owners l and m of sum 1 and as of m and l; zeros where l = m.
        choices: random numbers of the beginning.
        n_classes: number of classes.

    Cost: 100 products of S k' x S k' with S k' x classes; 20 ms for 16 owners with 4 local clusters each.
    """
    n_owners, n_local = shares.shape[:2]
    width = n_owners * n_local
    pairs = shares.reshape(width, width)
    differ = np.repeat(np.repeat(1.0 - np.eye(n_owners), n_local, axis=0), n_local, axis=1)
    sizes = shares.sum(axis=(2, 3)) / (n_owners - 1)
    own = sizes * (choices.random((n_classes, n_owners, n_local)) + 0.1)
    own /= np.maximum(own.sum(axis=2, keepdims=True), _LEAST)
    weights = np.full(n_classes, 1 / n_classes)
    for _ in range(ITERATIONS):
        flat = own.reshape(n_classes, width)
        ratio = differ * pairs / np.maximum((flat.T * weights) @ flat, _LEAST)
        parts = ((flat * weights[:, None]) * (flat @ ratio)).reshape(own.shape)
        weights = parts.sum(axis=(1, 2))
        weights /= weights.sum()
        own = parts / np.maximum(parts.sum(axis=2, keepdims=True), _LEAST)
    return LatentClasses(weights, own)
