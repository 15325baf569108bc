"""The page of coverages: written from what was measured, every row as it should be; and a measurement that runs."""

import json

import pytest

from bench.coverage import __main__ as program
from bench.coverage.ranges import Ranges
from bench.coverage.record import Coverage

WHOLE_NUMBERS = ("pattern counts: count", "joint-count: number of rows")
"""Noise of whole numbers: at a large epsilon the next larger interval holds more than 97 %."""


def kept():
    return json.loads(program.RESULTS.read_text())


def test_the_page_is_written_from_what_is_kept():
    assert set(kept()) <= set(program.PARTS)
    assert (program.DOCS / "coverage.md").read_text() == program.text_of_page()


def test_every_interval_that_a_result_states_holds_as_often_as_it_says():
    for name, found in kept().items():
        for one in (Coverage(**each) for each in found if name not in program.FORECASTS):
            assert one.is_as_stated or (one.what in WHOLE_NUMBERS and one.held > 0.95), one


@pytest.mark.parametrize("part", program.FORECASTS)
def test_the_error_is_in_the_forecast_range_in_95_per_cent_of_the_numbers(part):
    found = [Ranges(**one) for one in kept()[part]]
    assert sum(one.inside for one in found) >= 0.95 * sum(one.cells for one in found)


@pytest.mark.parametrize("held", [0.8, 1.0])
def test_an_interval_that_holds_too_seldom_or_too_often_is_told(held):
    assert not Coverage("it", "a table", 1.0, 1000, 1000, held, 1.0).is_as_stated
    assert Coverage("it", "a table", 1.0, 1000, 1000, 0.95, 1.0).is_as_stated
    assert Coverage("it", "a table", 1.0, 1000, 0, None, 0.0).is_as_stated


@pytest.mark.slow
def test_the_closed_mean_of_waves_holds_in_a_few_hundred_releases():
    for one in program.PARTS["closed_means"][0](200):
        assert one.is_as_stated, one


@pytest.mark.slow
@pytest.mark.parametrize("part", ["masked", "components", "lines"])
def test_intervals_measured_again_hold(part):
    for one in program.PARTS[part][0](20):
        assert one.is_as_stated, one
