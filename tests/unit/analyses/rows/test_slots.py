from itertools import permutations

import numpy as np
from scipy.stats import chisquare

from analyses.rows.slots import EMPTY, placement
from entropy import KeyStream


def stream(seed):
    return KeyStream(seed.to_bytes(32, "big"))


def test_every_row_has_one_slot_and_the_rest_are_empty():
    slots = placement(stream(1), 60, 100, 100)
    assert sorted(slots.tolist()) == [EMPTY] * 40 + list(range(60))


def test_every_placement_is_equally_likely():
    drawn = [tuple(placement(stream(seed), 3, 4, 4).tolist()) for seed in range(4800)]
    kinds = list(permutations((0, 1, 2, EMPTY)))
    found = [drawn.count(kind) for kind in kinds]
    assert len(kinds) == 24
    assert chisquare(found).pvalue > 1e-4


def test_a_sample_holds_each_row_with_the_same_probability():
    counts = np.zeros(4)
    for seed in range(3000):
        slots = placement(stream(seed), 4, 10, 3)
        assert len(slots) == 3
        counts += np.bincount(slots[slots >= 0], minlength=4)
    assert chisquare(counts).pvalue > 1e-4
    assert abs(counts.sum() / 12000 - 0.3) < 0.02


def test_the_same_stream_gives_the_same_placement():
    assert np.array_equal(placement(stream(7), 5, 9, 9), placement(stream(7), 5, 9, 9))
