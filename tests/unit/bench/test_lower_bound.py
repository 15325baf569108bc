"""What the page of pattern counts says of the lower bound is what jobs state and do."""

import re
from pathlib import Path

import pytest

from bench.scale.lower_bound import ROWS, measured_error, stated_error

PAGE = Path(__file__).parents[3] / "docs" / "analyses" / "pattern-count.md"
CELLS = re.compile(r"^\| ([\d,]+) \| ([\d,]+) \| ([\d.]+) \| [\d.]* ?\| ([\d,]+) \|$", re.MULTILINE)


def printed():
    found = [[float(cell.replace(",", "")) for cell in row] for row in CELLS.findall(PAGE.read_text(encoding="utf-8"))]
    return {int(row[0]): row[1:] for row in found}


def test_the_page_has_every_number_of_rows_and_its_square_root():
    assert tuple(printed()) == ROWS
    assert all(root == pytest.approx(rows**0.5, rel=0.02) for rows, (root, *_) in printed().items())


@pytest.mark.parametrize("rows", ROWS[:3])
def test_the_page_states_the_errors_that_plans_state(rows):
    _, by_mpc, by_response = printed()[rows]
    assert stated_error(rows, "mpc") == pytest.approx(by_mpc, rel=0.02)
    assert stated_error(rows, "randomized-response") == pytest.approx(by_response, rel=0.01)


def test_a_job_errs_as_it_states():
    """Eight counts: their root mean square lies within 0.4 to 2 of the deviation in all but one of 10^4 runs."""
    assert 0.4 < measured_error(1000) / stated_error(1000, "mpc") < 2
