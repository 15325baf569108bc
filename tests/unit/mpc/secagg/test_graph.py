from collections import Counter
from itertools import combinations

import numpy as np

from bench.secagg_core import count_ring_failures
from mpc.secagg.graph import complete_graph, draw_ring
from mpc.secagg.transcript import RoundId

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
    assert count_ring_failures(1000, 96, 67, 100, n_draws=4000, rng=rng) == 0
    assert count_ring_failures(1000, 96, 67, 350, n_draws=100, rng=rng) == 100
