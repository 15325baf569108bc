"""The numbers of the proof of norms: completeness, soundness of a projection, the order of the field."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from entropy import KeyStream
from mpc.arithmetic.balanced import balanced, packed, reduce_in_place
from mpc.arithmetic.field import ResidueField
from mpc.proofs.norm_bound import LEAST_MASK, N_PROJECTIONS, EntryBounds, NormBound, primes_needed
from mpc.proofs.projections import RowFactors, column_factors, projected

TERNARY = (-1, 0, 0, 1)


def stream(text):
    return KeyStream(text.encode().ljust(32, b"\0"))


def test_an_entry_beyond_three_times_the_bound_passes_one_projection_with_three_quarters_at_most():
    """All 16 coefficients of row and column, all values of what else is there, in a field of 61."""
    order, largest = 61, 3
    distance = np.minimum(np.arange(order), order - np.arange(order))
    most = 0.0
    for y in range(3 * largest + 1, order // 2 + 1):
        for r, v in itertools.product(range(order), range(order)):
            passed = sum(distance[(v + a * (r + b * y)) % order] <= largest for a in TERNARY for b in TERNARY)
            most = max(most, passed / 16)
    assert most == 0.75
    assert 0.75**N_PROJECTIONS < 2**-41


@pytest.mark.parametrize(("entry", "other", "worst"), [(30, 0, True), (21, 20, False), (10, 4, False)])
def test_an_entry_beyond_the_bound_passes_as_often_as_the_count_says(entry, other, worst):
    """20,000 projections by the library of a row of two entries, in a field of 61 with the bound 3."""
    field, largest, n_coins = ResidueField.over([61]), 3, 200
    bound = NormBound(1, 1, 1, is_one_hot=True)
    words, passed = field.encode(np.array([[entry, other]])), 0
    for number in range(n_coins):
        coin = stream(f"tiny {number}")
        found = field.decode(projected(field, coin, [words], [column_factors(coin, bound)]))
        passed += int((np.abs(found) <= largest).sum())
    distance, n = np.minimum(np.arange(61), 61 - np.arange(61)), n_coins * N_PROJECTIONS
    counted = np.mean(
        [distance[a * (b * entry + c * other) % 61] <= largest for a, b, c in itertools.product(TERNARY, repeat=3)]
    )
    assert (counted == 0.75) == worst
    assert counted <= 0.75
    assert abs(passed / n - counted) < 5 * math.sqrt(counted * (1 - counted) / n)


def test_with_a_smaller_factor_it_would_pass_more_often():
    order, largest = 61, 3
    distance = np.minimum(np.arange(order), order - np.arange(order))
    y = 2 * largest
    most = max(
        sum(distance[(v + a * (r + b * y)) % order] <= largest for a in TERNARY for b in TERNARY)
        for r, v in itertools.product(range(order), range(order))
    )
    assert most > 12


@pytest.mark.parametrize(
    "bound",
    [
        NormBound(34, 1 << 27, 10_000),
        NormBound(1, 1, 10),
        NormBound(9, 1, 500, is_one_hot=True),
        NormBound(2, 1, 10, bit=1),
    ],
)
def test_the_squares_of_a_row_within_three_times_the_bound_do_not_wrap(bound):
    """Nor does a bit less its square."""
    n_primes = primes_needed(bound.order_needed)
    order, entry = ResidueField(n_primes).order, 3 * bound.largest_projection
    assert bound.whole_width * entry**2 < order
    assert entry**2 + entry < order
    assert n_primes == 1 or ResidueField(n_primes - 1).order <= bound.order_needed


@pytest.mark.parametrize("reach", [0, 1, 2, 7, 30])
def test_the_integers_that_four_squares_complete_are_those_of_the_range(reach):
    """All entries from -100 to 100: what is left for squares is 0 or more where the entry is from 0 to r."""
    bound = EntryBounds.of([reach], 10)
    complete = bound.completion(np.arange(-100, 101)[:, None])
    found = ((2 * np.arange(-100, 101) - reach) ** 2 + (complete**2).sum(axis=1)) == bound.squared_norms[0]
    assert np.flatnonzero(found).tolist() == [100 + y for y in range(reach + 1)]
    rows = np.hstack([np.arange(reach + 1)[:, None], complete[found]])
    assert (rows**2).sum(axis=1).max() <= bound.squared_norm


def test_the_squares_of_an_entry_within_three_times_the_bound_do_not_wrap():
    bound = EntryBounds.of([50_000, 1, 300], 10_000)
    most = 3 * bound.largest_projection
    assert (2 * most + 50_000) ** 2 + 4 * most**2 <= bound.order_needed
    assert EntryBounds.of([50_000, 1, 300], 1 << 40).order_needed > bound.order_needed


def test_what_is_squared_of_entries_is_twice_their_place_less_the_range():
    bound, field = EntryBounds.of([5, 2], 10), ResidueField(2)
    rows = np.array([[5, 0, 1, 2, 3, 4, 5, 6, 7, 8], [2, 2, 0, 0, 0, 0, 9, 9, 9, 9]])
    found = field.decode(bound.squared(field, field.encode(rows)))
    assert found.tolist() == [[5, 1, 2, 3, 4, -2, 5, 6, 7, 8], [-1, 0, 0, 0, 0, 2, 9, 9, 9, 9]]


def test_no_field_holds_rows_that_are_too_long():
    assert primes_needed(NormBound(34, 1 << 60, 1 << 60).order_needed) is None


def test_honest_projections_stay_far_within_the_bound_also_where_all_rows_are_alike():
    bound = NormBound(3, 1 << 20, 2000)
    field = ResidueField(4)
    row = np.array([1 << 10, 0, 0, 0, 0, 0, 0])
    for rows in (np.tile(row, (2000, 1)), np.where(np.arange(2000)[:, None] % 2, row, -row[::-1])):
        coin = stream("honest")
        factors = [column_factors(coin, bound)]
        found = field.decode(projected(field, coin, [field.encode(rows)], factors))[0]
        deviation = math.sqrt(18 * 2000 * (1 << 20))
        assert np.abs(found).max() < 3 * deviation
        assert bound.largest_projection > 8 * math.sqrt(bound.mask_variance + deviation**2)


@pytest.mark.parametrize("n_primes", [1, 3, 4])
def test_projections_are_those_of_the_rows(n_primes):
    field, rng = ResidueField(n_primes), np.random.default_rng(n_primes)
    rows = [rng.integers(-50, 50, (1100, width)) for width in (2, 5)]
    bounds = [NormBound(width, 1, 1100, is_one_hot=True) for width in (1, 4)]
    coin = stream("projections")
    factors = [column_factors(coin, bound) for bound in bounds]
    found = field.decode(projected(field, coin, [field.encode(part) for part in rows], factors))
    again = stream("projections")
    for bound in bounds:
        column_factors(again, bound)
    rho = []
    for start in range(0, 1100, 512):
        n_panel = min(512, 1100 - start)
        n_bits = 2 * N_PROJECTIONS * n_panel
        bits = np.unpackbits(again.words(-(-n_bits // 64)).view(np.uint8), count=n_bits).reshape(2, N_PROJECTIONS, -1)
        rho.append(bits[0].astype(int) - bits[1])
    for part, sigma, values in zip(rows, factors, found, strict=True):
        assert np.array_equal(((np.hstack(rho) @ part) * sigma).sum(axis=1), values)


@pytest.mark.parametrize("n_primes", [1, 3, 4])
def test_combinations_of_rows_are_what_random_vectors_make_of_the_rows(n_primes):
    """a' R = (rho a)' Y for each table, and not where R differs in one entry modulo one prime."""
    field, draw, coin = ResidueField(n_primes), stream(f"tables {n_primes}"), stream("rho")
    tables = [field.random(draw, (1100, width)) for width in (2, 5)]
    rho = RowFactors(coin, 1100)
    a = balanced(field, field.random(draw, (3, N_PROJECTIONS)))
    for words, found in zip(tables, rho.weighted(field, a, tables), strict=True):
        combined = rho.combined(field, words)
        if n_primes == 1:  # what dealers do, who know integers
            for kind in (np.int64, object):
                integers = rho.combined_integers(field.decode(words).astype(kind))
                assert np.array_equal(integers % field.order, combined[0] % field.order)
        for change in (0, 1):
            combined[-1, 7, 1] += change
            difference = reduce_in_place(field, a @ combined - found)
            assert packed(field, difference).any(axis=(0, 1)).tolist() == [
                change and c == 1 for c in range(len(combined[0, 0]))
            ]


def test_coefficients_are_ternary_and_of_bounded_norm():
    bound = NormBound(34, 1, 10)
    found = column_factors(stream("factors"), bound)
    values, counts = np.unique(found, return_counts=True)
    assert values.tolist() == [-1, 0, 1]
    assert abs(counts[1] / found.size - 0.5) < 0.05
    assert np.linalg.norm(found, 2) ** 2 <= bound.squared_operator_bound


@pytest.mark.parametrize("width", [1, 34, 400])
def test_the_bound_of_the_norm_is_seldom_or_never_exceeded(width):
    bound = NormBound(width, 1, 10)
    rng = np.random.default_rng(width)
    norms = [np.linalg.norm(rng.choice(TERNARY, (N_PROJECTIONS, bound.whole_width)), 2) ** 2 for _ in range(100)]
    assert max(norms) < 0.9 * bound.squared_operator_bound


def test_larger_masks_need_a_larger_field():
    bound = NormBound(34, 1 << 27, 10_000)
    assert replace(bound, mask=2 * LEAST_MASK).order_needed > 3 * bound.order_needed


def test_a_bit_makes_a_row_longer_by_one():
    without, beside = NormBound(3, 50, 10), NormBound(3, 50, 10, bit=1)
    assert (without.largest_squared_norm, beside.largest_squared_norm) == (50, 51)
    assert beside.mask_variance == LEAST_MASK**2 * 51
    assert beside.largest_projection == NormBound(3, 51, 10).largest_projection
