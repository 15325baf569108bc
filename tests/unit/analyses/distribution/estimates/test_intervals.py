"""Intervals of masked sums hold the truth as often as they say, about each number by itself."""

import numpy as np
import pytest
from scipy.stats import beta, binom

from analyses.distribution.estimates.about_intervals import FEW_ROWS
from analyses.distribution.estimates.estimate import counted, statistics
from analyses.distribution.inquiry import DistributionParams, Inquiry
from analyses.sums.tree_counts import TreeCounts
from dp.draw.skellam import sample_skellam
from entropy import InsecureTestEntropy
from results.kinds.distribution import found_lines

D, MU = 32, 150
ASKED = Inquiry(DistributionParams(range=(0, 1), buckets=D, queries=((0.2, 0.43),), method="masked"))
SHAPES = {
    "smooth": np.diff(beta(5, 2).cdf(np.arange(D + 1) / D)),
    "spiked": np.where(np.arange(D) % 8 == 3, 0.25, 0.0),
    "at one end": np.append(0.9, np.full(D - 1, 0.1 / (D - 1))),
}


def results(shape, n_rows, runs):
    rng = np.random.default_rng(5)
    inputs = rng.choice(D, n_rows, p=SHAPES[shape] / SHAPES[shape].sum())
    counts = TreeCounts(D, n_rows)
    exact, truth = counts.counted(inputs), statistics(ASKED, np.bincount(inputs, minlength=D) / n_rows)
    found = []
    for run in range(runs):
        noise = sample_skellam(InsecureTestEntropy(f"{shape} {run}"), MU, counts.n_entries)
        found.append(counted(ASKED, counts, exact + noise, 2.0 * MU))
    return found, truth


def ends_of(result):
    known = result["intervals"]
    return np.array([known["mean"], *known["quantiles"], *known["queries"], *known["probabilities"]])


def stated_in(result):
    return [result["mean"], *(q[1] for q in result["quantiles"]), result["queries"][0][2], *result["probabilities"]]


def held(shape, runs):
    found, truth = results(shape, 4000, runs)
    ends = np.array([ends_of(one) for one in found])
    return (ends[..., 0] <= truth) & (truth <= ends[..., 1])


def test_intervals_hold_mean_quantiles_ranges_and_buckets_of_a_smooth_and_of_a_spiked_table():
    for shape in ("smooth", "spiked"):
        hits = held(shape, 40)
        assert hits[:, :7].mean() >= 0.9
        assert 0.92 <= hits[:, 7:].mean() <= 0.98
        assert (hits.mean(axis=0) >= 0.72).all(), (
            "no single bucket is left out: 40 runs of 95 % reach that but for 1e-6"
        )


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_each_interval_by_itself_holds_in_at_least_93_per_cent(shape):
    runs = 160
    least = binom.ppf(1e-5, runs, 0.95)
    assert (held(shape, runs).sum(axis=0) >= least).all()


def test_an_interval_holds_what_is_stated_and_narrows_with_the_rows():
    (few,), _ = results("smooth", 4000, 1)
    (many,), _ = results("smooth", 400_000, 1)
    for result in (few, many):
        ends, stated = ends_of(result), np.array(stated_in(result))
        assert (ends[:, 0] <= stated).all()
        assert (stated <= ends[:, 1]).all()
    assert np.diff(few["intervals"]["mean"]) > 50 * np.diff(many["intervals"]["mean"])


def test_where_rows_are_hardly_seen_no_interval_is_stated_and_the_text_says_why():
    (result,), _ = results("smooth", 30, 1)
    assert result["intervals"] is None
    assert result["about_intervals"] == FEW_ROWS
    assert f"  {FEW_ROWS}" in found_lines(result)
