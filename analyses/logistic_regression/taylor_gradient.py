"""The gradient of the logistic loss as a polynomial over integers, and its sensitivity to one record."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from dp.cost.views import View
from dp.mechanism.vector import VectorSensitivity
from mpc.protocol.shared import SharedArray

Release = Literal["gradient", "three-sums"]

Integers = TypeVar("Integers", SharedArray, NDArray[np.object_])
"""Integers, shared or in the clear (as Python's, which do not overflow)."""

WRONG_SIGN_BEYOND = math.sqrt(12.0)
"""Largest weight norm for order 3: u/4 - u^3/48 is negative for larger u, so the gradient would have the wrong sign."""


@dataclass(frozen=True)
class TaylorGradient:
    """Sums over records of x (sigmoid(u) - y), u = <w, x>, the sigmoid replaced by its Taylor polynomial.

    sigmoid(u) = 1/2 + u/4 - u^3/48 + ... [SPCA24, eq. 22, where it ends after u/4]. With integers x_q of gamma units
    per 1, w_q of `weight_gamma` units, G = gamma * weight_gamma and v = <w_q, x_q>, an integer of G units, the residual
    sigmoid(u) - y is an integer too in suitable units:

        order 1:     4 G   * (1/2 - y + u/4)            =   2 G (1 - 2 y) + v
        order 3:     48 G^3 * (1/2 - y + u/4 - u^3/48)  =  24 G^3 (1 - 2 y) + 12 G^2 v - v^3

    `gradient` releases sum x_q * residual. `three-sums` releases what the paper does, sum x_q, sum x_q v and sum x_q y,
    brought to one unit by the factors G, 1, G, so that equal noise on all entries is the paper's choice
    mu(h) = gamma^2, gamma^6, gamma^4 times one multiplier. The coordinator needs only their combination, which one
    record moves by less than it moves the three.

    Sensitivity. Let B bound |x_q|^2 and W bound |w_q|^2 as integers, U = floor(sqrt(W B)) >= |v|, R the largest
    residual, and s = min(n, B) how many entries of x_q can differ from zero, so that |x_q|_1 <= sqrt(s B).

        adding or removing a record      |x_q r|_2^2 <= B R^2,    |x_q r|_1 <= floor(sqrt(s B)) R
          order 1                        R = 2 G + U
          order 3                        R = 24 G^3 + the largest |12 G^2 v - v^3| for 0 <= v <= U, which is reached at
                                         v = 2 G (16 G^3) or at U
          three sums                     the squares add up to B (G^2 + U^2 + G^2)

        replacing a record by another one, x_q by x'_q
          order 1     d = 2 G ((1 - 2 y) x_q - (1 - 2 y') x'_q) + (x_q x_q^T - x'_q x'_q^T) w_q. The first part has norm
                      4 G sqrt(B) at most. x_q x_q^T has eigenvalues 0 and |x_q|^2, so those of the difference lie
                      between -B and B: the second part has norm B |w_q| at most, not twice that
          order 3     |d| <= 2 sqrt(B) R
          three sums  4 G^2 B + B^2 W + 4 G^2 B, by the same arguments
          all         |d|_1 <= floor(sqrt(entries * |d|_2^2)), and at most twice the bound for one record

    Valid whatever the weights are, as long as |w_q|^2 <= W: parties refuse others.

    Attributes:
        n_columns: n, entries of x_q, the intercept included.
        gamma, weight_gamma: units per 1 of a record's entries and of the weights.
        squared_row_bound: B.
        squared_weight_bound: W.
        order: order of the Taylor polynomial.
        release: what is opened; `three-sums` exists for order 1.
    """

    n_columns: int
    gamma: int
    weight_gamma: int
    squared_row_bound: int
    squared_weight_bound: int
    order: Literal[1, 3]
    release: Release

    @property
    def units(self) -> int:
        """G, units per 1 of <w, x>."""
        return self.gamma * self.weight_gamma

    @property
    def n_sums(self) -> int:
        """Number of vectors of n entries that are opened in each step."""
        return 3 if self.release == "three-sums" else 1

    @property
    def opened_units(self) -> int:
        """Units per 1 of what is opened."""
        if self.release == "three-sums":
            return self.gamma * self.units
        return self.gamma * (4 * self.units if self.order == 1 else 48 * self.units**3)

    @property
    def largest_factor(self) -> int:
        """Bound of the size of all `factors`: R, or for the three sums the larger of G and U."""
        largest_product, g = math.isqrt(self.squared_weight_bound * self.squared_row_bound), self.units
        if self.release == "three-sums":
            return max(g, largest_product)
        if self.order == 1:
            return 2 * g + largest_product

        def cubic(v: int) -> int:
            return abs(12 * g**2 * v - v**3)

        return 24 * g**3 + max(cubic(min(largest_product, 2 * g)), cubic(largest_product))

    def factors(self, products: Integers, labels: Integers, cubes: Integers | None = None) -> list[Integers]:
        """Return what each record's x_q is multiplied by before it is added up, one array per sum.

        Args:
            products: v per record.
            labels: y per record, 0 or 1.
            cubes: v^3, for order 3.
        """
        g = self.units
        if self.release == "three-sums":
            return [labels * 0 + g, products, labels * g]
        if self.order == 1:
            return [products + labels * (-4 * g) + 2 * g]
        assert cubes is not None, "the third order needs cubes"
        return [products * (12 * g**2) - cubes + labels * (-48 * g**3) + 24 * g**3]

    def gradient_of(self, opened: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the sum of gradients, shape (n,), from the opened sums, shape (n, n_sums)."""
        sums = opened / self.opened_units
        if self.release == "three-sums":
            combined: NDArray[np.float64] = sums[:, 0] / 2 + sums[:, 1] / 4 - sums[:, 2]
            return combined
        return sums[:, 0]

    def sensitivities(self) -> Mapping[View, VectorSensitivity]:
        """Return how far one record moves what is opened, per view; see the class for the proof."""
        b, w, g, n = self.squared_row_bound, self.squared_weight_bound, self.units, self.n_columns
        largest_product = math.isqrt(w * b)
        row_l1 = math.isqrt(min(n, b) * b)
        if self.release == "three-sums":
            added_l2, added_l1 = b * (2 * g**2 + largest_product**2), row_l1 * (2 * g + largest_product)
            replaced_l2 = 8 * g**2 * b + b**2 * w
        else:
            residual = self.largest_factor
            added_l2, added_l1 = b * residual**2, row_l1 * residual
            replaced_l2 = 4 * added_l2
            if self.order == 1:
                replaced_l2 = min(replaced_l2, (_root_up(16 * g**2 * b) + _root_up(b**2 * w)) ** 2)
        replaced_l1 = min(2 * added_l1, math.isqrt(n * self.n_sums * replaced_l2))
        return {
            "coordinator": VectorSensitivity(added_l2, added_l1),
            "coalition": VectorSensitivity(replaced_l2, replaced_l1),
        }


def _root_up(x: int) -> int:
    """Return the square root, rounded up."""
    return 0 if x == 0 else math.isqrt(x - 1) + 1
