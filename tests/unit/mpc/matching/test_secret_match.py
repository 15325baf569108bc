"""Matching under shares against a plain join, for tables of all sizes and overlaps; what is refused."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from secret_matches import ids_of, plain_join, run_match

from mpc.errors import LocalFaultError, PlacementFailedError, ShapeError
from mpc.matching import bins, padded_store, secret, zero_test
from mpc.matching.bins import Bins
from mpc.matching.okvs import Okvs
from mpc.matching.secret import SecretMatch
from mpc.matching.secret_terms import SecretTerms
from mpc.traffic import matching as traffic
from mpc.traffic.shares import ShareTraffic
from mpc.traffic.walk import Traffic


def tables_of(names: dict[int, list[int]], width: int = 2, seed: int = 0) -> dict:
    rng = np.random.default_rng(seed)
    return {owner: (rows, rng.integers(1, 1000, (len(rows), width))) for owner, rows in names.items()}


def matched_rows(found) -> list[tuple[int, ...]]:
    """The rows of slots whose bit is 1; all others are zero, and bits are 0 or 1."""
    assert set(found.matched.tolist()) <= {0, 1}
    assert not found.rows[found.matched == 0].any()
    return sorted(tuple(row) for row in found.rows[found.matched == 1].tolist())


@pytest.mark.parametrize(
    ("names", "n_parties"),
    [
        ({1: [3, 1, 4], 2: [4, 9, 3]}, 3),
        ({1: [3, 1, 4], 3: [4, 9, 3]}, 3),
        ({2: [3, 1, 4, 5], 3: [4, 9, 3]}, 4),
        ({1: [1, 2, 3, 4, 5], 2: [5, 4, 3, 9], 3: [8, 5, 4, 2, 1, 0]}, 3),
        ({1: [1, 2, 3, 4, 5], 2: [5, 4, 3, 9], 3: [8, 5, 4, 2, 1, 0]}, 4),
        ({1: [1, 2, 3], 2: [2, 3, 1], 3: [3, 1, 2], 4: [9, 3, 2, 8]}, 4),
        ({1: [1, 2], 2: [3, 4], 3: [5, 6]}, 3),
        ({1: [], 2: [3, 4], 3: [3, 4]}, 3),
        ({1: [3, 4], 2: [], 3: []}, 3),
    ],
)
@pytest.mark.parametrize("n_primes", [1, 3, 4])
def test_a_match_is_the_plain_join(names, n_parties, n_primes):
    tables = tables_of(names)
    found = run_match(tables, n_parties=n_parties, n_primes=n_primes, height=100)
    assert matched_rows(found) == plain_join(tables)


@settings(max_examples=10)
@given(data=st.data())
def test_any_tables_are_joined(data):
    owners = data.draw(st.sampled_from([(1, 2), (2, 3), (1, 2, 3)]))
    rows = {o: data.draw(st.lists(st.integers(0, 30), unique=True, max_size=20)) for o in owners}
    tables = tables_of(rows, width=1)
    declared = {o: data.draw(st.integers(max(1, len(rows[o])), 30)) for o in owners}
    assert matched_rows(run_match(tables, most_rows=declared, height=1000)) == plain_join(tables)


def test_tables_of_many_rows_in_other_orders():
    rng = np.random.default_rng(1)
    tables = tables_of({o: rng.permutation(4000)[:2500].tolist() for o in (1, 2, 3)}, width=3)
    found = run_match(tables, height=1024)
    assert len(plain_join(tables)) > 500
    assert matched_rows(found) == plain_join(tables)


def test_negative_values_and_columns_of_zeros_arrive_as_they_are():
    rows = np.array([[-5, 0], [7, 0], [1 << 40, 0]])
    tables = {1: ([1, 2, 3], rows), 2: ([3, 2, 1], rows[:, :1]), 3: ([2, 1, 3], rows[::-1])}
    assert matched_rows(run_match(tables, n_primes=3)) == plain_join(tables)


def test_columns_go_through_several_stores_and_bits_are_tested_in_pieces(monkeypatch):
    monkeypatch.setattr(secret, "STORE_BYTES", 2000)
    monkeypatch.setattr(padded_store, "MESSAGE_WORDS", 50)
    monkeypatch.setattr(secret, "SEGMENT", 333)
    monkeypatch.setattr(zero_test, "BITS_AT_ONCE", 100)
    tables = tables_of({1: list(range(20)), 2: list(range(10, 25)), 3: list(range(12, 40))}, width=5)
    found = run_match(tables)
    assert matched_rows(found) == plain_join(tables)
    n_stores = {m.sequence for m in found.transcript if m.stage == "matching/store"}
    assert len(n_stores) > 10


def test_large_tables_are_joined_part_by_part_by_messages_of_one_size(monkeypatch):
    monkeypatch.setattr(bins, "PART_IDS", 7)
    sizes = []
    for rows in ({1: list(range(20)), 2: list(range(10, 35)), 3: list(range(12, 40))}, {1: [1], 2: [2], 3: [3]}):
        tables = tables_of(rows)
        found = run_match(tables, most_rows={1: 20, 2: 25, 3: 30})
        assert matched_rows(found) == plain_join(tables)
        sizes.append([(m.stage, m.sequence, m.array.shape) for m in found.transcript])
        links = Counter()
        for message in found.transcript:
            links[message.sender, message.receiver] += message.array.nbytes * message.stage.startswith("matching/")
        assert len({m.sequence for m in found.transcript if m.stage == "matching/store"}) == 6
    assert sorted(sizes[0]) == sorted(sizes[1])
    walked = Traffic(range(4))
    terms, shares = SecretTerms((1, 2, 3), {1: 20, 2: 25, 3: 30}, 3), ShareTraffic(walked, 3, 3, 1)
    monkeypatch.setattr(ShareTraffic, "reduce", lambda *_: None)  # products are no stage of the match
    traffic.match_secretly(shares, terms)
    traffic.share_rows(shares, terms, dict.fromkeys(terms.owners, 2))
    assert dict(walked.sent) == {link: n_bytes for link, n_bytes in links.items() if n_bytes}


def test_more_ids_than_a_part_has_room_for_end_the_match(monkeypatch):
    monkeypatch.setattr(bins, "PART_IDS", 7)
    monkeypatch.setattr(SecretTerms, "room", lambda terms, owner: 1)
    with pytest.raises(PlacementFailedError, match="parts of this match"):
        run_match(tables_of({1: list(range(12, 40)), 2: list(range(10, 35)), 3: list(range(20))}))


def test_stores_are_filled_up_to_their_size_so_that_all_take_the_same_time(monkeypatch):
    monkeypatch.setattr(bins, "PART_IDS", 7)
    encode, n_keys = Okvs.encode, set()

    def watched(store, seeds, values, entropy):
        n_keys.add((store.n_keys, len(seeds)))
        return encode(store, seeds, values, entropy)

    monkeypatch.setattr(Okvs, "encode", watched)
    run_match(tables_of({1: list(range(20)), 2: list(range(10, 35)), 3: list(range(12, 40))}))
    assert all(most == made for most, made in n_keys)


def test_an_owner_may_bring_no_columns():
    tables = tables_of({1: [1, 2, 3], 2: [2, 3, 4], 3: [3, 2]})
    tables[2] = (tables[2][0], np.zeros((3, 0), dtype=np.int64))
    assert matched_rows(run_match(tables)) == plain_join(tables)


def test_the_leader_has_the_smallest_declared_table_and_helpers_are_third_parties():
    terms = SecretTerms((1, 2, 4), {1: 50, 2: 30, 4: 30}, 4)
    assert (terms.leader, terms.others) == (2, (1, 4))
    assert [terms.helper_of(owner) for owner in terms.others] == [3, 1]


@pytest.mark.parametrize(
    ("owners", "n_parties"), [((1,), 3), ((1, 2), 2), ((1, 4), 3), ((), 3)], ids=["one", "two parties", "input", "none"]
)
def test_terms_that_cannot_be_are_refused(owners, n_parties):
    with pytest.raises(LocalFaultError, match="two or more of at least three compute parties"):
        SecretTerms(owners, dict.fromkeys(owners, 10), n_parties)


def test_two_rows_of_one_id_are_refused():
    with pytest.raises(LocalFaultError, match="two rows of this member have the same id"):
        run_match(tables_of({1: [1, 2, 1], 2: [2, 3], 3: [2, 1]}))


def test_more_rows_than_declared_are_refused():
    with pytest.raises(LocalFaultError, match="more rows than it declared"):
        run_match(tables_of({1: [1, 2, 4], 2: [2, 3], 3: [2, 1]}), most_rows={1: 2, 2: 5, 3: 5})


class End:
    """A computation that is asked nothing but who it is."""

    def __init__(self, me: int, t: int = 1, *, holds_shares: bool = True) -> None:
        self.me, self.t, self.holds_shares = me, t, holds_shares


@pytest.mark.parametrize(
    ("end", "ids", "error", "match"),
    [
        (End(1, t=2), ids_of([1]), LocalFaultError, "t = 1"),
        (End(0, holds_shares=False), ids_of([1]), LocalFaultError, "holds no shares"),
        (End(1), None, LocalFaultError, "only the owners bring ids"),
        (End(3), ids_of([1]), LocalFaultError, "only the owners bring ids"),
        (End(1), ids_of([1])[:, :31], ShapeError, "uint8 of shape"),
    ],
)
def test_members_that_do_not_fit_are_refused(end, ids, error, match):
    with pytest.raises(error, match=match):
        SecretMatch(end, SecretTerms((1, 2), {1: 10, 2: 10}, 3), ids)


def test_owners_work_for_as_many_rows_as_they_declare(monkeypatch):
    """Else the time that a store takes would tell how many rows its owner has, or how many pass a job's filter."""
    numbers = {"encoded": [], "placed": []}
    encode, place = Okvs.encode, Bins.place

    def counted_encode(store, seeds, values, entropy):
        numbers["encoded"].append(len(seeds))
        return encode(store, seeds, values, entropy)

    def counted_place(bins, candidates):
        numbers["placed"].append(len(candidates))
        return place(bins, candidates)

    monkeypatch.setattr(Okvs, "encode", counted_encode)
    monkeypatch.setattr(Bins, "place", counted_place)
    for names in ({1: [1, 2, 3], 2: [2, 3, 4, 5], 3: [3]}, {1: [], 2: [], 3: [1, 2, 3, 4, 5, 6]}):
        tables = tables_of(names)
        assert matched_rows(run_match(tables, most_rows={1: 5, 2: 6, 3: 7})) == plain_join(tables)
        assert (sorted(numbers["encoded"]), numbers["placed"]) == ([18, 18, 21, 21], [5])
        numbers["encoded"].clear()
        numbers["placed"].clear()


def test_nobody_can_choose_the_bins_of_ids_beforehand():
    """With bins that follow from the job, its id could be one with which four guessed rows do not fit: a failed job
    would say that all are there."""
    tables = tables_of({1: [1, 2, 3], 2: [2, 3, 4], 3: [3, 2]})
    found = [run_match(tables, seed="match", entropy_seed=seed) for seed in ("one", "two")]
    candidates = [[match.ends[owner]._candidates for owner in tables] for match in found]
    assert all((one != two).any() for one, two in zip(*candidates, strict=True))
    told = [m for m in found[0].transcript if m.stage == "matching/bins"]
    assert sorted((m.sender, m.receiver) for m in told) == [(3, 1), (3, 2)]
