"""ristretto255 against the vectors of RFC 9496 and RFC 9497."""

import pickle

import numpy as np
import pytest

from entropy import InsecureTestEntropy
from mpc.errors import ShapeError
from mpc.local.network import LocalNetwork, local_names
from mpc.matching.group import PIECE, InvalidPointError, Scalar, hash_to_points, spread

ORDER = 2**252 + 27742317777372353535851937790883648493

MULTIPLES = [
    "e2f2ae0a6abc4e71a884a961c500515f58e30b6aa582dd8db6a65945e08d2d76",
    "6a493210f7499cd17fecb510ae0cea23a110e8d5b901f8acadd3095c73a3b919",
    "94741f5d5d52755ece4f23f044ee27d5d1ea1e2bd196b462166b16152a9d0259",
]
"""The first multiples of the generator: RFC 9496, appendix A.1."""

INVALID = {
    "field element that is not canonical": "00ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    "negative field element": "0100000000000000000000000000000000000000000000000000000000000000",
    "x^2 that is no square": "26948d35ca62e643e26a83177332e6b6afeb9d08e4268b650f1f5bbd8d81d371",
    "negative x y": "3eb858e78f5a7254d8c9731174a94f76755fd3941c0ac93735c07ba14579630e",
    "s = -1, so y = 0": "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
}
"""One of each kind of RFC 9496, appendix A.2."""

CONTEXT = b"HashToGroup-OPRFV1-\x00-ristretto255-SHA512"
BLIND = "64d37aed22a27f5191de1c1d69fadb899d8862b58eb4220029e036ec4c1f6706"
KEY = "5ebcea5ee37023ccb9fc2d2019f9d7737be85591ae8652ffa9ef0f4d37063b0e"
BLINDED = "609a0ae68c15a3cf6903766461307e5c8bb2f95e7e6550e1ffa2dc99e412803c"
EVALUATED = "7ec6578ae5120958eb2db1745758ff379e77cb64fe77b0b2d8cc917ea0869c7e"
"""RFC 9497, appendix A.1.1, vector 1, whose input is one zero byte."""


def points(*encoded):
    return np.frombuffer(bytes.fromhex("".join(encoded)), dtype=np.uint8).reshape(-1, 32)


def scalar(number):
    return Scalar((number % ORDER).to_bytes(32, "little"))


@pytest.mark.parametrize("number", [1, 2, 3])
def test_multiples_of_the_generator_are_those_of_rfc_9496(number):
    assert np.array_equal(scalar(number).multiply(points(MULTIPLES[0])), points(MULTIPLES[number - 1]))


@pytest.mark.parametrize("kind", INVALID)
def test_bytes_that_rfc_9496_calls_invalid_are_refused_wherever_they_stand(kind):
    with pytest.raises(InvalidPointError) as refused:
        scalar(5).multiply(points(MULTIPLES[0], INVALID[kind], MULTIPLES[1]))
    assert INVALID[kind] not in str(refused.value)


def test_the_identity_is_refused():
    with pytest.raises(InvalidPointError):
        scalar(5).multiply(np.zeros((1, 32), dtype=np.uint8))


def test_hashing_and_blinding_give_what_rfc_9497_says():
    hashed = hash_to_points([b"\0"], CONTEXT)
    blinded = Scalar(bytes.fromhex(BLIND)).multiply(hashed)
    assert blinded.tobytes().hex() == BLINDED
    assert Scalar(bytes.fromhex(KEY)).multiply(blinded).tobytes().hex() == EVALUATED


def test_the_inverse_undoes_a_multiplication():
    secret = Scalar.draw(InsecureTestEntropy("inverse"))
    hashed = hash_to_points([b"a", b"b"], b"tag")
    assert np.array_equal(secret.inverse().multiply(secret.multiply(hashed)), hashed)


def test_zero_has_no_inverse():
    with pytest.raises(ZeroDivisionError):
        scalar(0).inverse()


def test_every_tag_has_points_of_its_own():
    assert not np.array_equal(hash_to_points([b"a"], b"one"), hash_to_points([b"a"], b"two"))
    with pytest.raises(ShapeError):
        hash_to_points([b"a"], b"x" * 256)
    with pytest.raises(ShapeError):
        hash_to_points([b"a"], b"")


def test_a_part_of_an_array_is_multiplied_as_the_whole_is():
    hashed = hash_to_points([b"%d" % number for number in range(6)], b"tag")
    assert np.array_equal(scalar(7).multiply(hashed[1::2]), scalar(7).multiply(hashed)[1::2])
    assert scalar(7).multiply(hashed[:0]).shape == (0, 32)


def test_arrays_that_are_no_points_are_refused():
    for wrong in (np.zeros((2, 31), np.uint8), np.zeros(32, np.uint8), np.zeros((2, 32), np.int64)):
        with pytest.raises(ShapeError):
            scalar(1).multiply(wrong)


def test_a_scalar_shows_nothing_and_cannot_be_stored():
    secret = Scalar(bytes.fromhex(KEY))
    assert repr(secret) == str(secret) == "Scalar()"
    with pytest.raises(TypeError):
        pickle.dumps(secret)
    with pytest.raises(ShapeError):
        Scalar(b"short")


def test_drawn_scalars_differ_and_are_below_the_order():
    entropy = InsecureTestEntropy("scalars")
    drawn = {Scalar.draw(entropy)._encoded for _ in range(20)}
    assert len(drawn) == 20
    assert all(0 < int.from_bytes(encoded, "little") < ORDER for encoded in drawn)


async def test_spread_cuts_sequences_alike_and_keeps_the_order():
    session = LocalNetwork(local_names(1)).session(1)
    n = 2 * PIECE + 3
    first, second = np.arange(n), np.arange(n) * 10
    pieces = await spread(session, lambda a, b: b - a, first, second)
    assert [len(piece) for piece in pieces] == [PIECE, PIECE, 3]
    assert np.array_equal(np.concatenate(pieces), 9 * first)
    assert await spread(session, len, first[:0]) == []
