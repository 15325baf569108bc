"""BLAKE2b of rows is that of hashlib: known answers, all admitted lengths, keys, salts and persons."""

import hashlib

import numpy as np
import pytest

from mpc.bulk_hash import hashes
from mpc.errors import ShapeError

RANDOM = np.random.default_rng(135)


def of_hashlib(rows, n_bytes, **how):
    return [hashlib.blake2b(row.tobytes(), digest_size=n_bytes, **how).digest() for row in rows]


@pytest.mark.parametrize("width", range(8, 129, 8))
def test_rows_of_every_width_have_the_hashes_of_hashlib(width):
    rows = RANDOM.integers(0, 256, (5, width), dtype=np.uint8)
    for n_bytes in range(8, 65, 8):
        assert [row.tobytes() for row in hashes(rows, n_bytes)] == of_hashlib(rows, n_bytes)


@pytest.mark.parametrize(
    "how",
    [
        {"key": b"k"},
        {"key": bytes(range(64))},
        {"salt": b"s" * 16, "person": b"moiety place"},
        {"key": bytes(32), "salt": b"salt", "person": b"p" * 16},
    ],
)
@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 150])
def test_keys_salts_and_persons_count_in_every_lane(how, n):
    rows = RANDOM.integers(0, 256, (n, 32), dtype=np.uint8)
    hashed = hashes(rows, 48, **how)
    assert hashed.shape == (n, 48)
    assert [row.tobytes() for row in hashed] == of_hashlib(rows, 48, **how)


def test_rows_that_are_no_whole_array_in_memory_are_hashed_as_they_read():
    rows = RANDOM.integers(0, 256, (10, 64), dtype=np.uint8)
    assert np.array_equal(hashes(rows[::2, 8:40], 16), hashes(rows[::2, 8:40].copy(), 16))


@pytest.mark.parametrize(("width", "n_bytes"), [(0, 8), (12, 8), (136, 8), (8, 0), (8, 12), (8, 72)])
def test_other_lengths_are_refused(width, n_bytes):
    with pytest.raises(ShapeError):
        hashes(np.zeros((2, width), dtype=np.uint8), n_bytes)


@pytest.mark.parametrize("how", [{"key": bytes(65)}, {"salt": bytes(17)}, {"person": bytes(17)}])
def test_keys_salts_and_persons_that_are_too_long_are_refused(how):
    with pytest.raises(ShapeError):
        hashes(np.zeros((2, 8), dtype=np.uint8), 8, **how)
