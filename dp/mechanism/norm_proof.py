"""What a proof of norms says of the rows that it is about: masked projections, which the compute parties open."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dp.cost.accounting import Adjacency
from dp.cost.events.discrete_gaussian import DiscreteGaussianVectorDpEvent
from dp.cost.group import GaussianEvent, for_rows
from dp.cost.views import ADJACENCY, RECORD, Protected, View
from dp.draw.noise import sample_discrete_gaussian
from entropy import Entropy

_DISTANCE = 2.0**-40
"""Distance of what projections show of one noise from what they show of another; see `mpc.proofs.noise_bound`."""


@dataclass(frozen=True)
class MaskedProjections:
    """Releases projections of one owner's rows plus discrete Gaussian masks that the owner draws.

    V_k = sum_i rho_ki <sigma_k, y_i> + Z_k for k = 1 .. K: coefficients are -1, 0 or 1, public and independent of the
    data, and the squared norm of the matrix of rows sigma_k is at most L.

    Sensitivity: for the row that differs, |(rho_ki <sigma_k, d>)_k|^2 <= sum_k <sigma_k, d>^2 <= L |d|^2. Each row has
    |y_i|^2 <= B^2: a row that is added or removed has |d| = B, of one that is replaced both contents are that long, so
    |d| <= 2 B. Both are attained up to the norm of the matrix. A person's k rows: `dp.cost.group`.
    The masks of one owner hide its rows alone; a record of the joint table has a row at each owner, and a plan states
    one release for each.

    Attributes:
        squared_norm: B^2, in squared integer units.
        squared_operator_bound: L.
        n_projections: K.
        variance: parameter of each mask.
        protected: unit in whose contribution neighbouring tables differ.
    """

    squared_norm: int
    squared_operator_bound: int
    n_projections: int
    variance: int
    protected: Protected = RECORD

    def events(self, view: View) -> tuple[GaussianEvent]:
        """Return what the projections cost in a view: the same for whoever sees them, so it is charged in both.

        The coordinator alone sees none of them; its view is charged as if it did. A coalition does. In its view a
        person's rows are replaced, and those beyond the k that count hold the same in both tables. They are in the sums
        like all rows, so of a person more or less this would be too little for whoever sees the projections.
        """
        adjacency = ADJACENCY[view]
        differences = 4 if adjacency is Adjacency.REPLACE_ONE else 1
        squares = Fraction(differences * self.squared_operator_bound * self.squared_norm, self.variance)
        of_one_row = DiscreteGaussianVectorDpEvent(squares, adjacency, self.n_projections, Fraction(self.variance))
        return (for_rows(of_one_row, self.protected.most_rows),)

    def draw(self, entropy: Entropy) -> NDArray[np.int64]:
        """Draw the masks, shape (K,): discrete Gaussian of the stated variance, independent. Secret of the owner."""
        return sample_discrete_gaussian(entropy, self.variance, self.n_projections)


def noise_delta(n_noises: int) -> float:
    """Return how much of delta the proofs of noise take, where so many noises are proven.

    Let T be what a job releases, noise included, and H what t parties see where each honest party's projections are
    those of noise that it would have drawn, given T, had the table been the neighbour's. H and what they see of the
    neighbour follow from T in the same way, so (epsilon, delta') of T is theirs. Projections of two noises are within
    2^-40 in total variation distance (`mpc.proofs.noise_bound`), so what they see is within n 2^-40 of H, and
    delta = delta' + n 2^-40.

    Args:
        n_noises: how often parties draw noise that is proven, all of them together; those that deviate count, too.
    """
    return n_noises * _DISTANCE
