"""The oblivious key-value store: it decodes to what was encoded, fails never, and its table is uniform."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from uniformity import chi_squared_of_bytes

from entropy import InsecureTestEntropy
from mpc.errors import LocalFaultError, PlacementFailedError, ShapeError
from mpc.matching.okvs import Okvs
from mpc.matching.okvs_kernels import DENSE_ROWS

ENTROPY = InsecureTestEntropy("store")


def keys_and_values(n: int, n_words: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (n, 32), dtype=np.uint8), rng.integers(0, 1 << 64, (n, n_words), dtype=np.uint64)


@pytest.mark.parametrize("n_words", [1, 2, 20])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 10, 65, 1000, 20_000])
def test_a_table_decodes_to_what_was_encoded(n, n_words):
    seeds, values = keys_and_values(n, n_words)
    store = Okvs(n, n_words)
    table = store.encode(seeds, values, ENTROPY)
    assert table.shape == store.shape
    assert np.array_equal(store.decode(seeds, table), values)


@given(n=st.integers(0, 60), spare=st.integers(0, 40), n_words=st.integers(1, 4), seed=st.integers(0, 1 << 30))
def test_any_keys_decode_to_their_values(n, spare, n_words, seed):
    seeds, values = keys_and_values(n, n_words, seed)
    store = Okvs(n + spare, n_words)
    assert np.array_equal(store.decode(seeds, store.encode(seeds, values, ENTROPY)), values)


@pytest.mark.parametrize("n_same_slots", [2, 20, 60])
def test_keys_of_the_same_slots_are_told_apart_by_the_dense_rows(n_same_slots):
    seeds, values = keys_and_values(500, 3)
    seeds[:n_same_slots, :24] = seeds[0, :24]
    store = Okvs(500, 3)
    assert np.array_equal(store.decode(seeds, store.encode(seeds, values, ENTROPY)), values)


def test_more_keys_of_the_same_slots_than_dense_rows_are_refused():
    seeds, values = keys_and_values(500, 3)
    seeds[: DENSE_ROWS + 2, :24] = seeds[0, :24]
    with pytest.raises(PlacementFailedError, match="depend on each other"):
        Okvs(500, 3).encode(seeds, values, ENTROPY)


def test_a_key_that_is_there_twice_is_refused():
    seeds, values = keys_and_values(100, 2)
    seeds[70] = seeds[3]
    with pytest.raises(LocalFaultError, match="two keys of a store are equal"):
        Okvs(100, 2).encode(seeds, values, ENTROPY)


def test_more_keys_than_declared_are_refused():
    with pytest.raises(LocalFaultError, match="more keys than the store is for"):
        Okvs(4, 2).encode(*keys_and_values(5, 2), ENTROPY)


@pytest.mark.parametrize(
    ("seeds", "values"),
    [
        (np.zeros((5, 31), np.uint8), np.zeros((5, 2), np.uint64)),
        (np.zeros((5, 32), np.uint64), np.zeros((5, 2), np.uint64)),
        (np.zeros((5, 32), np.uint8), np.zeros((4, 2), np.uint64)),
        (np.zeros((5, 32), np.uint8), np.zeros((5, 2), np.int64)),
    ],
)
def test_arrays_of_other_shapes_are_refused(seeds, values):
    with pytest.raises(ShapeError):
        Okvs(5, 2).encode(seeds, values, ENTROPY)
    with pytest.raises(ShapeError):
        Okvs(5, 2).decode(keys_and_values(5, 2)[0], np.zeros((Okvs(5, 2).n_rows + 1, 2), np.uint64))


@pytest.mark.parametrize(("n_keys", "n_words"), [(-1, 1), (3, 0)])
def test_a_store_of_no_size_is_refused(n_keys, n_words):
    with pytest.raises(LocalFaultError):
        Okvs(n_keys, n_words)


@pytest.mark.parametrize("n", [0, 1, 300, 5000])
def test_the_table_of_uniform_values_is_uniform_however_many_keys_it_has(n):
    seeds, values = keys_and_values(n, 4)
    table = Okvs(5000, 4).encode(seeds, values, ENTROPY)
    assert abs(chi_squared_of_bytes(table)) < 5
    n_words_seen_twice = table.size - len(np.unique(table))
    assert n_words_seen_twice == 0


def test_the_table_of_equal_values_is_recognised_as_such():
    """The test above would notice a table that is not uniform."""
    seeds, values = keys_and_values(5000, 4)
    store = Okvs(5000, 4)
    decoded = store.decode(seeds, store.encode(seeds, np.zeros_like(values), ENTROPY))
    assert chi_squared_of_bytes(decoded) > 5


def test_the_free_rows_are_drawn_anew_each_time():
    seeds, values = keys_and_values(1000, 2)
    first, second = (Okvs(1000, 2).encode(seeds, values, ENTROPY) for _ in range(2))
    # Rows that the equations determine fully are few: keys with a slot in common with nobody move with the dense rows.
    assert (first == second).mean() < 0.01


def test_a_key_that_is_not_there_decodes_to_something_unrelated():
    seeds, values = keys_and_values(2000, 4)
    others, _ = keys_and_values(4000, 4, seed=1)
    store = Okvs(2000, 4)
    table = store.encode(seeds, values, ENTROPY)
    decoded = store.decode(others, table)
    assert abs(chi_squared_of_bytes(decoded)) < 5
    assert not np.isin(decoded, values).any()
    close = others[:2000].copy()
    close[:, :24] = seeds[:, :24]  # the same slots, other dense bits
    assert not np.isin(store.decode(close, table), values).any()


def log2_of_expected_dependent_sets(n: int) -> float:
    """An upper bound on the sum in the module's docstring: q_k <= k! cosh(y)^s / (s y)^k for every y > 0.

    The number of ways to put k keys into s slots, into each an even number, is k! times the k-th coefficient of
    cosh(y)^s, whose coefficients are not negative. The best y solves y tanh(y) = k / s.
    """
    s = Okvs(n, 1).n_slots_of_third
    k = np.arange(2, n + 1, 2, dtype=float)
    if not k.size:
        return -math.inf
    low, high = np.zeros_like(k), k / s + 1.1
    for _ in range(60):
        y = (low + high) / 2
        is_low = y * np.tanh(y) < k / s
        low, high = np.where(is_low, y, low), np.where(is_low, high, y)
    log_factorials = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])
    whole = k.astype(int)
    log_choices = log_factorials[n] - log_factorials[whole] - log_factorials[n - whole]
    log_cosh = y + np.log1p(np.exp(-2 * y)) - math.log(2)
    log_q = log_factorials[whole] - k * math.log(s) + s * log_cosh - k * np.log(y)
    terms = log_choices + 3 * log_q
    return float((terms.max() + np.log(np.exp(terms - terms.max()).sum())) / math.log(2))


@pytest.mark.parametrize("sizes", [range(2, 300), (1000, 10_000, 100_000, 1_000_000)])
def test_encoding_fails_with_a_probability_below_2_to_the_minus_60(sizes):
    assert max(log2_of_expected_dependent_sets(n) for n in sizes) - DENSE_ROWS < -60


def test_without_slots_to_spare_the_bound_would_be_too_large(monkeypatch):
    monkeypatch.setattr(Okvs, "n_slots_of_third", property(lambda store: max(1, store.n_keys // 3)))
    assert log2_of_expected_dependent_sets(3000) > 24
