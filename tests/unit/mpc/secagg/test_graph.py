from collections import Counter
from itertools import combinations

import numpy as np

from bench.sums.secagg_core import count_ring_failures
from entropy import InsecureTestEntropy
from mpc.secagg import graph as graph_module
from mpc.secagg.graph import complete_graph, draw_ring
from mpc.secagg.messages import Advertisement, member_transcript
from mpc.transcript import RoundId

ROUND = RoundId("s", 0, 0)


def ring(n=20, degree=6, transcript=b"t" * 32, round_id=ROUND):
    return draw_ring(range(1, n + 1), degree, round_id, transcript)


def test_the_relation_is_symmetric_and_regular():
    graph = ring()
    for member in range(1, 21):
        neighbours = graph.neighbours(member)
        assert len(neighbours) == 6
        assert member not in neighbours
        assert all(member in graph.neighbours(j) for j in neighbours)
        assert graph.holders(member) == neighbours


def test_neighbours_are_the_nearest_on_the_ring():
    graph = ring()
    at = graph.order.index(7)
    assert graph.neighbours(7) == {graph.order[(at + step) % 20] for step in (-3, -2, -1, 1, 2, 3)}


def test_in_the_complete_graph_the_owner_holds_a_share_too():
    graph = complete_graph([1, 2, 3])
    assert (graph.neighbours(2), graph.holders(2)) == ({1, 3}, {1, 2, 3})


def test_whoever_has_the_same_transcript_draws_the_same_ring_and_nobody_else():
    base = ring()
    assert ring().order == base.order == draw_ring(range(20, 0, -1), 6, ROUND, b"t" * 32).order
    assert ring(transcript=b"u" * 32).order != base.order
    assert ring(round_id=RoundId("s", 0, 1)).order != base.order


def test_every_pair_is_equally_likely_to_be_neighbours():
    """60 rings of 7 with 2 neighbours each: a pair is joined with probability 1 / 3; s.d. of its count is 3.7."""
    joined = Counter()
    for i in range(60):
        graph = ring(7, 2, i.to_bytes(32, "big"))
        joined.update(pair for pair in combinations(range(1, 8), 2) if pair[1] in graph.neighbours(pair[0]))
    assert len(joined) == 21
    assert all(3 < count < 40 for count in joined.values())


def test_the_ring_of_1000_does_not_fail_at_the_stated_dropout_and_does_far_above():
    rng = np.random.default_rng(1)
    assert count_ring_failures(1000, 120, 87, 100, n_draws=4000, rng=rng) == 0
    assert count_ring_failures(1000, 120, 87, 350, n_draws=100, rng=rng) == 100


def is_bad(order, corrupt, least):
    """Whether an honest member has at least so many corrupt ones among the two neighbours on either side."""
    n = len(order)
    places = [member in corrupt for member in order]
    return any(not places[at] and sum(places[(at + step) % n] for step in (-2, -1, 1, 2)) >= least for at in range(n))


def test_a_coordinator_that_grinds_its_own_members_keys_gets_what_the_union_bound_says_and_no_more(monkeypatch):
    """12 members with 4 neighbours each, 4 corrupt: of 3,000 member lists that differ in one corrupt member's keys, as
    many have a bad ring as independent random orders would, within five standard deviations; each list costs a scrypt.
    """
    n, corrupt, n_tries, scrypt, n_scrypts = 12, {9, 10, 11, 12}, 3000, graph_module.hashlib.scrypt, 0

    def cheap(*arguments, n, **others):
        nonlocal n_scrypts
        n_scrypts += 1
        assert n == 1 << 14
        return scrypt(*arguments, n=2, **others)

    monkeypatch.setattr(graph_module.hashlib, "scrypt", cheap)
    draw = InsecureTestEntropy("keys of members").read

    def advertisement(member):
        return Advertisement(ROUND, member, draw(32), draw(32), draw(32), b"", bytes(32), bytes(32), draw(64))

    honest = [advertisement(member) for member in range(1, n)]
    orders = [
        ring(n, 4, member_transcript(bytes(32), bytes(32), (*honest, advertisement(n)))).order for _ in range(n_tries)
    ]
    assert n_scrypts == n_tries
    for least in (3, 4):
        placements = [set(chosen) for chosen in combinations(range(n), len(corrupt))]
        p = sum(is_bad(range(n), chosen, least) for chosen in placements) / len(placements)
        found = sum(is_bad(order, corrupt, least) for order in orders)
        assert found > 0
        assert abs(found - n_tries * p) <= 5 * (n_tries * p * (1 - p)) ** 0.5
