import pytest

from bench.utility.pattern_count import error_slope


@pytest.mark.slow
def test_the_error_of_randomized_response_grows_like_the_root_of_the_rows():
    slope, points = error_slope(repeats=8)
    assert slope == pytest.approx(0.5, abs=0.05)
    assert points[-1]["error"] > 8 * points[0]["error"]
