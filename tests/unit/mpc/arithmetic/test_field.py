import copy
import dataclasses
import pickle

import galois
import numpy as np
import pytest
from sharings import as_integers, random_words

from entropy import InsecureTestEntropy, KeyStream
from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.moduli import PRIMES, WIDE_PRIMES
from mpc.errors import FieldTooSmallError, LocalFaultError, OutOfRangeError, ShapeError

EVERY_FIELD = [*(ResidueField(k) for k in range(1, 7)), ResidueField.over((3, *PRIMES[:3]))]
KEY = InsecureTestEntropy("field").read(32)


def balanced(values, field):
    return (values + field.half_order) % field.order - field.half_order


def test_the_primes_are_the_six_largest_below_two_to_the_21():
    largest, below = [], 2**21
    while len(largest) < 6:
        below = galois.prev_prime(below - 1)
        largest.append(below)
    assert list(PRIMES) == largest


@pytest.mark.parametrize("k", range(1, 7))
def test_the_smallest_field_that_holds_a_bound_is_chosen(k):
    field = ResidueField(k)
    assert ResidueField.for_bound(field.half_order) == field
    assert field.order == 2 * field.half_order + 1
    assert field.n_words == (1 if k <= 3 else 2)
    if k < 6:
        assert ResidueField.for_bound(field.half_order + 1) == ResidueField(k + 1)


def test_a_bound_beyond_six_primes_is_refused_with_the_bits_needed_and_the_limit():
    with pytest.raises(FieldTooSmallError, match=r"field of 131 bits, but the largest field has 126"):
        ResidueField.for_bound(1 << 129)
    with pytest.raises(FieldTooSmallError):
        ResidueField.for_bound(ResidueField(6).half_order + 1)
    with pytest.raises(LocalFaultError):
        ResidueField.for_bound(-1)


@pytest.mark.parametrize("n_primes", [0, 7, -1])
def test_a_field_of_no_or_of_seven_primes_is_refused(n_primes):
    with pytest.raises(FieldTooSmallError):
        ResidueField(n_primes)


SIXTEEN = (3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59)


@pytest.mark.parametrize("primes", [(), (7, 7), (9,), (2,), (2**21 + 17,), SIXTEEN], ids=str)
def test_a_field_over_unsuitable_moduli_is_refused(primes):
    with pytest.raises(LocalFaultError):
        ResidueField.over(primes)


def test_equal_fields_are_equal_and_cannot_be_changed():
    field = ResidueField(4)
    assert field == ResidueField(4) == copy.deepcopy(field) == pickle.loads(pickle.dumps(field))
    assert len({field, ResidueField(4), ResidueField(3)}) == 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        field.order = 5


@pytest.mark.parametrize("field", EVERY_FIELD, ids=lambda f: str(len(f.primes)))
def test_integers_up_to_half_the_order_come_back(field):
    h = field.half_order
    values = np.array([[h, -h, h - 1], [0, 1, -1]], dtype=object)
    words = field.encode(values)
    assert words.shape == (field.n_words, 2, 3)
    field.check(words)
    decoded = field.decode(words)
    assert decoded.dtype == (np.int64 if len(field.primes) <= 3 else object)
    assert decoded.tolist() == values.tolist()
    if len(field.primes) <= 3:
        np.testing.assert_array_equal(field.encode(values.astype(np.int64)), words)


@pytest.mark.parametrize("field", [*EVERY_FIELD, ResidueField.over(WIDE_PRIMES)], ids=lambda f: str(len(f.primes)))
def test_last_bits_are_those_of_the_integers_from_zero_to_below_the_order(field):
    h, rng = field.half_order, np.random.default_rng(3)
    drawn = [int.from_bytes(rng.bytes(40), "little") % field.order - h for _ in range(60)]
    values = np.array([0, 1, -1, h, -h, *drawn], dtype=object)
    words = field.encode(values).reshape(field.n_words, 5, 13)
    for n_bits in (1, 20, 62, 63):
        expected = (values % field.order % (1 << n_bits)).astype(np.int64).reshape(5, 13)
        np.testing.assert_array_equal(field.last_bits(words, n_bits), expected)


@pytest.mark.parametrize("field", EVERY_FIELD, ids=lambda f: str(len(f.primes)))
def test_an_integer_above_half_the_order_is_refused_and_not_shown(field):
    for value in (field.half_order + 1, -field.half_order - 1):
        with pytest.raises(FieldTooSmallError) as caught:
            field.encode(np.array([0, value], dtype=object))
        assert str(abs(value)) not in str(caught.value)
    if len(field.primes) <= 3:
        with pytest.raises(FieldTooSmallError):
            field.encode(np.array([np.iinfo(np.int64).min]))


def test_unsigned_narrow_and_empty_integers_are_encoded_and_other_things_refused():
    assert ResidueField(1).decode(ResidueField(1).encode(np.array([255, 3], dtype=np.uint8))).tolist() == [255, 3]
    assert ResidueField(4).decode(ResidueField(4).encode(np.array([2**64 - 1], dtype=np.uint64))) == [2**64 - 1]
    assert ResidueField(1).encode(np.zeros((0, 2), dtype=np.int64)).shape == (1, 0, 2)
    assert ResidueField(2).decode(ResidueField(2).encode(7)).shape == ()
    for values in (np.array([1.0]), np.array([1.5], dtype=object), np.array(["1"])):
        with pytest.raises(LocalFaultError):
            ResidueField(3).encode(values)


@pytest.mark.parametrize("field", EVERY_FIELD, ids=lambda f: str(len(f.primes)))
def test_every_residue_that_is_not_below_its_prime_and_every_unused_bit_is_refused(field):
    good = random_words(field, (5, 300), "check")
    field.check(good)
    largest = field.pack([np.full((), p - 1) for p in field.primes])
    field.check(largest)
    for position in range(3 * field.n_words):
        word, shift = divmod(position, 3)
        bad = good.copy()
        mask = np.uint64(((1 << 21) - 1) << (21 * shift))
        first_refused = field.primes[position] if position < len(field.primes) else 1
        bad[word, 4, 299] = (bad[word, 4, 299] & ~mask) | np.uint64(first_refused << (21 * shift))
        with pytest.raises(OutOfRangeError, match="1 of"):
            field.check(bad)
    for word in range(field.n_words):
        bad = good.copy()
        bad[word, 0, 0] |= np.uint64(1 << 63)
        with pytest.raises(OutOfRangeError):
            field.check(bad)


def test_arrays_of_another_type_or_number_of_words_are_no_elements():
    field = ResidueField(4)
    for words in (np.zeros((1, 5), np.uint64), np.zeros((2, 5), np.int64), np.zeros((), np.uint64)):
        with pytest.raises(ShapeError):
            field.check(words)
        with pytest.raises(ShapeError):
            field.decode(words)
        with pytest.raises(ShapeError):
            field.add(words, words)


def test_read_only_and_strided_arrays_are_operands_like_any_other():
    field = ResidueField(5)
    words = random_words(field, (6, 8), "strided")
    received = np.frombuffer(words.tobytes(), dtype=np.uint64).reshape(words.shape)
    assert not received.flags.writeable
    field.check(received)
    np.testing.assert_array_equal(field.add(received, received), field.add(words, words))
    for view in (words[:, ::2, 1:5], words[:, 2, ::3]):
        field.check(view)
        np.testing.assert_array_equal(field.multiply(view, view), field.multiply(view.copy(), view.copy()))
        assert as_integers(field, view).tolist() == as_integers(field, view.copy()).tolist()


def drawn_by_the_rule(field, shape, stream):
    """The documented rejection rule, one word at a time."""
    size = int(np.prod(shape))
    used = [field.primes[3 * w : 3 * w + 3] for w in range(field.n_words)]

    def draw(position):
        word = int(stream.words(1)[0])
        kept = 0
        for i, p in enumerate(used[position // size]):
            residue = (word >> (21 * i)) & ((1 << (p - 1).bit_length()) - 1)
            if residue >= p:
                return None
            kept |= residue << (21 * i)
        return kept

    result = [draw(position) for position in range(field.n_words * size)]
    while None in result:
        for position in [i for i, word in enumerate(result) if word is None]:
            result[position] = draw(position)
    return np.array(result, dtype=np.uint64).reshape(field.n_words, *shape)


@pytest.mark.parametrize(
    ("primes", "shape"), [((5, 7, 11, 13), (3, 50)), ((7,), (70_000,)), (PRIMES[:4], (40_000,))], ids=str
)
def test_random_elements_follow_the_documented_rejection_rule(primes, shape):
    field = ResidueField.over(primes)
    words = field.random(KeyStream(KEY), shape)
    field.check(words)
    np.testing.assert_array_equal(words, drawn_by_the_rule(field, shape, KeyStream(KEY)))


def test_random_elements_have_a_fixed_value_for_a_fixed_key():
    words = ResidueField(2).random(KeyStream(bytes(range(32))), 2)
    # AES-256 of counter blocks 0, little-endian words 0xd09f492ab60090f2 and 0x80772edd6a9af3a9, their low 42 bits
    assert words.tolist() == [[0x12AB60090F2, 0x2DD6A9AF3A9]]


def test_random_residues_are_uniform():
    residues = ResidueField.over((7,)).residues(ResidueField.over((7,)).random(KeyStream(KEY), 70_000))[0]
    counts = np.bincount(residues, minlength=7)
    assert ((counts - 10_000) ** 2 / 10_000).sum() < 27.9  # chi-square with 6 degrees of freedom: 1e-4, seed fixed


def test_no_random_elements_have_a_shape_too():
    assert ResidueField(4).random(KeyStream(KEY), (0, 5)).shape == (2, 0, 5)


@pytest.mark.parametrize("field", EVERY_FIELD, ids=lambda f: str(len(f.primes)))
def test_sums_differences_and_products_are_those_of_the_integers_modulo_the_order(field):
    a, b = random_words(field, 500, "a"), random_words(field, 500, "b")
    x, y = as_integers(field, a), as_integers(field, b)
    for words, expected in (
        (field.add(a, b), x + y),
        (field.subtract(a, b), x - y),
        (field.multiply(a, b), x * y),
        (field.negate(a), -x),
        (field.scale(a, -(10**40)), x * -(10**40)),
        (field.add(a, field.zeros(500)), x),
    ):
        field.check(words)
        assert as_integers(field, words).tolist() == balanced(expected, field).tolist()


@pytest.mark.parametrize("field", [ResidueField(3), ResidueField(5)], ids=lambda f: str(len(f.primes)))
def test_products_agree_with_galois(field):
    a, b = random_words(field, 1000, "a"), random_words(field, 1000, "b")
    for p, x, y, product in zip(
        field.primes, field.residues(a), field.residues(b), field.residues(field.multiply(a, b)), strict=True
    ):
        gf = galois.GF(p, compile="python-calculate")
        np.testing.assert_array_equal(product, np.asarray(gf(x) * gf(y)))


def test_accumulating_adds_in_place():
    field = ResidueField(4)
    a, b = random_words(field, (2, 9), "a"), random_words(field, (2, 9), "b")
    expected, total = field.add(a, b), a.copy()
    field.accumulate(total, b)
    np.testing.assert_array_equal(total, expected)
    with pytest.raises(ShapeError):
        field.accumulate(total, b[:, :1])
    with pytest.raises(ShapeError):
        field.accumulate(total[..., ::2], b[..., ::2])


def test_operands_of_different_shapes_are_refused():
    field = ResidueField(2)
    for operation in (field.add, field.subtract, field.multiply):
        with pytest.raises(ShapeError):
            operation(field.zeros(3), field.zeros(4))


@pytest.mark.parametrize("n_parts", [1, 2, 3, 5])
def test_a_linear_combination_is_the_sum_of_the_scaled_parts(n_parts):
    field = ResidueField(4)
    parts = [random_words(field, (7, 11), f"part {i}") for i in range(n_parts)]
    factors = [10**30, -(7**40), 3, 0, 12345][:n_parts]
    expected = field.zeros((7, 11))
    for part, factor in zip(parts, factors, strict=True):
        field.accumulate(expected, field.scale(part, factor))
    out = np.empty((2, 7, 11), dtype=np.uint64)
    assert field.combine(parts, [field.weights_of(f) for f in factors], out=out) is out
    np.testing.assert_array_equal(out, expected)
    transposed = [part.transpose(0, 2, 1) for part in parts]
    np.testing.assert_array_equal(
        field.combine(transposed, [field.weights_of(f) for f in factors]), expected.transpose(0, 2, 1)
    )


def test_combinations_that_do_not_fit_are_refused():
    field = ResidueField(3)
    words, one = field.zeros(4), field.weights_of(1)
    for parts, weights, out in (
        ([], [], None),
        ([words], [one, one], None),
        ([words, field.zeros(5)], [one, one], None),
        ([words], [(1, 1)], None),
        ([words], [one], field.zeros(5)),
        ([words], [one], field.zeros(8)[:, ::2]),
    ):
        with pytest.raises(ShapeError):
            field.combine(parts, weights, out=out)


def test_packing_undoes_unpacking_and_wants_one_array_per_prime():
    field = ResidueField(5)
    words = random_words(field, (4, 3), "pack")
    np.testing.assert_array_equal(field.pack(field.residues(words)), words)
    with pytest.raises(ShapeError):
        field.pack(field.residues(words)[:4])


@pytest.mark.parametrize("n_primes", [1, 3, 4, 6])
def test_a_single_element_is_computed_with_like_an_array_of_one(n_primes):
    field = ResidueField(n_primes)
    a, b = field.encode(np.array(1000)), field.encode(np.array(-7))
    assert a.shape == (field.n_words,)
    weights = [field.weights_of(2), field.weights_of(3), field.weights_of(-1)]
    total = field.encode(np.array(1))
    field.accumulate(total, a)
    results = {
        993: field.add(a, b),
        1007: field.subtract(a, b),
        -7000: field.multiply(a, b),
        5000: field.scale(a, 5),
        979: field.combine([a, b, a], weights),
        1001: total,
    }
    for expected, words in results.items():
        assert int(field.decode(words)) == expected
        assert field.decode(words).shape == ()
    drawn = field.random(KeyStream(bytes(32)), ())
    field.check(drawn)
    assert np.array_equal(drawn, field.random(KeyStream(bytes(32)), 1)[:, 0])
