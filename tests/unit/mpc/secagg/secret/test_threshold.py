"""Shares of vectors that open without some of the parties: any that are enough give the vector, others say nothing."""

from itertools import combinations

import numpy as np
import pytest

from entropy import SystemEntropy
from mpc.errors import LocalFaultError
from mpc.prime.kernels import PRIME
from mpc.secagg.secret.party_shares import ShareSum, split
from mpc.secagg.secret.threshold import dealing_weights, opening_weight
from mpc.secagg.vector.group import RingGroup
from mpc.secagg.vector.prime_group import PrimeGroup

GROUP = PrimeGroup()
CASES = [(3, 1), (4, 1), (5, 1), (5, 2)]


@pytest.mark.parametrize(("n", "m"), CASES)
def test_any_parties_that_are_enough_open_the_sum(n, m):
    vectors = [np.array([5, -7, 0]), np.array([1, 1 << 40, -1])]
    dealt = [split(GROUP, GROUP.encode(vector), n, SystemEntropy(), m) for vector in vectors]
    assert [len(share) for share in dealt[0]] == [32] * (n - 1 - m) + [24] * (1 + m)
    for size in range(n - m, n + 1):
        for openers in combinations(range(n), size):
            total = GROUP.zeros(3)
            for place in openers:
                held = ShareSum(GROUP, 3, place, n, may_miss=m, weight=opening_weight(place, openers))
                for shares in dealt:
                    held.check(shares[place])
                    held.add([shares[place]])
                GROUP.accumulate(total, held.additive())
            assert GROUP.decode(total).tolist() == sum(vectors).tolist()


@pytest.mark.parametrize(("n", "m"), CASES)
def test_fewer_parties_hold_shares_that_are_uniform_whatever_the_vector_is(n, m):
    """What seeds add to the shares of n - 1 - m parties is a bijection of what the seeds stand for."""
    n_seeds = n - 1 - m
    of_seeds = [[int(row == column) for column in range(n_seeds)] for row in range(n_seeds)]
    rows = of_seeds + [dealing_weights(n_seeds, position)[1:] for position in range(n_seeds, n)]
    for held in combinations(rows, n_seeds):
        assert determinant(held) != 0


def determinant(rows):
    if len(rows) == 1:
        return rows[0][0] % PRIME
    minors = ([[*row[:column], *row[column + 1 :]] for row in rows[1:]] for column in range(len(rows)))
    return sum((-1) ** place * rows[0][place] * determinant(minor) for place, minor in enumerate(minors)) % PRIME


def test_one_share_is_never_the_vector():
    with pytest.raises(LocalFaultError, match="at least two parties"):
        split(GROUP, GROUP.encode(np.array([1])), 2, SystemEntropy(), 1)


def test_where_nobody_may_be_missing_shares_are_additive_in_any_group():
    ring = RingGroup(16)
    shares = split(ring, ring.encode(np.array([3, -4])), 3, SystemEntropy())
    total = ring.zeros(2)
    for place, share in enumerate(shares):
        held = ShareSum(ring, 2, place, 3)
        held.add([share])
        ring.accumulate(total, held.additive())
    assert ring.decode(total).tolist() == [3, -4]
