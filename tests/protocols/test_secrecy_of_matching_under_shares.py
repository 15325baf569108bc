"""What members see of a match under shares does not depend on which rows match.

Shares are uniform by themselves (`test_secrecy_of_products.py`). Here are the other messages: what the helper is asked,
and the stores that the leader reads.
"""

import hashlib
from collections import Counter

import numpy as np
import pytest
from secret_matches import ids_of, run_match
from uniformity import worst_of_places

from mpc.matching import field_strings, helped_prf, secret
from mpc.matching.bins import Bins, id_blocks
from mpc.matching.block_prf import block_of_numbers, mac
from mpc.matching.okvs import Okvs
from mpc.matching.padded_store import seeds_and_pads

N = 3000
WIDTH = 3


def tables_of(names: dict[int, range]) -> dict:
    return {owner: (list(rows), np.ones((len(rows), WIDTH), dtype=np.int64)) for owner, rows in names.items()}


@pytest.fixture(scope="module")
def half_matched():
    """Owner 1 leads; owner 2 has half of its rows, owner 3 all."""
    return run_match(tables_of({1: range(N), 2: range(N // 2, N + N // 2), 3: range(N)}), height=1 << 20)


def streams(found) -> Counter:
    return Counter((m.sender, m.receiver, m.stage, m.array.shape, m.array.dtype.str) for m in found.transcript)


@pytest.mark.parametrize(
    "names",
    [
        {1: range(40), 2: range(40), 3: range(40)},
        {1: range(40), 2: range(40, 80), 3: range(80, 120)},
        {1: range(1), 2: range(40), 3: range(5)},
        {1: range(0), 2: range(0), 3: range(0)},
    ],
    ids=["all match", "none match", "few rows", "no rows"],
)
def test_messages_have_the_same_sizes_whatever_the_tables_hold(names):
    declared = dict.fromkeys((1, 2, 3), 40)
    expected = streams(run_match(tables_of({1: range(30), 2: range(10, 33), 3: range(40)}), most_rows=declared))
    assert streams(run_match(tables_of(names), most_rows=declared)) == expected


def test_an_owner_does_the_same_work_whatever_its_table_holds(monkeypatch):
    """Otherwise who waits for a store learns how many rows its owner has, or how many pass a filter."""
    done = []

    def counted(owner, name):
        plain = getattr(owner, name)

        def count(self, rows, *rest):
            done.append((name, len(rows)))
            return plain(self, rows, *rest)

        monkeypatch.setattr(owner, name, count)

    counted(Okvs, "encode")
    counted(Bins, "candidates")
    counted(Bins, "place")
    for names in ({1: range(0), 2: range(1), 3: range(40)}, {1: range(40), 2: range(40), 3: range(40)}):
        run_match(tables_of(names), most_rows=dict.fromkeys((1, 2, 3), 40))
    assert len(done) % 2 == 0
    assert Counter(done[: len(done) // 2]) == Counter(done[len(done) // 2 :])


def blocks_for_the_helper_of(found, owner: int) -> np.ndarray:
    (sent,) = [m for m in found.transcript if m.stage == f"{helped_prf.STAGE} for {owner}" and m.sender == 1]
    return sent.array


def blinded(found, owner: int, ids: np.ndarray, bins: np.ndarray) -> np.ndarray:
    """What the leader sends for an id in a bin, by the owner's key."""
    key = helped_prf._leaders_key(found.ends[owner]._c.exchange.secrets, 1, owner)
    return mac(key, *id_blocks(ids), block_of_numbers(bins))


@pytest.mark.parametrize("owner", [2, 3])
def test_the_helper_sees_distinct_blocks_that_look_uniform_one_for_each_bin(half_matched, owner):
    blocks = blocks_for_the_helper_of(half_matched, owner)
    assert blocks.shape == (half_matched.ends[1].n_slots, 16)
    assert len(np.unique(blocks, axis=0)) == len(blocks)
    assert worst_of_places(blocks.view(np.uint64)) < 5


def test_the_helper_of_one_owner_sees_nothing_in_common_with_that_of_another(half_matched):
    both = np.concatenate([blocks_for_the_helper_of(half_matched, owner) for owner in (2, 3)])
    assert len(np.unique(both, axis=0)) == len(both)


@pytest.mark.parametrize("owner", [2, 3])
def test_the_leader_asks_for_each_id_in_one_of_its_three_bins_only(half_matched, owner):
    """With the function at all three, it could see that two of them decode to a tag that another id has as well."""
    leader = half_matched.ends[1]
    ids, candidates = ids_of(range(N)), leader._candidates
    sent = {row.tobytes(): number for number, row in enumerate(blocks_for_the_helper_of(half_matched, owner))}
    asked = np.zeros(candidates.shape, dtype=bool)
    for place in range(3):
        for number, row in enumerate(blinded(half_matched, owner, ids, candidates[:, place])):
            if row.tobytes() in sent:
                asked[number, place] = True
                assert sent[row.tobytes()] == candidates[number, place]
    assert (asked.sum(axis=1) == 1).all()


def read_by_the_leader(found, owner: int, n_words: int, number: int) -> np.ndarray:
    """What the leader decodes of one of an owner's stores in each bin, before it makes elements of it."""
    parts = [m.array for m in found.transcript if m.stage == "matching/store" and m.sender == owner]
    store = Okvs(3 * N, n_words)
    table = np.concatenate([part for part in parts if part.shape[1] == n_words])
    seeds, pads = seeds_and_pads(found.ends[1]._decoding[owner], f"moiety matching store {number}", n_words)
    return store.decode(seeds, table) ^ pads


@pytest.mark.parametrize(("n_words", "number"), [(3, 1), (2 * WIDTH, 2)], ids=["tags", "rows"])
def test_what_the_leader_reads_looks_uniform_for_ids_that_match_and_for_those_that_do_not(
    half_matched, n_words, number
):
    has_match = half_matched.matched == 1
    assert has_match.sum() == N // 2
    read = read_by_the_leader(half_matched, 2, n_words, number)
    of_all_ids = half_matched.ends[1]._bin_of
    without = np.setdiff1d(of_all_ids, np.flatnonzero(has_match))
    assert worst_of_places(read[has_match]) < 5
    assert worst_of_places(read[without]) < 5
    assert len(np.unique(read)) == read.size


def test_packed_words_in_the_stores_would_show_which_ids_match(monkeypatch):
    """The test above sees it: a packed word has no highest bit."""

    def packed(field, words, stream):
        both = np.stack([words, stream.words(words.size).reshape(words.shape)], axis=-1)
        return np.moveaxis(both, 0, 2).astype(np.uint64)

    monkeypatch.setattr(secret, "strings_of_elements", packed)
    found = run_match(tables_of({1: range(N), 2: range(N // 2, N + N // 2), 3: range(N)}), height=1 << 20)
    read = read_by_the_leader(found, 2, 2 * WIDTH, 2)
    assert worst_of_places(read[found.ends[1]._bin_of]) > 20


@pytest.mark.parametrize("owner", [2, 3])
def test_stores_look_uniform_though_all_rows_are_alike(half_matched, owner):
    for part in (m.array for m in half_matched.transcript if m.stage == "matching/store" and m.sender == owner):
        assert worst_of_places(part) < 5


def test_a_tag_is_read_where_an_id_matches_and_is_never_the_same_twice(half_matched):
    """A tag is shared by all ids of a bin: one more reading in it would tell that both are there."""
    tags = read_by_the_leader(half_matched, 2, 3, 1)
    as_elements = field_strings.elements_of_tags(half_matched.field, tags.reshape(-1, 3, 1))
    assert len({hashlib.sha256(row.tobytes()).digest() for row in as_elements[0]}) == len(tags)
