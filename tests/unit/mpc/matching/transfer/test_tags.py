"""Rows are found by their tags, also where tags agree in their first words."""

import numpy as np
import pytest

from mpc.matching.transfer.rows import is_zero, places_of

RNG = np.random.default_rng(5)


def tags(n):
    return RNG.integers(0, 256, (n, 16), dtype=np.uint8)


@pytest.mark.parametrize("common_bytes", [0, 8])
def test_rows_are_found_in_the_order_in_which_they_are_wanted(common_bytes):
    rows, strange = tags(50), tags(20)
    for some in (rows, strange):
        some[::3, :common_bytes] = 7
    order = RNG.permutation(70)
    wanted = np.concatenate([rows, strange])[order]
    assert places_of(wanted, rows).tolist() == [place for place in order.tolist() if place < 50]


def test_what_agrees_in_its_first_word_alone_is_not_found():
    rows = tags(3)
    wanted = rows.copy()
    wanted[:, 12] ^= 1
    assert not len(places_of(wanted, rows))
    assert not len(places_of(wanted, rows[:0]))
    assert not len(places_of(wanted[:0], rows))


def test_rows_are_everybodys_where_all_words_add_up_to_zero():
    first = RNG.integers(0, 1 << 64, (4, 2), dtype=np.uint64)
    second = first.copy()
    second[1, 0] ^= np.uint64(1)
    second[3, 1] ^= np.uint64(1 << 63)
    assert is_zero([first, second]).tolist() == [True, False, True, False]
    assert np.any(first)
