"""The release of X^T X with noise of which no party knows more than its own part."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dp.cost.accounting import Adjacency, EpsilonBound
from dp.cost.calibrate import remembered
from dp.cost.composition import composed_epsilon
from dp.cost.events.skellam import SkellamVectorDpEvent
from dp.cost.group import SkellamEvent, for_rows
from dp.cost.report import privacy_report
from dp.cost.views import ADJACENCY, RECORD, VIEWS, Protected, View
from dp.draw.skellam import MAX_MU, sample_skellam
from dp.mechanism.skellam_parameters import least_noisy, tail_bound
from entropy import Entropy


@dataclass(frozen=True)
class GramSensitivity:
    """How far one row moves the upper triangle of X^T X, in the sums that `SkellamDpEvent` needs, for mu = 1.

    Sk(mu) lies on the diagonal and Sk(mu / 2) off it. Write D for the difference of X^T X on two neighbouring tables, a
    symmetric integer matrix, d_ij (i <= j) for its upper triangle, mu_ii = mu and mu_ij = mu / 2. Counting an
    off-diagonal entry twice turns sums over the triangle into sums over the matrix:

        sum d_ij^2 / mu_ij    =  ||D||_F^2 / mu
        sum d_ij^2 / mu_ij^2  =  (2 ||D||_F^2 - sum_i D_ii^2) / mu^2
        sum |d_ij| / mu_ij    =  ||D||_1 / mu                              (||D||_1: the sum of all |D_ij|)
        sum |d_ij| / mu_ij^2  =  (2 ||D||_1 - sum_i |D_ii|) / mu^2

    With Sk(mu) everywhere the first sum would be as large at worst, and the off-diagonal noise have twice the variance.

    Rows are any integer vectors x with |x|^2 <= B, B an integer. Each term of D is of one row, however many rows there
    are. At most s = min(n, B) entries of x are not zero, as each such entry adds at least 1 to |x|^2. Hence
    ||x||_1^2 <= s |x|^2 and sum x_i^4 >= |x|^4 / s.

    Adding or removing x: D = x x^T up to sign, ||D||_F = |x|^2, ||D||_1 = ||x||_1^2, D_ii = x_i^2. The four sums are at
    most

        B^2,    (2 - 1/s) B^2,    s B,    (2 s - 1) B,

    all attained together by B = s, x of s ones.

    Replacing y by x: D = x x^T - y y^T, ||D||_F^2 = |x|^4 + |y|^4 - 2 <x,y>^2 <= 2 B^2 (orthogonal rows attain it), not
    the 4 B^2 of the triangle inequality. ||D||_1 is at most twice that of one row, and at most n ||D||_F. The four sums
    are at most

        2 B^2,    4 B^2,    z = min(2 s B, floor(sqrt(2 n^2 B^2))),    min(2 z, 2 (2 s - 1) B);

    the first two are attained by x = (1, 1), y = (1, -1), B = 2. With one column D = x^2 - y^2 lies in -B..B, and
    replacing costs what adding costs. Compare privacy-preserving PCA as printed [SPCA24, lemma 2]: twice the norm for a
    replaced row, and sqrt(n) where its release of n (n + 1) / 2 entries needs sqrt(n (n + 1) / 2) in the bound of the
    1-norm.

    A row moves at most s (s + 1) / 2 entries of the triangle, a replaced one twice as many, and no more than there are.

    Attributes:
        squares, squares_second, sizes, sizes_second: bounds of the four sums at mu = 1, as in `SkellamDpEvent`.
        n_moved: entries of the triangle that one row moves at most.
        adjacency: adjacency of the tables.
    """

    squares: Fraction
    squares_second: Fraction
    sizes: Fraction
    sizes_second: Fraction
    n_moved: int
    adjacency: Adjacency

    @classmethod
    def of(cls, n_columns: int, squared_norm_bound: int, adjacency: Adjacency) -> Self:
        """Return the bounds for rows of `n_columns` integers with squared norm at most `squared_norm_bound`."""
        n, bound = n_columns, squared_norm_bound
        support = min(n, bound)
        squares, sizes = Fraction(bound**2), Fraction(support * bound)
        squares_second, sizes_second = (2 - Fraction(1, support)) * bound**2, Fraction((2 * support - 1) * bound)
        n_moved = support * (support + 1) // 2
        if adjacency is Adjacency.REPLACE_ONE and n > 1:
            n_moved = min(2 * n_moved, n * (n + 1) // 2)
            squares, squares_second = 2 * squares, Fraction(4 * bound**2)
            sizes = min(2 * sizes, Fraction(math.isqrt(2 * (n * bound) ** 2)))
            sizes_second = min(2 * sizes, 2 * sizes_second)
        return cls(squares, squares_second, sizes, sizes_second, n_moved, adjacency)

    def event(self, mu: int) -> SkellamVectorDpEvent:
        """Return the cost of noise Sk(mu) on the diagonal and Sk(mu / 2) off it."""
        return SkellamVectorDpEvent(
            squares=self.squares / mu,
            squares_second=self.squares_second / mu**2,
            sizes=self.sizes / mu,
            sizes_second=self.sizes_second / mu**2,
            adjacency=self.adjacency,
            n_moved=self.n_moved,
            least_mu=Fraction(mu, 2),
        )


@dataclass(frozen=True)
class NoisyGram:
    """Releases the upper triangle of X^T X plus Skellam noise, X integer with rows of squared norm at most B.

    Each of N parties adds Sk(party_mu) to every diagonal entry and Sk(party_mu / 2) to every other one. Skellam
    variables add up to a Skellam variable, so the release has mu = N party_mu for whoever knows no part of the noise,
    the coordinator, and mu = (N - t) party_mu for t parties that subtract their own. The statement holds for any number
    of rows. Every party must add its part; if one is missing, nothing may be opened.

    Sensitivity to one row: `GramSensitivity`. To a person, of whose rows at most k are not zero: X^T X is a sum over
    rows, so `dp.cost.group` applies: ||D||_F <= k B for a person that is added or removed, <= sqrt(2) k B for one whose
    rows hold other contents. k equal rows attain what one of them attains, k times.
    Cost: `dp.cost.losses.rounded_gaussian`, and the Renyi bound of [Agarwal21], `SkellamDpEvent.curve`.

    Attributes:
        n_columns: n, columns of X.
        squared_norm_bound: B, checked on the integers by those that make the rows.
        n_parties: N, parties that add noise.
        colluding: t: parties that may collude with the coordinator.
        party_mu: even, so that party_mu / 2 is an integer; at most MAX_MU.
        protected: unit in whose contribution neighbouring tables differ.
    """

    n_columns: int
    squared_norm_bound: int
    n_parties: int
    colluding: int
    party_mu: int
    protected: Protected = RECORD

    def __post_init__(self) -> None:
        if self.n_columns < 1 or self.squared_norm_bound < 1:
            raise ValueError("a Gram matrix needs at least one column and a squared norm bound of at least 1")
        if not 0 <= self.colluding < self.n_parties:
            raise ValueError(
                f"{self.colluding} of {self.n_parties} parties must not collude: they would know all of the noise"
            )
        if self.party_mu % 2 or not 2 <= self.party_mu <= MAX_MU:
            raise ValueError(f"party_mu must be even and in 2..2^100, not {self.party_mu}")

    @classmethod
    @remembered
    def calibrate(
        cls,
        *,
        n_columns: int,
        squared_norm_bound: int,
        n_parties: int,
        colluding: int,
        epsilon: float,
        delta: float,
        view: View,
        protected: Protected = RECORD,
    ) -> Self:
        """Return the mechanism with the least noise whose epsilon at `delta` in `view` is at most `epsilon`.

        Raises:
            CalibrationError: epsilon or delta is out of range, or the noise would exceed the sampler's range.
        """
        return least_noisy(
            lambda party_mu: cls(n_columns, squared_norm_bound, n_parties, colluding, party_mu, protected),
            (view,),
            epsilon=epsilon,
            delta=delta,
        )

    @property
    def n_entries(self) -> int:
        """Entries of the upper triangle."""
        return self.n_columns * (self.n_columns + 1) // 2

    def unknown_mu(self, view: View) -> int:
        """Return the parameter, on the diagonal, of the noise that is unknown in a view."""
        return self.party_mu * (self.n_parties - (self.colluding if view == "coalition" else 0))

    def sensitivity(self, view: View) -> GramSensitivity:
        """Return the sensitivity to one row, for the neighbours of a view."""
        return GramSensitivity.of(self.n_columns, self.squared_norm_bound, ADJACENCY[view])

    def events(self, view: View) -> tuple[SkellamEvent]:
        """Return what the release costs in a view: one event, provided that all parties add their part."""
        return (for_rows(self.sensitivity(view).event(self.unknown_mu(view)), self.protected.most_rows),)

    def epsilon(self, view: View, delta: float) -> EpsilonBound:
        """Return the epsilon of the release in a view.

        Raises:
            CalibrationError: delta is out of range.
        """
        return composed_epsilon(self.events(view), delta)

    def draw(self, entropy: Entropy) -> NDArray[np.int64]:
        """Draw one party's noise.

        Distribution: exact Sk(party_mu) on the diagonal and Sk(party_mu / 2) off it, all independent.

        Returns:
            shape (n_entries,), row after row of the triangle. Secret: it never leaves the party but as shares.
        """
        on_diagonal = np.zeros(self.n_entries, dtype=bool)
        # Row i of the triangle starts with its diagonal entry and has n - i entries.
        on_diagonal[np.cumsum([0, *range(self.n_columns, 1, -1)])] = True
        values = np.empty(self.n_entries, dtype=np.int64)
        values[on_diagonal] = sample_skellam(entropy, self.party_mu, self.n_columns)
        values[~on_diagonal] = sample_skellam(entropy, self.party_mu // 2, self.n_entries - self.n_columns)
        return values

    def noise_tail_bound(self, log2_probability: float) -> int:
        """Return an integer that no entry of the opened noise exceeds, but with a stated probability: `tail_bound`."""
        return tail_bound(self.n_parties * self.party_mu, self.n_entries, log2_probability)

    def report(self, delta: float) -> dict[str, Any]:
        """Return the privacy cost of the release in each view, as plain JSON data. Public.

        Raises:
            CalibrationError: delta is out of range.
        """
        sensitivities, k = {view: self.sensitivity(view) for view in VIEWS}, self.protected.most_rows
        deviations = {view: math.sqrt(2 * self.unknown_mu(view)) for view in VIEWS}
        return privacy_report(
            mechanism=f"upper triangle of X^T X, {self.n_columns} columns with any constant one, plus Skellam noise",
            sensitivity=f"squared norm of an integer row at most {self.squared_norm_bound}{self.protected.times}",
            n_parties=self.n_parties,
            colluding=self.colluding,
            delta=delta,
            events={view: self.events(view) for view in VIEWS},
            noise={
                view: f"unknown noise of standard deviation {deviation:.4g} on the diagonal, "
                f"{deviation / math.sqrt(2):.4g} off it"
                for view, deviation in deviations.items()
            },
            parameters={
                "n_columns": self.n_columns,
                "squared_norm_bound": self.squared_norm_bound,
                "party_mu": self.party_mu,
                "l2_sensitivity": {view: k * math.sqrt(s.squares) for view, s in sensitivities.items()},
                "l1_sensitivity": {view: float(k * s.sizes) for view, s in sensitivities.items()},
                "unknown_mu": {view: self.unknown_mu(view) for view in VIEWS},
            },
            unit=self.protected.name,
        )
