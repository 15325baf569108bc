import galois
import numpy as np
import pytest
from sharings import random_words, share

from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.gram import GramAccumulator, expand_triangle, upper_triangle_indices
from mpc.arithmetic.opening import open_shares
from mpc.arithmetic.shamir import ShamirScheme
from mpc.errors import LocalFaultError, ShapeError


def squares(field, accumulator, n):
    return [expand_triangle(r, n) for r in field.residues(accumulator.upper_triangle())]


@pytest.mark.parametrize("field", [ResidueField(k) for k in (1, 2, 3, 4, 6)], ids=lambda f: str(len(f.primes)))
def test_the_gram_matrix_agrees_with_galois_for_every_number_of_primes(field):
    blocks = [random_words(field, (900, columns), f"dealer {columns}") for columns in (3, 0, 4, 1)]
    accumulator = GramAccumulator(field, 8)
    accumulator.add_rows(blocks)
    field.check(accumulator.upper_triangle())
    joint = [np.concatenate(parts, axis=1) for parts in zip(*map(field.residues, blocks), strict=True)]
    for p, x, square in zip(field.primes, joint, squares(field, accumulator, 8), strict=True):
        gf = galois.GF(p, compile="python-calculate")
        np.testing.assert_array_equal(square, np.asarray(gf(x).T @ gf(x)))


def test_entries_of_many_columns_come_row_by_row_and_go_back_into_a_symmetric_matrix():
    field, n = ResidueField(2), 150
    rows = np.random.default_rng(5).integers(-1000, 1000, (70, n))
    accumulator = GramAccumulator(field, n)
    accumulator.add_rows([field.encode(rows)])
    entries, exact = field.decode(accumulator.upper_triangle()), rows.T @ rows
    np.testing.assert_array_equal(entries, exact[upper_triangle_indices(n)])
    np.testing.assert_array_equal(expand_triangle(np.stack([entries, -entries]), n), np.stack([exact, -exact]))


def test_rows_may_come_in_blocks_of_any_length_and_results_may_be_taken_in_between():
    field = ResidueField(4)
    words = random_words(field, (20_000, 3), "rows")
    whole, parts = GramAccumulator(field, 3), GramAccumulator(field, 3)
    whole.add_rows([words])
    for start, stop in ((0, 1), (1, 385), (385, 385), (385, 8500), (8500, 20_000)):
        parts.add_rows([words[:, start:stop, :1], words[:, start:stop, 1:]])
        parts.upper_triangle()
    np.testing.assert_array_equal(whole.upper_triangle(), parts.upper_triangle())


def test_sums_stay_exact_when_every_residue_is_the_largest_balanced_one():
    field = ResidueField(3)
    n_rows = 3 * 8192 + 100
    extremes = field.pack([np.array([p // 2, p // 2 + 1]) for p in field.primes])
    accumulator = GramAccumulator(field, 2)
    for start in range(0, n_rows, 1000):
        rows = min(1000, n_rows - start)
        accumulator.add_rows([np.ascontiguousarray(np.broadcast_to(extremes[:, None], (1, rows, 2)))])
    for p, square in zip(field.primes, squares(field, accumulator, 2), strict=True):
        h = p // 2
        assert square.tolist() == [[n_rows * h * h % p, -n_rows * h * h % p], [-n_rows * h * h % p, n_rows * h * h % p]]


def test_local_gram_matrices_of_shares_open_to_the_gram_matrix_of_the_secrets():
    field, scheme = ResidueField(3), ShamirScheme(ResidueField(3), 3, 1)
    rng = np.random.default_rng(3)
    tables = [rng.integers(-(2**20), 2**20, (500, columns)) for columns in (2, 3)]
    dealt = [share(scheme, field.encode(t), f"table {i}", dealer=i + 1) for i, t in enumerate(tables)]
    grams = {}
    for party in scheme.parties:
        accumulator = GramAccumulator(field, 5)
        accumulator.add_rows([shares[party] for shares in dealt])
        grams[party] = accumulator.upper_triangle()
    opening = open_shares(grams, 2, field)
    joint = np.concatenate(tables, axis=1)
    np.testing.assert_array_equal(expand_triangle(field.decode(opening.words), 5), joint.T @ joint)


def test_rows_or_columns_that_do_not_fit_are_refused_and_nothing_is_added():
    field = ResidueField(4)
    accumulator = GramAccumulator(field, 3)
    good = random_words(field, (4, 2), "good")
    for blocks in (
        [],
        [good],
        [good, random_words(field, (5, 1), "more rows")],
        [good, good],
        [good, field.zeros(4)],
        [good[:1], field.zeros((4, 1))[:1]],
        [good.astype(np.int64), field.zeros((4, 1))],
    ):
        with pytest.raises(ShapeError):
            accumulator.add_rows(blocks)
    assert not accumulator.upper_triangle().any()
    with pytest.raises(LocalFaultError):
        GramAccumulator(field, 0)


def test_a_triangle_expands_to_the_symmetric_matrix_it_was_taken_from():
    square = np.arange(2 * 16).reshape(2, 4, 4)
    symmetric = square + square.transpose(0, 2, 1)
    rows, columns = upper_triangle_indices(4)
    assert list(zip(rows.tolist(), columns.tolist(), strict=True))[:5] == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 1)]
    np.testing.assert_array_equal(expand_triangle(symmetric[:, rows, columns], 4), symmetric)
    with pytest.raises(ShapeError):
        expand_triangle(np.zeros((2, 9)), 4)
