import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entropy import KeyStream
from mpc.errors import LocalFaultError, OutOfRangeError, ShapeError
from mpc.prime.kernels import PRIME
from mpc.secagg.vector.group import MASK_CHUNK, RingGroup
from mpc.secagg.vector.prime_group import PrimeGroup

RINGS = [RingGroup(16), RingGroup(17), RingGroup(32), RingGroup(50), RingGroup(64)]
GROUPS = [*RINGS, PrimeGroup()]
by_name = pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)


@by_name
def test_extreme_integers_are_represented(group):
    largest = min(group.largest, (1 << 63) - 1)
    values = np.array([0, 1, -1, largest, -largest], dtype=np.int64)
    assert group.decode(group.encode(values)).tolist() == values.tolist()


@by_name
def test_arithmetic_is_that_of_the_integers_modulo_the_order(group):
    order = PRIME if isinstance(group, PrimeGroup) else 1 << group.bits
    a, b = (np.random.default_rng(i).integers(-(1 << 62), 1 << 62, 50) for i in (1, 2))

    def reduced(value):
        return (value + order // 2) % order - order // 2

    total = group.encode(a)
    group.accumulate(total, group.encode(b))
    assert [int(v) for v in group.decode(total)] == [reduced(int(x) + int(y)) for x, y in zip(a, b, strict=True)]
    group.deduct(total, group.encode(b))
    group.deduct(total, group.encode(b))
    assert [int(v) for v in group.decode(total)] == [reduced(int(x) - int(y)) for x, y in zip(a, b, strict=True)]


@by_name
@pytest.mark.parametrize("length", [1, 7, 130])
def test_elements_cross_the_network_in_as_few_bytes_as_stated(group, length):
    elements = group.zeros(length)
    group.draw(KeyStream(bytes(32)), elements)
    data = group.pack(elements)
    assert len(data) == group.wire_bytes(length)
    assert group.decode(group.unpack(data, length)).tolist() == group.decode(elements).tolist()
    with pytest.raises((ShapeError, OutOfRangeError)):
        group.unpack(data + b"\0", length)
    with pytest.raises(ShapeError):
        group.unpack(data[:-1], length)


@pytest.mark.parametrize("bits", [16, 33])
def test_an_element_takes_no_more_than_its_bits(bits):
    assert RingGroup(bits).wire_bytes(100_000) <= 100_000 * bits / 8 + 2


def test_a_word_that_is_no_element_of_the_prime_field_is_refused():
    for word in (PRIME, (1 << 64) - 1):
        with pytest.raises(OutOfRangeError):
            PrimeGroup().unpack(np.array([1, word], dtype="<u8").tobytes(), 2)


@by_name
def test_equal_streams_draw_equal_elements_and_all_of_the_group_is_reached(group):
    first, second = group.zeros(MASK_CHUNK), group.zeros(MASK_CHUNK)
    group.draw(KeyStream(bytes(32)), first)
    group.draw(KeyStream(bytes(32)), second)
    assert np.array_equal(first, second)
    values = group.decode(first).astype(np.float64) / group.largest
    assert abs(values.mean()) < 0.02  # s.d. 0.58 / 256
    assert np.abs(values).max() > 0.99
    assert values.var() == pytest.approx(1 / 3, rel=0.03)


@pytest.mark.parametrize("bits", [16, 32])
def test_a_chunk_of_odd_length_takes_whole_words_of_the_stream(bits):
    group = RingGroup(bits)
    stream = KeyStream(bytes(32))
    drawn = group.zeros(5)
    group.draw(stream, drawn)
    n_words = -(-5 * bits // 64)
    expected = KeyStream(bytes(32)).read(n_words * 8)
    assert drawn.tobytes() == expected[: drawn.nbytes]
    assert stream.read(8) == KeyStream(bytes(32)).read(n_words * 8 + 8)[-8:]


@settings(deadline=None)
@given(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=40), st.integers(32, 64))
def test_ring_encoding_round_trips(values, bits):
    group = RingGroup(bits)
    array = np.array(values, dtype=np.int64)
    elements = group.unpack(group.pack(group.encode(array)), len(values))
    assert group.decode(elements).tolist() == values


@pytest.mark.parametrize("bits", [0, 15, 65])
def test_rings_of_other_sizes_are_refused(bits):
    with pytest.raises(LocalFaultError, match="16 to 64 bits"):
        RingGroup(bits)
