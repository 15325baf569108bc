"""Estimates of pattern counts, by enumeration of all reports about one slot and on many."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from analyses.pattern_count import reports as pattern_reports
from analyses.pattern_count.reports import PatternReports, PatternTally
from dp.mechanism.bits import RandomizedBits
from entropy import InsecureTestEntropy

BITS = RandomizedBits(Fraction(1, 5))


def reported(reports, entropy, party, categories):
    return reports.packed(party, categories, reports.draw(entropy, party, len(categories)))


def estimate(reports, messages):
    tally = PatternTally(reports)
    for block in reports.blocks():
        tally.add(block, [message(block) for message in messages])
    return tally.estimate()


@pytest.mark.parametrize("categories", [(0, 1), (1, 2), (-1, -1), (0, -1)])
def test_the_counts_of_one_slot_and_their_variances_are_right_on_average_over_all_reports(categories):
    sizes = (2, 3)
    reports = PatternReports(sizes, 1, 1, BITS)
    truth = np.concatenate([np.arange(n) == c for n, c in zip(sizes, categories, strict=True)])
    counts, squares, variances = np.zeros(sizes), np.zeros(sizes), np.zeros(sizes)
    for bits in product((False, True), repeat=5):
        mass = math.prod(0.7 if same else 0.3 for same in np.array(bits) == truth)
        parts = np.split(np.array(bits), [2])
        found = estimate(reports, [lambda _, part=part: np.packbits(part) for part in parts])
        counts += mass * found.counts
        squares += mass * found.counts**2
        variances += mass * (found.standard_errors**2)
    exact = np.zeros(sizes)
    if min(categories) >= 0:
        exact[categories] = 1
    assert np.allclose(counts, exact)
    # A negative estimate of a variance becomes 0, so the mean may only be larger.
    assert np.all(variances >= squares - exact - 1e-9)


@pytest.mark.parametrize("sizes", [(3, 2), (2, 2, 3), (2, 1, 2, 3, 2, 2)])
def test_many_parties_categories_and_blocks_give_one_unbiased_table(sizes, monkeypatch):
    monkeypatch.setattr(pattern_reports, "_MAX_BLOCK_SLOTS", 400)
    monkeypatch.setattr(pattern_reports, "_CHUNK", 64)
    n = 3000
    reports = PatternReports(sizes, n, n, RandomizedBits(Fraction(9, 20)))
    rng, entropy = np.random.default_rng(5), InsecureTestEntropy("many")
    truth = [rng.integers(0, size, n) for size in sizes]

    def message(party):
        return lambda block: reported(reports, entropy, party, truth[party][block.start : block.stop])

    found = estimate(reports, list(map(message, range(len(sizes)))))
    exact = np.bincount(np.ravel_multi_index(truth, sizes), minlength=math.prod(sizes)).reshape(sizes)
    z = (found.counts - exact) / found.standard_errors
    assert np.abs(z).max() < 4.5
    assert 0.6 < np.sqrt(np.mean(z**2)) < 1.5
    assert np.array_equal(found.clipped, np.maximum(found.counts, 0))


@pytest.mark.parametrize("n_reported", [4000, 400])
def test_the_least_deviation_is_that_of_a_pattern_that_nobody_has(n_reported):
    reports = PatternReports((3, 2), 4000, n_reported, BITS)
    nobody = [
        lambda block, p=p: reported(reports, InsecureTestEntropy(f"{p}"), p, np.full(len(block), -1)) for p in (0, 1)
    ]
    found = estimate(reports, nobody)
    assert found.standard_errors == pytest.approx(reports.least_deviation, rel=0.15)
    assert np.std(found.counts) < 2.5 * reports.least_deviation


@pytest.mark.parametrize("n_reported", [40, 20])
def test_where_no_bit_happened_to_flip_errors_are_those_of_bits_that_might_have(n_reported):
    sizes, n_slots, n_rows = (2, 3), 40, 12
    reports = PatternReports(sizes, n_slots, n_reported, RandomizedBits(Fraction(499, 1000)))
    rows = np.where(np.arange(n_reported) < n_rows * n_reported // n_slots, 1, -1)
    found = estimate(reports, [lambda _, n=n: np.packbits(rows[:, None] == np.arange(n)) for n in sizes])
    variance = float(1 / (16 * reports.bits.bias**2)) - 0.25
    of_noise = {(1, 1): 2 * variance, (0, 1): variance, (1, 0): variance, (1, 2): variance}
    for pattern in product(*map(range, sizes)):
        least = n_rows * (of_noise.get(pattern, 0.0) + variance**2) + (n_slots - n_rows) * variance**2
        if n_reported < n_slots:  # and by sampling: a pattern of which the sample holds no row may have some
            least += 4.0
        assert found.standard_errors[pattern] ** 2 >= 0.9 * least
        assert abs(found.counts[pattern] - n_rows * (pattern == (1, 1))) < found.standard_errors[pattern]


def test_an_error_by_sampling_holds_a_pattern_that_the_sample_may_well_have_missed():
    reports = PatternReports((1, 1), 400, 40, RandomizedBits(Fraction(4999, 10_000)))
    found = estimate(reports, [lambda block: np.packbits(np.zeros(len(block), dtype=bool))] * 2)
    may_have = np.log(0.05) / np.log(0.9)  # rows, none of which is in one sample of 20
    assert 1.96 * found.standard_errors[0, 0] > may_have


def test_a_message_has_the_length_that_the_coordinator_expects():
    reports = PatternReports((3, 5), 1000, 77, BITS)
    (block,) = reports.blocks()
    for party in (0, 1):
        made = reported(reports, InsecureTestEntropy("x"), party, np.zeros(77, dtype=np.int64))
        assert made.shape == (reports.message_bytes(party, block),)


def test_wide_columns_come_in_smaller_blocks():
    reports = PatternReports((2, 4096), 10_000, 10_000, BITS)
    assert max(reports.message_bytes(1, block) for block in reports.blocks()) <= 1 << 20
    assert sum(map(len, reports.blocks())) == 10_000
