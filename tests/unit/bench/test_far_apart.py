from pathlib import Path

import pytest

from bench.protocols.far_apart import CASES, predicted_s, stated, stated_table, traffic

CASE = {case.name: case for case in CASES}


def test_the_clock_counts_the_flights_that_a_second_count_finds():
    """`tests/protocols/test_flights.py` counts them with another clock, and without the gate, which is one more."""
    assert traffic(CASE["principal components"], 200).flights == 6 + 1


def test_every_step_of_gradient_descent_takes_two_flights():
    case = CASE["logistic regression, gradient"]
    few, many = (traffic(case, 200, iterations=n) for n in (2, 4))
    assert many.flights - few.flights == 2 * 2


def test_bytes_grow_with_rows_and_flights_do_not():
    few, many, most = (traffic(CASE["principal components"], n) for n in (200, 400, 600))
    assert few.flights == many.flights == most.flights
    assert most.party_bytes - many.party_bytes == many.party_bytes - few.party_bytes > 0


def test_messages_of_masked_sums_arrive_in_order_and_are_counted():
    assert traffic(CASE["sum"], 200).flights == 11


def test_a_prediction_is_flights_and_bytes_and_work():
    assert predicted_s(10, 12.5e6, 0.25, round_trip_ms=100, mbit=100) == pytest.approx(0.5 + 1.0 + 0.25)


def test_the_page_about_distance_has_what_plans_state():
    page = Path(__file__).parents[3] / "docs/how-to/plan-for-distance.md"
    assert stated_table() in page.read_text()
    assert "\n".join(["network", *("  " + line for line in stated(CASES[0]).lines())]) in page.read_text()
