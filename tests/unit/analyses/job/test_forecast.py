"""The epsilon and the number of members that a wanted error takes: one search, of jobs and of questions."""

import math

import pytest

from analyses.job.forecast import Forecast, Quantity, Wanted, enough_for, least_enough
from analyses.job.job import JobError

LADDER = [float(f"{digits}e{tenfold}") for tenfold in range(-8, 12) for digits in range(10, 100)]


@pytest.mark.parametrize(
    ("start", "threshold", "least", "most"),
    [
        (1.0, 0.33, 0, math.inf),
        (1.0, 0.335, 0, math.inf),
        (1.0, 1234, 0, math.inf),
        (3.0, 15, 0, 16),
        (3.0, 16, 0, 16),
        (3.0, 17, 0, 16),
        (1.0, 1e-9, 2**-10, 16),
        (12.5, 12.5, 0, math.inf),
        (1.234, 1.234, 0, math.inf),
        (5000, 170_123, 1, 10_000_000),
        (5000, 3, 1, 10_000_000),
        (9.9, 10.0, 0, math.inf),
    ],
)
def test_the_least_number_of_two_digits_is_found_within_what_can_be_asked_for(start, threshold, least, most):
    tried = []

    def is_enough(number):
        tried.append(number)
        return None if not least <= number <= most else number >= threshold

    wanted = next((one for one in LADDER if one >= threshold and least <= one <= most), None)
    assert least_enough(start, is_enough) == wanted
    assert len(tried) < 40


def test_a_search_ends_where_everything_is_enough_or_nothing_is():
    assert least_enough(1.0, lambda number: True) < 1e-6
    assert least_enough(1.0, lambda number: False) is None


def of_share(epsilon, n=1000):
    return Forecast(
        (Quantity("share", "of rows", 1 / (epsilon * math.sqrt(n)), bad_case=2 / (epsilon * math.sqrt(n))),)
    )


def test_members_are_named_where_more_of_them_help_and_the_bad_case_decides():
    wanted = Wanted(0.1)
    found = enough_for(wanted, of_share(1), 1.0, of_share, 1000, lambda n: of_share(1, n))
    assert (found.epsilon, found.members) == (1.3, 1600)  # 1.96 * 2 / sqrt(1000) = .124
    (line,) = found.lines()
    assert line.startswith("share: 95 % within 0.1 in a bad case needs epsilon 1.3 or 1,600 members that answer; ")
    assert line.endswith("planned is 0.124 (of rows)")

    def count(n):
        return Forecast((Quantity("count", "persons", math.sqrt(n)),))

    found = enough_for(Wanted(10.0), count(1000), 1.0, lambda epsilon: count(1000 / epsilon**2), 1000, count)
    assert (found.epsilon, found.members, found.counts_members) == (6.2, None, False)


def test_what_no_epsilon_brings_about_is_said():
    def at(epsilon):
        if epsilon > 16:
            raise JobError("epsilon")
        return of_share(epsilon)

    found = enough_for(Wanted(1e-4), of_share(1), 1.0, at)
    assert found.epsilon is None
    assert "is not reached by any epsilon that can be asked for; planned" in found.lines()[0]


@pytest.mark.parametrize("half_width", [0.0, -1.0, math.nan, math.inf])
def test_an_error_that_cannot_be_wanted_is_refused(half_width):
    with pytest.raises(JobError, match="within"):
        Wanted(half_width)


def test_a_quantity_that_is_not_forecast_is_refused_with_those_that_are():
    with pytest.raises(JobError, match="of: the forecast has no mean; it has share"):
        Wanted(0.1, "mean").quantity_in(of_share(1))
    with pytest.raises(JobError, match="Errors depend on the rows"):
        Wanted(0.1).quantity_in(Forecast(not_forecast=("Errors depend on the rows.",)))
