"""Amplification by sampling: the cost of a release in which each unit takes part only with a small probability."""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MAX_ORDER = 256
"""Highest Renyi order of a sampled release. Costs grow with its square; beyond, the divergence is not stated."""


def poisson_sampled_rdp(rdp: Floats, rate: float, *, is_reflected: bool) -> Floats:
    """Bound the divergence of a release about a table from which each unit is drawn independently with `rate`.

    Adjacency is add or remove one unit: its absence is P, its presence M = (1 - q) P + q Q, q the rate, where P and Q
    are releases about two samples that differ in the unit. At integer order a the binomial theorem gives

        (a - 1) D_a(M || P)  =  ln sum_l C(a, l) (1 - q)^(a - l) q^l E_P[(Q / P)^l],     E_P[(Q/P)^l] = e^((l-1) D_l).

    That is one direction. For the other, D_a(P || M), a mechanism of which nothing is known costs a factor 3 on the
    terms l >= 3 (Zhu and Wang [ZhuWang19], theorem 5). No factor is needed where some map v with v(v(x)) = x swaps P
    and Q, as x -> f(S) + f(S') - x does for a query f with symmetric noise (Mironov, Talwar and Zhang [MTZ19], theorem
    5, for densities). On a lattice:

        Put r = Q(x) / P(x) and m(r) = 1 - q + q r. At v(x) the ratio is 1 / r and P has the mass r P(x). A pair x, v(x)
        adds P(x) (h(m(r)) + r h(m(1/r))) to E[(M/P)^a] - E[(P/M)^(a-1)] under P resp. P, h(u) = u^a - u^(1-a). As
        (m(r) - 1) + r (m(1/r) - 1) = 0, this is P(x) (m(r) - 1) (k(m(r)) - k(m(1/r))) with k(u) = h(u) / (u - 1), say
        for r >= 1. k(1/u) = k(u); k rises for u > 1, as h is convex there with h(1) = 0; and m(r) >= 1 / m(1/r) >= 1
        by the inequality of arithmetic and harmonic means. So no pair adds less than 0.

    Which samples S the other units form is a mixture, and divergences are quasi-convex.

    Args:
        rdp: shape (MAX_ORDER + 1,), the divergence of the release without sampling at orders 0, 1, 2, ...; the
            first two are not used. Rounded up.
        rate: q, 0 .. 1, rounded up.
        is_reflected: the noise is symmetric about 0 and added to the query.

    Returns:
        shape (MAX_ORDER - 1,), at orders 2, 3, ...; rounded up.

    Raises:
        ValueError: the rate is no probability.
    """
    if not 0 <= rate <= 1:
        raise ValueError(f"a sampling rate must be in 0..1, not {rate}")
    if rate == 0:
        return np.zeros(MAX_ORDER - 1)
    from scipy.special import logsumexp  # slow to import, and many processes only add up costs

    log_binomial, term, order = _tables()
    log_rest = math.log1p(-rate) if rate < 1 else -math.inf
    costs = (term >= 2) & (term <= order)
    exponent = np.where(costs, (term - 1) * rdp[np.maximum(term, 2)], 0.0)
    # 0 * ln 0 is 0 where everybody takes part.
    rest = np.multiply(order - term, log_rest, out=np.zeros(term.shape), where=order > term)
    terms = log_binomial + rest + term * math.log(rate) + exponent
    if not is_reflected:
        terms = terms + np.where(term >= 3, math.log(3), 0.0)
    found = logsumexp(terms, axis=1)
    # The terms without the release's cost add up to 1, so the sum is at least 1. Each logarithm of a term has parts of
    # at most `parts` in size; gammaln and the others err by a relative 2^-48 at most.
    parts = 2000.0 + exponent.max(axis=1) - MAX_ORDER * math.log(rate)
    if rate < 1:
        parts = parts - MAX_ORDER * log_rest
    bounded: Floats = (np.maximum(found, 0.0) + parts * 2.0**-46) / (order[:, 0] - 1) * (1 + 2.0**-50)
    return bounded


@lru_cache(maxsize=1)
def _tables() -> tuple[Floats, NDArray[np.int64], NDArray[np.int64]]:
    """Return ln C(order, term), -inf for term > order; term; and order. Rows are orders from 2 on, columns terms."""
    from scipy.special import gammaln  # as above

    order, term = np.arange(2, MAX_ORDER + 1)[:, None], np.arange(MAX_ORDER + 1)[None, :]
    inside = term <= order
    rest = np.where(inside, order - term, 0)
    log_binomial = np.where(
        inside,
        gammaln(order + 1) - gammaln(term + 1) - gammaln(rest + 1),
        -np.inf,
    )
    return log_binomial, np.broadcast_to(term, log_binomial.shape), np.broadcast_to(order, log_binomial.shape)
