"""What a match needs for each id beside the id itself, counted: bytes that grow with the number of ids."""

import asyncio
import tracemalloc
from collections import deque
from unittest import mock

import numpy as np
from matchings import network_of, secrets_of
from virtual_time import run_in_virtual_time

from mpc.matching.parcels import OwnersOfMatch
from mpc.matching.revealed import _check_ids
from mpc.matching.transfer import rows as rows_of_matches
from mpc.matching.transfer.match import Parts
from mpc.matching.transfer.rows import Matched, find_matched

FEW, MANY = 1 << 16, 1 << 17


def peak_of(work, *arguments):
    tracemalloc.start()
    try:
        work(*arguments)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def bytes_of_a_row(work, inputs_of):
    few, many = (peak_of(work, *inputs_of(n)) for n in (FEW, MANY))
    return (many - few) / (MANY - FEW)


def random_rows(n, width):
    return np.random.default_rng(n).integers(0, 256, (n, width), dtype=np.uint8)


def tell_and_find(tags):
    """All of the leader's rows but the last third matched; the other owner has them in another order."""
    n, order = len(tags), np.random.default_rng(1).permutation(len(tags))
    network = network_of(2)
    network.transcript = deque(maxlen=0)
    sessions = {member: network.session(member) for member in (1, 2)}
    ends = {me: OwnersOfMatch(s, (1, 2), {1: n, 2: n}, secrets_of(s, (1, 2))) for me, s in sessions.items()}

    async def both():
        matched = Matched(ends[1])
        matched.add(order[: 2 * n // 3], [tags[order[: 2 * n // 3]]])
        return await asyncio.gather(matched.tell(), find_matched(ends[2], tags))

    told, found = run_in_virtual_time(both())
    assert len(told) == 2 * n // 3
    np.testing.assert_array_equal(told, found)


def test_both_ends_of_a_match_take_50_bytes_a_row_together_tags_of_the_leader_included():
    with mock.patch.object(rows_of_matches, "BLOCK_ROWS", FEW):
        assert bytes_of_a_row(tell_and_find, lambda n: [random_rows(n, 16)]) < 50


def test_ids_are_compared_and_dealt_with_10_bytes_a_row():
    parts = Parts(9, bytes(32))
    assert bytes_of_a_row(parts.split, lambda n: [random_rows(n, 32), n]) < 11
    assert bytes_of_a_row(_check_ids, lambda n: [random_rows(n, 32), n, "north"]) < 10
