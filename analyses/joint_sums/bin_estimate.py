"""How many people are in unions and intersections of tables, from the numbers of bins that are empty: linear counting.

A person is in one of B bins, uniformly and independently of all others; with q = 1 - 1/B a bin holds none of the u
people of a union with the probability q^u. So with Z empty bins, u is about ln(Z / B) / ln q [WhangVT90]. Let S and T
be sets of owners, and m of the people be both in the union of S and in that of T. A bin is empty of both with the
probability q^u_ST, u_ST of S and T together; two bins, one of S and the other of T, with (1 - 2/B)^m q^(u_S + u_T - 2
m):

    Cov(Z_S, Z_T) = B q^u_ST + B^2 q^(u_S + u_T) ((1 - 1/B) (1 - 1/(B - 1)^2)^m - 1),

to which the noise of the cells that are added up for both is added. Unions have errors by the slope of the logarithm;
intersections are sums and differences of unions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LEAST_EMPTY = 1.0
"""Noise may leave fewer empty bins than none; so many are taken then, and the error says that nothing is known."""


@dataclass(frozen=True)
class People:
    """How many people one set of owners has.

    Attributes:
        owners: their places among all owners.
        union, union_error: how many people are at one of them at least, and the standard error.
        common, common_error: how many are at all of them.
    """

    owners: tuple[int, ...]
    union: float
    union_error: float
    common: float
    common_error: float

    def as_json(self, names: Sequence[str]) -> dict[str, Any]:
        """Return it as JSON data, with the names of the owners."""
        fields = ("union", "union_standard_error", "common", "common_standard_error")
        values = (self.union, self.union_error, self.common, self.common_error)
        return {"parties": [names[at] for at in self.owners], **dict(zip(fields, values, strict=True))}


def subsets(n_owners: int) -> list[tuple[int, ...]]:
    """Return all sets of owners but the empty one, small ones first."""
    return [found for size in range(1, n_owners + 1) for found in combinations(range(n_owners), size)]


def people(counts: Floats, n_bins: int, noise: float) -> list[People]:
    """Return what noisy counts say, for each of `subsets`.

    Args:
        counts: noisy numbers of bins, shape (2, ..., 2): at each owner 0 for an occupied bin, and 1 for an empty one.
        n_bins: B.
        noise: standard deviation of the noise of each count.
    """
    chosen = subsets(counts.ndim)
    cells = _cells(chosen, counts.ndim)
    empty = np.maximum(cells @ counts.ravel(), LEAST_EMPTY)
    unions = np.log(empty / n_bins) / np.log1p(-1 / n_bins)
    return estimated(unions, chosen, n_bins, noise)


def estimated(unions: Floats, chosen: Sequence[tuple[int, ...]], n_bins: int, noise: float) -> list[People]:
    """Return the people of unions of so many, with the errors that they have by hashing and noise.

    Args:
        unions: shape (sets,), of all `subsets`.
        chosen: these.
        n_bins: B.
        noise: standard deviation of the noise of each count.
    """
    covariances = _covariances(np.maximum(unions, 0.0), chosen, n_bins, noise)
    signed = np.array(
        [[(-1.0) ** (len(of) + 1) * (set(of) <= set(whole)) for of in chosen] for whole in chosen], dtype=np.float64
    )
    common = signed @ unions
    union_errors = np.sqrt(np.diag(covariances))
    common_errors = np.sqrt(np.einsum("ij,jk,ik->i", signed, covariances, signed))
    numbers = (unions, union_errors, common, common_errors)
    return [People(of, *(float(each[at]) for each in numbers)) for at, of in enumerate(chosen)]


def _cells(chosen: Sequence[tuple[int, ...]], n_owners: int) -> Floats:
    """Return which cells hold the bins that are empty at all owners of each set, shape (sets, cells)."""
    empty = np.indices((2,) * n_owners).reshape(n_owners, -1) == 1
    return np.array([empty[list(of)].all(axis=0) for of in chosen], dtype=np.float64)


def _covariances(unions: Floats, chosen: Sequence[tuple[int, ...]], n_bins: int, noise: float) -> Floats:
    """Return the covariances of the estimates of unions, shape (sets, sets)."""
    log_q, together = np.log1p(-1 / n_bins), dict(zip(chosen, unions, strict=True))
    both = np.array([[together[tuple(sorted({*a, *b}))] for b in chosen] for a in chosen])
    sums = unions[:, None] + unions[None, :]
    shared = np.maximum(sums - both, 0.0)
    apart = np.expm1(log_q + shared * np.log1p(-1 / (n_bins - 1) ** 2))
    of_hashing = n_bins * np.exp(both * log_q) + n_bins**2 * np.exp(sums * log_q) * apart
    cells = _cells(chosen, len(chosen).bit_length())
    slopes = 1 / (n_bins * np.exp(unions * log_q) * log_q)
    found: Floats = slopes[:, None] * (of_hashing + noise**2 * (cells @ cells.T)) * slopes[None, :]
    return found
