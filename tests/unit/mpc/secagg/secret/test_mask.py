import numpy as np
import pytest

from entropy import KeyStream
from mpc.secagg.secret.mask import Mask, apply_masks
from mpc.secagg.vector.group import MASK_CHUNK, RingGroup
from mpc.secagg.vector.prime_group import PrimeGroup

LENGTH = MASK_CHUNK + 1001


def drawn(group, key):
    """One mask, straight from the definition."""
    stream, total = KeyStream(key), group.zeros(LENGTH)
    for start in range(0, LENGTH, MASK_CHUNK):
        part = group.zeros(min(MASK_CHUNK, LENGTH - start))
        group.draw(stream, part)
        total[start : start + MASK_CHUNK] = part
    return total


@pytest.mark.parametrize("group", [RingGroup(16), RingGroup(24), RingGroup(64), PrimeGroup()])
def test_masks_are_added_and_subtracted_as_defined(group):
    keys = [bytes([i] * 32) for i in range(5)]
    total, expected = group.zeros(LENGTH), group.zeros(LENGTH)
    apply_masks(group, total, [Mask(key, is_negative=i % 2 == 1) for i, key in enumerate(keys)])
    for i, key in enumerate(keys):
        (group.deduct if i % 2 else group.accumulate)(expected, drawn(group, key))
    assert np.array_equal(group.decode(total), group.decode(expected))


def test_a_mask_and_its_opposite_cancel():
    group = RingGroup(40)
    total = group.encode(np.arange(LENGTH, dtype=np.int64))
    masks = [Mask(bytes([i % 256, i // 256] * 16), is_negative=i % 3 == 0) for i in range(300)]  # more than one batch
    apply_masks(group, total, masks)
    assert np.count_nonzero(group.decode(total) == np.arange(LENGTH)) < 5
    apply_masks(group, total, (mask.opposite() for mask in masks))
    assert np.array_equal(group.decode(total), np.arange(LENGTH))


def test_no_mask_changes_nothing_and_keys_are_not_printed():
    total = RingGroup(32).zeros(3)
    apply_masks(RingGroup(32), total, [])
    assert not total.any()
    assert "777" not in repr(Mask(b"7" * 32, is_negative=False))
