"""Against the table that the published finder gives for its own parameters; against a coordinator that tries rings."""

import math
from fractions import Fraction

import pytest
from scipy.stats import hypergeom

from mpc.errors import LocalFaultError, TooFewPartiesError
from mpc.secagg.config import Topology
from mpc.secagg.graph_parameters import GraphParameters, find_graph_parameters, required_shares

RATES_ONE_ANSWER = ((5, 5), (10, 10), (10, 30), (33, 5), (33, 33))
RATES_MAJORITY = ((5, 5), (10, 10), (10, 30))
TABLE = {
    30: ("4,2 8,4 14,4 12,10 20,10", "4,3 10,7 22,13"),
    100: ("12,6 22,11 34,11 34,29 68,34", "16,11 32,22 72,42"),
    300: ("24,14 36,21 66,26 60,47 162,85", "38,27 66,46 186,109"),
    1000: ("30,17 48,27 88,36 78,60 286,150", "52,37 96,67 414,247"),
}


def row(n, rates, majority):
    found = [
        find_graph_parameters(
            n, n * a // 100, n * d // 100, agrees_by_majority=majority, chooses_dropouts=False, ring_bits=40
        )
        for a, d in rates
    ]
    return " ".join(f"{p.degree},{p.n_required}" for p in found)


@pytest.mark.parametrize("n", TABLE)
def test_the_published_parameters_come_out(n):
    assert (row(n, RATES_ONE_ANSWER, False), row(n, RATES_MAJORITY, True)) == TABLE[n]


def test_the_tails_are_those_of_the_hypergeometric_distribution():
    """A second opinion where double precision suffices: one share less would fall below the bound of security."""
    n, k, n_corrupt, n_dropouts = 300, 36, 30, 30
    published = {"agrees_by_majority": False, "chooses_dropouts": False, "ring_bits": 40}
    t = required_shares(n, k, n_corrupt, n_dropouts, **published)
    assert hypergeom.sf(t - 1, n, n_corrupt, k) <= 2**-41 / n < hypergeom.sf(t - 2, n, n_corrupt, k)
    assert hypergeom.cdf(t - 1, n, n - n_dropouts, k) < 2**-20 / n


def test_a_ring_that_bad_members_could_cut_is_not_safe():
    """With 20 of 40 bad, 10 neighbours: some two runs of five are all bad with a probability that is not negligible."""
    n, k, bad = 40, 10, 20
    cut = Fraction(n * (n - k - 1), 2) * Fraction(math.comb(n - k, bad - k), math.comb(n, bad))
    assert cut > Fraction(1, 2**41)
    published = {"agrees_by_majority": False, "chooses_dropouts": False, "ring_bits": 40}
    assert required_shares(n, k, 0, bad, **published) is None


def test_more_required_shares_than_members_that_stay_are_not_safe():
    assert find_graph_parameters(100, 50, 49) is None
    assert required_shares(1000, 120, 100, 400) is None


def test_majorities_exclude_two_answers():
    found = find_graph_parameters(1000, 100, 100)
    assert found == GraphParameters(124, 90)
    one_answer = required_shares(1000, 124, 100, 100, agrees_by_majority=False, chooses_dropouts=False)
    assert 2 * found.n_required > 124 + one_answer - 1


def bad_ring_bound(n, corrupt, found):
    """The probability that one random ring is bad, at most: by the union bound, from the definitions alone.

    Both kinds of shares of a member can be collected if its corrupt neighbours give both and its honest ones either:
    2 n_required <= k + corrupt neighbours. A part of the honest members opens by itself if the coordinator says of all
    between two parts that they have dropped out, and who stands beside them has enough corrupt neighbours there.
    """
    k, run = found.degree, found.degree // 2
    least = 2 * found.n_required - k
    ways = sum(math.comb(corrupt, c) * math.comb(n - corrupt, k - c) for c in range(least, min(k, corrupt) + 1))
    opened = Fraction(n * ways, math.comb(n, k))
    beyond, both_runs = found.n_required - run, 0
    for i in range(beyond, min(run, corrupt) + 1):
        first = math.comb(corrupt, i) * math.comb(n - corrupt, run - i)
        left, rest = corrupt - i, n - run
        second = sum(math.comb(left, j) * math.comb(rest - left, run - j) for j in range(beyond, min(run, left) + 1))
        both_runs += first * second
    ways = math.comb(n, run) * math.comb(n - run, run)
    return opened + Fraction(n * (n - k - 1) * both_runs, 2 * ways)


@pytest.mark.parametrize("n", [129, 300, 1000])
@pytest.mark.parametrize(("corrupt", "dropouts"), [(0, 0), (5, 5), (10, 10), (20, 10), (10, 30)])
def test_a_coordinator_that_tries_2_to_the_40_rings_finds_a_bad_one_with_probability_2_to_the_minus_40(
    n, corrupt, dropouts
):
    n_corrupt = n * corrupt // 100
    topology = Topology.ring(n, n_corrupt, n * dropouts // 100)
    assert 2**40 * bad_ring_bound(n, n_corrupt, topology) <= Fraction(1, 2**40)


def test_parameters_for_dropouts_at_random_are_too_few_where_the_coordinator_chooses_them():
    """What the published finder asks for at 2^-80 lets a part of the honest members open with 2^-76."""
    at_random = find_graph_parameters(1000, 100, 100, chooses_dropouts=False)
    assert at_random == GraphParameters(120, 87)
    assert Fraction(1, 2**77) < bad_ring_bound(1000, 100, at_random) < Fraction(1, 2**76)


def test_a_member_refuses_a_ring_that_is_safe_for_one_try_only():
    published = find_graph_parameters(1000, 100, 100, ring_bits=40)
    with pytest.raises(TooFewPartiesError, match="is not safe"):
        Topology(1000, published.degree, published.n_required, 900, 100)


@pytest.mark.parametrize("degree", [0, 3, 300])
def test_impossible_degrees_are_refused(degree):
    with pytest.raises(LocalFaultError):
        required_shares(300, degree, 10, 10)
