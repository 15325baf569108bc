"""Cells of a grid that is too large to be held, estimated from noisy counts of pairs by a latent class model.

Sixteen owners with four local clusters each have 4^16 cells, but 120 tables of pairs with 16 counts each. The model
says that a row is in one of a few classes, and that within a class the memberships at different owners are independent
[Goodman74]. The model's tables of pairs are sums over the classes; the classes are fitted to the noisy tables, and
cells are drawn from the fitted model. Noisy counts are released already, so all of this is post-processing without
privacy cost.
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


def cells_of_pairs(pairs: Mapping[Pair, Floats], n_owners: int, n_rows: float, choices: Choices) -> Cells:
    """Return cells that agree with noisy counts of pairs, by the model that is fitted to them.

    Args:
        pairs: (l, m), l < m, to the noisy counts of owners l and m, shape (k', k'); every two of at least three owners.
        n_owners: S.
        n_rows: sum of the weights; where it is not positive all weights are 0.
        choices: that protect nothing.
    """
    n_local = len(next(iter(pairs.values())))
    shares = np.zeros((n_owners, n_local, n_owners, n_local))
    for (one, other), counts in pairs.items():
        share = valid_counts(counts, n_rows) / n_rows if n_rows > 0 else np.full(counts.shape, counts.size**-1.0)
        shares[one, :, other], shares[other, :, one] = share, share.T
    return fitted(shares, choices).draw(max(n_rows, 0.0), choices)


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
