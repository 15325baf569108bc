import numpy as np
import pytest

from mpc.errors import OutOfRangeError, ShapeError
from mpc.secagg.vector.bit_packing import pack_bits, packed_bytes, unpack_bits


def random_words(n, bits):
    words = np.random.default_rng(bits).integers(0, 1 << 63, n, dtype=np.uint64) * np.uint64(2)
    return words >> np.uint64(64 - bits)


@pytest.mark.parametrize("n", [1, 63, 64, 65, 200])
def test_what_is_packed_comes_back(n):
    for bits in range(1, 65):
        words = random_words(n, bits)
        packed = pack_bits(words, bits)
        assert len(packed) == packed_bytes(n, bits) == -(-n * bits // 8), bits
        assert np.array_equal(unpack_bits(packed, n, bits), words), bits


@pytest.mark.parametrize("bits", [3, 17, 21, 32, 63])
def test_bits_lie_side_by_side_little_endian(bits):
    words = random_words(100, bits)
    as_integer = sum(int(word) << (i * bits) for i, word in enumerate(words))
    assert pack_bits(words, bits) == as_integer.to_bytes(packed_bytes(100, bits), "little")


@pytest.mark.parametrize("bits", [16, 21])
def test_a_wrong_length_is_refused(bits):
    packed = pack_bits(random_words(10, bits), bits)
    for data in (packed[:-1], packed + b"\0"):
        with pytest.raises(ShapeError, match=f"10 elements of {bits} bits take {len(packed)} bytes"):
            unpack_bits(data, 10, bits)


def test_set_bits_after_the_last_element_are_refused():
    packed = bytearray(pack_bits(random_words(3, 21), 21))  # 63 bits in 8 bytes
    packed[-1] |= 0x80
    with pytest.raises(OutOfRangeError, match="unused bit"):
        unpack_bits(bytes(packed), 3, 21)
