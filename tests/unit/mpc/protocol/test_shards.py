from dataclasses import replace
from itertools import pairwise

import pytest

from mpc.protocol.shards import LEAST_SHARD_ROWS, MAX_SHARD_BLOCKS, Attempt, Shard, shards_of

HEIGHT = 4096


@pytest.mark.parametrize("n_lanes", [1, 2, 3, 7])
@pytest.mark.parametrize("n_rows", [7 * LEAST_SHARD_ROWS, 7 * LEAST_SHARD_ROWS + 1, 1_000_000, 123_456_789])
def test_every_row_lies_in_one_shard_of_whole_blocks(n_rows, n_lanes):
    shards = shards_of(n_rows, n_lanes, HEIGHT)
    assert [shard.number for shard in shards] == list(range(len(shards)))
    assert (shards[0].start, shards[-1].stop) == (0, n_rows)
    assert all(one.stop == after.start for one, after in pairwise(shards))
    assert all(shard.start % HEIGHT == 0 and 0 < shard.n_rows <= MAX_SHARD_BLOCKS * HEIGHT for shard in shards)
    assert len(shards) % n_lanes == 0


@pytest.mark.parametrize("n_lanes", [2, 5])
def test_the_lanes_have_about_equally_many_rows(n_lanes):
    shards = shards_of(10_000_000, n_lanes, HEIGHT)
    rows = [sum(shard.n_rows for shard in shards[lane::n_lanes]) for lane in range(n_lanes)]
    assert max(rows) - min(rows) <= HEIGHT * len(shards)


@pytest.mark.parametrize(("n_rows", "n_lanes"), [(2 * LEAST_SHARD_ROWS - 1, 2), (0, 1), (10**9, 0)])
def test_few_rows_or_no_workers_make_no_shards(n_rows, n_lanes):
    assert shards_of(n_rows, n_lanes, HEIGHT) == ()


def test_no_two_attempts_have_terms_or_a_name_in_common():
    one = Attempt("job-1", bytes(32), Shard(0, 0, 4096), 0)
    others = [
        replace(one, job_id="job-2"),
        replace(one, binding=b"\1" * 32),
        replace(one, shard=Shard(1, 0, 4096)),
        replace(one, shard=Shard(0, 0, 4097)),
        replace(one, shard=Shard(0, 1, 4096)),
        replace(one, number=1),
    ]
    for what in ("terms", "session_id"):
        assert len({getattr(attempt, what) for attempt in [one, *others]}) == len(others) + 1


def test_the_name_of_an_attempt_is_short_whatever_the_jobs_is():
    attempt = Attempt("j" * 128, bytes(32), Shard(10**9, 0, 1), 3)
    assert len(attempt.session_id) <= 64
