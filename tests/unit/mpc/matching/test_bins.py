"""Cuckoo bins: each row in a candidate of its own; placements fail with a probability below 2^-40."""

import itertools
import math
from functools import cache

import numpy as np
import pytest
from secret_matches import ids_of

from mpc.errors import LocalFaultError, PlacementFailedError
from mpc.matching.bins import Bins, n_parts_of, room_of

KEY = bytes(range(32))


@pytest.mark.parametrize("n", [0, 1, 2, 10, 300, 20_000])
def test_each_row_has_a_bin_of_its_own_among_its_candidates(n):
    bins = Bins(n, KEY)
    candidates = bins.candidates(ids_of(range(n)))
    bin_of = bins.place(candidates)
    assert candidates.shape == (n, 3)
    assert len(np.unique(bin_of)) == n
    assert (candidates == bin_of[:, None]).any(axis=1).all()


def test_each_id_has_one_candidate_in_each_third_and_another_key_gives_others():
    bins, others = Bins(1000, KEY), Bins(1000, KEY[::-1])
    candidates = bins.candidates(ids_of(range(1000)))
    assert np.array_equal(candidates // bins.n_of_third, np.tile([0, 1, 2], (1000, 1)))
    assert (candidates == others.candidates(ids_of(range(1000)))).mean() < 0.02
    counts = np.bincount(candidates.reshape(-1), minlength=bins.n_bins)
    assert counts.max() < 20


def test_an_id_has_its_candidates_in_one_part_and_parts_hold_what_they_have_room_for():
    bins = Bins(1000, KEY, n_parts=4)
    candidates = bins.candidates(ids_of(range(1000)))
    assert bins.n_bins == 4 * bins.n_of_part == 12 * bins.n_of_third
    assert np.array_equal(candidates // bins.n_of_third % 3, np.tile([0, 1, 2], (1000, 1)))
    part = candidates // bins.n_of_part
    assert (part == part[:, :1]).all()
    assert 200 < np.bincount(part[:, 0], minlength=4).min() <= np.bincount(part[:, 0]).max() < room_of(1000, 4) < 1000
    assert len(np.unique(bins.place(candidates))) == 1000


def test_candidates_do_not_depend_on_the_other_rows():
    bins = Bins(100, KEY)
    assert np.array_equal(bins.candidates(ids_of(range(100)))[40:50], bins.candidates(ids_of(range(40, 50))))


def test_rows_that_no_peeling_places_are_matched():
    bins = Bins(10, KEY)
    bin_of = bins.place(np.array([[0, 110, 220], [0, 110, 220], [0, 110, 220], [0, 110, 221]]))
    assert sorted(bin_of[:3]) == [0, 110, 220]
    assert bin_of[3] == 221


def test_four_rows_of_the_same_three_bins_are_refused():
    with pytest.raises(PlacementFailedError, match="submit it again"):
        Bins(10, KEY).place(np.array([[0, 110, 220]] * 4))


def test_more_rows_than_declared_are_refused():
    bins = Bins(10, KEY)
    with pytest.raises(LocalFaultError, match="more rows than the bins are for"):
        bins.place(bins.candidates(ids_of(range(11))))


RATES = np.geomspace(1e-6, 300, 4000)
MEANS = RATES * np.expm1(RATES) / (np.expm1(RATES) - RATES)
"""Means of Poisson numbers of these rates, given that they are at least 2."""


def log_ways(k: int, s: int, log_factorials: np.ndarray) -> np.ndarray:
    """For a = 1 .. (k + 1) / 2: bound on the log of the probability that k + 1 rows cover a bins of a third, each twice
    or more: C(s, a) (k + 1)! [x^(k + 1)] (e^x - 1 - x)^a / s^(k + 1), whose coefficient is at most
    (e^y - 1 - y)^a / y^(k + 1) for any y > 0, as all coefficients are positive.
    """
    a = np.arange(1, min((k + 1) // 2, s) + 1)
    y = np.interp((k + 1) / a, MEANS, RATES)
    choices = log_factorials[s] - log_factorials[a] - log_factorials[s - a]
    coefficient = a * np.log(np.expm1(y) - y) - (k + 1) * np.log(y)
    return choices + log_factorials[k + 1] + coefficient - (k + 1) * math.log(s)


EXACT = 30
"""Up to so many bins the terms are computed as they are."""


def log_sum_of_parts(k: int, s: int, log_factorials: np.ndarray) -> float:
    """Log of the sum of f(a) f(b) f(c) over a + b + c = k, exactly."""
    f = np.full(k + 1, -math.inf)
    for a in range(1, min((k + 1) // 2, s) + 1):
        choices = log_factorials[s] - log_factorials[a] - log_factorials[s - a]
        f[a] = choices + math.log(ways_of_twos(k + 1, a)) - (k + 1) * math.log(s)
    pairs = [np.logaddexp.reduce(f[: m + 1] + f[m::-1]) for m in range(k + 1)]
    return float(np.logaddexp.reduce(np.array(pairs) + f[::-1]))


@cache
def ways_of_twos(m: int, a: int) -> int:
    """W(m, a): the last row is alone with one other in its bin, or in a bin that has two without it."""
    if m < 2 * a or a == 0:
        return int(m == a == 0)
    return a * (ways_of_twos(m - 1, a) + (m - 1) * ways_of_twos(m - 2, a - 1))


def log_bound_on_sum(k: int, s: int, log_factorials: np.ndarray) -> float:
    """Bound on the same: at most k^2 / 2 times the largest term, which is at most (max f(a) e^(-l a))^3 e^(l k)."""
    ways = log_ways(k, s, log_factorials)
    middle = min(max(k // 3, 2), ways.size - 1)
    slope = ways[middle] - ways[middle - 1]
    return float(3 * (ways - slope * np.arange(1, ways.size + 1)).max() + slope * k + math.log(k * k / 2))


def log2_of_failure(n: int, s: int, n_sizes: int = 600) -> float:
    """The sum of the module's docstring; of large tables at some sizes k, each for all up to the next."""
    log_factorials = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, max(n, s) + 2)))])
    sizes = np.unique(np.concatenate([np.arange(3, min(n, 60)), np.geomspace(3, n - 1, n_sizes).astype(int)]))
    terms = []
    for k, following in zip(sizes, [*sizes[1:], sizes[-1] + 1], strict=True):
        summed = (log_sum_of_parts if k <= EXACT else log_bound_on_sum)(int(k), s, log_factorials)
        choices = log_factorials[n] - log_factorials[k + 1] - log_factorials[n - k - 1]
        terms.append(choices + summed + math.log(following - k))
    return float(np.logaddexp.reduce(terms) / math.log(2))


def test_ways_are_counted_right():
    def counted(m: int, a: int) -> int:
        return sum(all(row.count(b) > 1 for b in range(a)) for row in itertools.product(range(a), repeat=m))

    assert [[ways_of_twos(m, a) for a in (1, 2, 3)] for m in (2, 4, 6, 7)] == [
        [counted(m, a) for a in (1, 2, 3)] for m in (2, 4, 6, 7)
    ]
    log_factorials = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, 2000)))])
    for k in (12, 30):
        assert log_bound_on_sum(k, 500, log_factorials) >= log_sum_of_parts(k, 500, log_factorials)


@pytest.mark.parametrize("n", [4, 5, 10, 30, 100, 200, 300, 400, 500, 700, 1000, 3000, 30_000])
def test_a_placement_fails_with_a_probability_below_2_to_the_minus_40(n):
    assert log2_of_failure(n, Bins(n, KEY).n_of_third) < -40


@pytest.mark.parametrize("n", [70_000, 1_000_000, 1 << 24])
def test_of_all_parts_of_a_large_table_one_fails_with_a_probability_below_2_to_the_minus_40(n):
    n_parts = n_parts_of([n])
    room = room_of(n, n_parts)
    assert room <= 70_000
    assert log2_of_failure(room, Bins(n, KEY, n_parts).n_of_third, n_sizes=100) + math.log2(n_parts) < -40


def test_80_more_bins_would_be_too_few_for_small_tables():
    assert max(log2_of_failure(n, -(-13 * n // 30) + 27) for n in (100, 200)) > -40
