"""Defaults are no worse than what a hand would choose that knows what the columns mean."""

import statistics

import pytest

from bench.datasets.clustering_tables import letter
from bench.datasets.vertical_tables import HOUSING_LABEL, housing
from bench.utility.default_grams import of_least_squares, of_pca
from bench.utility.defaults import compare


@pytest.mark.slow
def test_the_best_of_a_grid_is_ahead_by_less_than_a_fiftieth():
    for study in (
        of_pca("letter", letter().split(3), 3, {}),
        of_least_squares("homes", housing(), HOUSING_LABEL, {}),
    ):
        found = compare(study, 1.0, 5)
        assert found["ahead"] < 0.02 + 2 * found["standard_error"], found
        assert found["refused"] == []


@pytest.mark.slow
def test_what_the_defaults_were_before_is_seen_to_be_worse():
    before = {"origin": "lower", "row_norm": 4.0}  # sqrt(16), the longest possible row from the lower bounds
    study = of_pca("letter", letter().split(3), 3, {})
    now, then = (statistics.median(study.scores(0.5, parameters, range(5))) for parameters in ({}, before))
    assert now > 1.04 * then
