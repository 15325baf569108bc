import math
from contextlib import suppress
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from job_builders import make_schema

from analyses.job.job import JobError
from analyses.job.schema import BlockSchema, ColumnSchema
from analyses.rows.quantise import BlockQuantiser, check_scale, shorten, squared_norm_bound
from analyses.rows.quantise_kernels import MAX_COLUMNS

WIDE = ((-8e307, 8e307),) * 3


def quantiser(n_columns=3, gamma=64, bound=64**2 // 3, row_norm=1.0):
    return BlockQuantiser(make_schema("bank", n_columns), gamma, row_norm, bound)


finite = st.floats(allow_nan=False, allow_infinity=False)
columns = st.tuples(finite, finite).map(sorted).filter(lambda b: b[0] < b[1] and math.isfinite(b[1] - b[0]))


@settings(deadline=None, max_examples=300)
@given(
    rows=st.lists(st.tuples(finite, finite, finite), min_size=1, max_size=20),
    bounds=st.tuples(columns, columns, columns),
    gamma=st.integers(2, 1 << 30),
    share=st.floats(0.01, 1.0),
    row_norm=st.one_of(st.floats(0.01, 100.0), st.floats(5e-324, 1e308)),
    origin=st.sampled_from(["lower", "middle"]),
)
@example(rows=[(1e308, -1e308, 0.0)], bounds=WIDE, gamma=1024, share=1.0, row_norm=1e-310, origin="lower")
@example(rows=[(1e308, -1e308, 0.0)], bounds=WIDE, gamma=1 << 30, share=1.0, row_norm=1e-150, origin="middle")
@example(rows=[(1e308, 1e308, 1e308)], bounds=WIDE, gamma=1 << 30, share=1.0, row_norm=2.0**-10, origin="lower")
def test_no_finite_row_whatever_its_values_exceeds_the_squared_norm_bound(rows, bounds, gamma, share, row_norm, origin):
    bound = max(1, int(gamma**2 * share))
    schema = BlockSchema(
        party="bank", columns=[ColumnSchema(name=f"x{i}", lower=low, upper=up) for i, (low, up) in enumerate(bounds)]
    )
    quantise = BlockQuantiser(schema, gamma, row_norm, bound, origin).quantise
    try:
        check_scale(gamma, row_norm)
    except JobError:  # no plan is made of it; and were there one, the rows would be bounded or refused
        with suppress(ValueError), np.errstate(all="ignore"):
            assert is_bounded(quantise(np.array(rows))[0], bound)
    else:
        assert is_bounded(quantise(np.array(rows))[0], bound)


def is_bounded(x, bound):
    return all(sum(int(v) ** 2 for v in row) <= bound for row in x)


@pytest.mark.parametrize("row_norm", [5e-324, 1e-310, 1e-200, 2.0**-31, 2.0**51, 1e308])
def test_a_row_norm_far_from_gamma_is_refused(row_norm):
    with pytest.raises(JobError, match=f"parameters.row_norm: .* is too {'small' if row_norm < 1 else 'large'}"):
        check_scale(1024, row_norm)


@pytest.mark.parametrize("row_norm", [2.0**-30, 1.0, 2.0**50])
def test_a_row_norm_within_forty_bits_of_gamma_is_not(row_norm):
    check_scale(1024, row_norm)


def test_values_are_rounded_to_the_nearest_unit():
    x, _, _ = quantiser(n_columns=1, gamma=10, bound=100).quantise(np.array([[2.96], [0.96]]))  # 0.99, 0.49 of [-1, 3]
    assert x.ravel().tolist() == [10, 5]


def test_a_row_whose_nearest_integers_are_above_the_bound_is_rounded_toward_zero():
    values = np.array([[2.96, 2.96], [2.96, 0.96]])
    x, _, too_long = quantiser(n_columns=2, gamma=10, bound=199).quantise(values)
    assert x.tolist() == [[9, 9], [10, 5]]
    assert too_long == 0


def hard_values(rng, n_rows, n_columns):
    """Values of columns within [-1, 3] and beyond: ordinary ones, ends, halves of units, infinities, both zeros."""
    values = rng.uniform(-2.0, 4.0, (n_rows, n_columns))
    special = rng.choice(
        [-1.0, 3.0, 1.0, -0.0, 0.0, math.inf, -math.inf, 1e300, 1 + 2.0**-6, np.nextafter(3.0, 4)], values.shape
    )
    return np.where(rng.random(values.shape) < 0.3, special, values)


@pytest.mark.parametrize("origin", ["lower", "middle"])
@pytest.mark.parametrize("n_columns", [1, 2, 5, 33, 100])
@pytest.mark.parametrize(("gamma", "share"), [(64, 0.34), (4096, 0.2), (4096, 1.0), (1 << 20, 0.3)])
def test_the_compiled_loop_gives_the_same_integers_and_counts_as_numpy(gamma, share, n_columns, origin):
    bound = int(gamma**2 * share)
    block = BlockQuantiser(make_schema("bank", n_columns), gamma, math.sqrt(n_columns), bound, origin)
    assert block._largest_plain_square() > 0
    values = hard_values(np.random.default_rng(n_columns), 500, n_columns)
    x, outside, n_too_long = block.quantise(values)
    expected, expected_outside, expected_too_long = block._quantise_by_numpy(values)
    assert x.tolist() == expected.tolist()
    assert outside.tolist() == expected_outside.tolist()
    assert n_too_long == expected_too_long
    assert is_bounded(x, bound)


def test_rows_at_their_bound_are_those_of_numpy():
    block = quantiser(n_columns=3, gamma=4096, bound=4096**2)
    values = np.eye(3)[np.arange(60) % 3] * 4 - 1  # one of three, as of categories: each row is as long as it may be
    x, _, n_too_long = block.quantise(values)
    assert x.tolist() == (np.eye(3, dtype=int)[np.arange(60) % 3] * 4096).tolist()
    assert n_too_long == 0


def test_scales_that_the_compiled_loop_is_not_made_for_are_quantised_too():
    for gamma, n_columns in ((1 << 30, 2), (64, MAX_COLUMNS + 1)):
        block = BlockQuantiser(make_schema("bank", n_columns), gamma, math.sqrt(n_columns), gamma**2)
        assert block._largest_plain_square() == 0
        values = np.full((2, n_columns), 1.0)
        assert block.quantise(values)[0][0, 0] == round(gamma / 2 / math.sqrt(n_columns))


def test_what_is_no_number_is_refused_and_becomes_no_integer():
    with pytest.raises(ValueError, match="the norm of rows cannot be bounded"):
        quantiser().quantise(np.array([[0.0, math.nan, 1.0], [0.0, 0.0, 0.0]]))


@pytest.mark.parametrize("gamma", [64, 1024])
def test_rounding_hardly_moves_the_mean_of_a_column(gamma):
    """Toward zero it moves by half a unit: see `docs/decisions/027-centred-components-and-stated-errors.md`."""
    values = np.random.default_rng(4).uniform(-1, 3, (20_000, 20))
    block = quantiser(n_columns=20, gamma=gamma, bound=gamma**2, row_norm=math.sqrt(20))
    scaled, _, _ = block.scale_and_clip(values)
    assert abs((block.quantise(values)[0] - scaled).mean()) < 0.02


def test_values_outside_the_bounds_are_clipped_and_counted_per_column():
    x, outside, _ = quantiser(n_columns=2, gamma=10, bound=200).quantise(np.array([[9.0, 0.0], [-7.0, 3.5]]))
    assert outside.tolist() == [2, 1]
    assert x.tolist() == [[10, 2], [0, 10]]


def test_a_row_longer_than_the_bound_is_shrunk_and_counted():
    x, _, too_long = quantiser(n_columns=2, gamma=1000, bound=1000**2 // 2).quantise(
        np.array([[3.0, 3.0], [-1.0, 0.0]])
    )
    assert too_long == 1
    assert x[0, 0] == x[0, 1]
    assert math.isclose(x[0, 0], 500, abs_tol=1)


@given(st.integers(2, 1 << 30), st.floats(0.01, 10), st.floats(0.01, 10))
def test_the_squared_norm_bound_is_the_exact_floor(gamma, norm_bound, row_norm):
    exact = (gamma * Fraction(norm_bound) / Fraction(row_norm)) ** 2
    assert 0 <= exact - squared_norm_bound(gamma, norm_bound, row_norm) < 1


@pytest.mark.parametrize("n_columns", [1, 4])
def test_quantised_rows_are_close_to_the_scaled_rows(n_columns):
    values = np.random.default_rng(1).uniform(-1, 3, (20, n_columns))
    q = quantiser(n_columns=n_columns, gamma=4096, bound=4096**2, row_norm=2.0)
    x, _, _ = q.quantise(values)
    scaled, _, _ = q.scale_and_clip(values)
    assert np.abs(x - scaled).max() <= 1.0


def test_a_row_that_is_as_long_as_it_may_be_does_not_count_as_too_long():
    bound = 1000  # of a row that may have a squared norm of 1000.5, exactly
    rows = np.sqrt([[bound + 0.5], [bound - 3.0], [bound + 2.0]])
    assert shorten(rows, bound) == 1
    assert (rows**2 <= bound * (1 + 2.0**-40)).all()
