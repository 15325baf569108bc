"""Rows are found by their tags, also where tags agree in their first words."""

import numpy as np
import pytest
from matchings import network_of, secrets_of
from virtual_time import run_in_virtual_time

from mpc.matching.parcels import OwnersOfMatch
from mpc.matching.transfer.rows import MATCHED, Matched, TagIndex, is_zero

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
    assert TagIndex(rows).places(wanted).tolist() == [place for place in order.tolist() if place < 50]


def test_what_agrees_in_its_first_word_alone_is_not_found():
    rows = tags(3)
    wanted = rows.copy()
    wanted[:, 12] ^= 1
    assert not len(TagIndex(rows).places(wanted))
    assert not len(TagIndex(rows[:0]).places(wanted))
    assert not len(TagIndex(rows).places(wanted[:0]))


def test_rows_are_everybodys_where_all_words_add_up_to_zero():
    first = RNG.integers(0, 1 << 64, (4, 2), dtype=np.uint64)
    second = first.copy()
    second[1, 0] ^= np.uint64(1)
    second[3, 1] ^= np.uint64(1 << 63)
    assert is_zero([first, second]).tolist() == [True, False, True, False]
    assert np.any(first)


def test_tags_of_what_matched_stand_anywhere_among_random_ones():
    places, tag = set(), tags(1)
    for seed in range(24):
        network = network_of(2, seed=f"{seed}")
        session = network.session(1)
        matched = Matched(OwnersOfMatch(session, (1, 2), {1: 4, 2: 4}, secrets_of(session, (1, 2))))
        matched.add(np.array([3]), [tag])
        assert run_in_virtual_time(matched.tell()).tolist() == [3]
        (message,) = [m.array[:-32] for m in network.transcript if m.stage == MATCHED]
        sent = message.reshape(4, 16)
        assert len(np.unique(sent, axis=0)) == 4
        places |= set(np.flatnonzero((sent == tag).all(axis=1)).tolist())
    assert places == {0, 1, 2, 3}
