"""What each owner sees in revealed matching follows from the matches alone, whatever the others' lists are.

All lists over a small domain are gone through. A member's view is searched for every linear relation over GF(2) among
the bit strings that it can compute: there are those that the matches imply, and no other. That the search would find
more is shown of a ring of exponentiations, and of the protocol without the sharing of zero.
"""

import itertools
from collections.abc import Sequence
from unittest import mock

import numpy as np
import pytest
from matchings import ids_of, match, matched_rows, network_of

from entropy import InsecureTestEntropy
from mpc.matching import revealed
from mpc.matching.group import Scalar, hash_to_points
from mpc.matching.oprf import MatchingFunction
from mpc.matching.revealed import BLINDED, MATCHED
from mpc.matching.transfer import match as large
from mpc.matching.transfer import rows as orders
from mpc.matching.zero_sharing import ZeroSharing

SEED = "secrecy"


def subsets(domain):
    return [chosen for size in range(len(domain) + 1) for chosen in itertools.combinations(domain, size)]


def n_relations(strings: Sequence[bytes]) -> int:
    """How many independent linear relations there are among bit strings of one length: their number less their rank."""
    basis: list[int] = []
    for string in strings:
        number = int.from_bytes(string, "big")
        for one in basis:
            number = min(number, number ^ one)
        if number:
            basis.append(number)
    return len(strings) - len(basis)


def run(rows, sizes):
    """A match, with what the leader decodes of each store: shape (stores, slots, 2 words)."""
    decoded = []
    is_zero = revealed.is_zero

    def seen(arrays):
        decoded.extend(arrays)
        return is_zero(arrays)

    network = network_of(max(rows), seed=SEED)
    with mock.patch.object(revealed, "is_zero", seen), mock.patch.object(large, "is_zero", seen):
        results = match(rows, sizes, network=network)
    return network, matched_rows(rows, results), np.array(decoded)


def relations_seen_by_the_leader(rows, sizes):
    _, found, decoded = run(rows, sizes)
    common = set.intersection(*map(set, rows.values()))
    assert set(found) == common
    return n_relations([value.tobytes() for store in decoded for value in store]), len(common)


@pytest.mark.parametrize("n_owners", [2, 3])
def test_the_leader_sees_the_relations_of_the_matches_and_no_other(n_owners):
    """The leader has the whole domain of three ids, and the others any lists: 8^(n - 1) matches."""
    domain = range(3)
    for lists in itertools.product(subsets(domain), repeat=n_owners - 1):
        rows = {1: tuple(domain), **dict(enumerate(lists, start=2))}
        n_seen, n_common = relations_seen_by_the_leader(rows, dict.fromkeys(rows, 3))
        assert n_seen == n_common, rows


def test_the_leader_of_four_owners_sees_no_relation_among_two_or_three():
    for lists in itertools.product(subsets(range(2)), repeat=3):
        rows = {1: (0, 1), **dict(enumerate(lists, start=2))}
        n_seen, n_common = relations_seen_by_the_leader(rows, dict.fromkeys(rows, 2))
        assert n_seen == n_common, rows


@pytest.mark.parametrize("list_of_leader", [(), (0,), (1, 2)])
def test_a_leader_that_lacks_ids_sees_no_relation_of_them(list_of_leader):
    for lists in itertools.product([(), (0,), (0, 1), (0, 1, 2)], repeat=2):
        rows = {1: list_of_leader, **dict(enumerate(lists, start=2))}
        n_seen, n_common = relations_seen_by_the_leader(rows, {1: 2, 2: 3, 3: 4})
        assert n_seen == n_common, rows


@pytest.mark.parametrize("lists", [((), ()), ((0, 1), (1, 2)), ((0, 1, 2), (0, 1, 2))])
def test_the_leader_sees_no_other_relation_where_transfers_are_extended(lists):
    rows = {1: (0, 1, 2), 2: lists[0], 3: lists[1]}
    with mock.patch.object(revealed, "TRANSFERS_FROM", 0):
        n_seen, n_common = relations_seen_by_the_leader(rows, dict.fromkeys(rows, 3))
    assert n_seen == n_common


def test_without_the_sharing_of_zero_the_leader_would_see_who_has_what():
    rows = {1: (0, 1, 2), 2: (0, 1), 3: (2,)}
    zeros = mock.patch.object(ZeroSharing, "values", lambda sharing, ids: np.zeros((len(ids), 2), dtype=np.uint64))
    with zeros:
        _, _, decoded = run(rows, dict.fromkeys(rows, 3))
    assert n_relations([value.tobytes() for store in decoded for value in store]) == 3


def ring(rows):
    """What whoever compares sees in a ring of exponentiations: every owner's ids under the keys of all of them."""
    keys = [Scalar.draw(InsecureTestEntropy(f"key {owner}")) for owner in rows]
    final = []
    for names in rows.values():
        points = hash_to_points([row.tobytes() for row in ids_of(names)], b"ring")
        for key in keys:
            points = key.multiply(points)
        final += [point.tobytes() for point in points]
    return n_relations(final)


def test_a_ring_of_exponentiations_shows_which_rows_two_owners_have_and_the_search_finds_it():
    """Two choices of lists with the same list of the leader and the same match, none."""
    apart, together = {1: (0, 1), 2: (2,), 3: (3,)}, {1: (0, 1), 2: (0,), 3: (1,)}
    assert ring(apart) != ring(together)
    sizes = dict.fromkeys(apart, 2)
    assert relations_seen_by_the_leader(apart, sizes) == relations_seen_by_the_leader(together, sizes) == (0, 0)


def test_an_owner_recognises_the_tags_of_the_matches_and_no_other():
    """Owner 2 tries its function at every id of the domain, its own or not."""
    domain = range(3)
    for of_leader, of_third in itertools.product(subsets(domain), repeat=2):
        rows = {1: of_leader, 2: (0, 1), 3: of_third}
        network, found, _ = run(rows, dict.fromkeys(rows, 3))
        key = Scalar.draw(InsecureTestEntropy(f"{SEED} 2"))
        tags = MatchingFunction(network.session(2).binding).values_under(ids_of(domain), key).tags
        sent = [m.array[:-32].tobytes() for m in network.transcript if (m.receiver, m.stage) == (2, MATCHED)]
        received = [b"".join(sent)[start : start + 16] for start in range(0, 48, 16)]
        assert {row for row in domain if tags[row].tobytes() in received} == set(found)
        assert len(set(received)) == 3


def points_received(rows, sizes, seed):
    network = network_of(max(rows), seed=seed)
    match(rows, sizes, network=network)
    messages = [m.array[:-32] for m in network.transcript if (m.receiver, m.stage) == (2, BLINDED)]
    return network, [row.tobytes() for row in np.concatenate(messages).reshape(-1, 32)]


def test_an_owner_sees_points_that_differ_with_the_blinding_and_are_none_that_it_can_compute():
    rows, sizes = {1: (0, 1), 2: (0, 1, 2)}, {1: 2, 2: 3}
    network, points = points_received(rows, sizes, "one")
    function = MatchingFunction(network.session(2).binding)
    hashed = {point.tobytes() for point in function.points(ids_of(range(3)))}
    _, with_other_blinding = points_received(rows, sizes, "two")
    _, of_other_ids = points_received({**rows, 1: ()}, sizes, "one")
    assert len(points) == len(of_other_ids) == 2
    assert len({*points, *with_other_blinding, *of_other_ids, *hashed}) == 2 + 2 + 2 + 3


def test_points_come_in_an_order_that_does_not_follow_from_the_rows():
    """Padding stands between ids: where they are would show how many there are."""
    places = set()
    for seed in range(12):
        order = orders.permutation(InsecureTestEntropy(f"{seed}"), 4)
        assert sorted(order) == [0, 1, 2, 3]
        places.add(int(np.flatnonzero(order == 0)[0]))
    assert places == {0, 1, 2, 3}


def test_a_store_does_not_show_how_many_rows_or_which_its_owner_has():
    """Of four lists of one owner: tables of one size, without a row that two have in common or that is repeated."""
    tables = []
    for seed, names in enumerate([(), (0,), (0, 1, 2), (5, 6, 7)]):
        network = network_of(2, seed=str(seed))
        match({1: (0, 1), 2: names}, {1: 2, 2: 3}, network=network)
        tables.append(np.concatenate([m.array[:-32] for m in network.transcript if m.stage == revealed.STORE]))
    assert len({len(table) for table in tables}) == 1
    rows = [row.tobytes() for table in tables for row in table.reshape(-1, 16)]
    assert len(set(rows)) == len(rows)
    ones = [np.unpackbits(table).mean() for table in tables]
    n_bits = 8 * len(tables[0])
    assert all(abs(one - 0.5) < 6 * 0.5 / n_bits**0.5 for one in ones)
