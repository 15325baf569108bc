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
