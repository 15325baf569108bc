"""Pseudorandom functions of blocks: AES and CBC-MAC as they are published, SHAKE-256 as of the standard library."""

import hashlib

import numpy as np
import pytest
from uniformity import chi_squared_of_bytes

from mpc.errors import ShapeError
from mpc.matching.block_prf import block_of_numbers, encipher, lengthen, mac

KEY = bytes(range(32))


def test_blocks_are_enciphered_as_in_fips_197():
    plain = np.frombuffer(bytes.fromhex("00112233445566778899aabbccddeeff"), dtype=np.uint8)
    expected = "8ea2b7ca516745bfeafc49904b496089"
    assert [row.tobytes().hex() for row in encipher(KEY, np.stack([plain] * 2))] == [expected] * 2


def test_a_mac_of_several_blocks_is_the_last_block_of_cbc():
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    parts = [np.frombuffer(hashlib.sha256(bytes([i])).digest()[:16], dtype=np.uint8)[None] for i in range(3)]
    encryptor = Cipher(algorithms.AES256(KEY), modes.CBC(bytes(16))).encryptor()
    assert mac(KEY, *parts).tobytes() == encryptor.update(b"".join(p.tobytes() for p in parts))[-16:]


def test_numbers_are_told_apart_and_blocks_hold_them():
    blocks = block_of_numbers(np.array([[1, 2, 3], [4, 5, 1 << 40]]).T[:, 1])
    assert [int.from_bytes(row.tobytes(), "little") for row in blocks] == [4, 5, 1 << 40]


def test_bytes_are_those_of_blake2b_at_each_place_and_for_each_purpose():
    keys = encipher(KEY, block_of_numbers(np.arange(100)))
    out = lengthen(keys, "pads", 140)
    assert out.shape == (100, 140)
    for place in range(3):
        row = keys[7].tobytes() + place.to_bytes(16, "little")
        digest = hashlib.blake2b(row, key=b"pads", person=b"moiety lengthen").digest()
        assert out[7, 64 * place : 64 * (place + 1)].tobytes() == digest[: 140 - 64 * place]
    assert not (out == lengthen(keys, "seeds", 140)).all(axis=1).any()
    assert lengthen(keys[:0], "pads", 40).shape == (0, 40)


def test_what_comes_out_looks_uniform():
    assert abs(chi_squared_of_bytes(mac(KEY, block_of_numbers(np.arange(4000)), block_of_numbers(np.arange(4000))))) < 5


def test_arrays_of_other_shapes_are_refused():
    with pytest.raises(ShapeError):
        encipher(KEY, np.zeros((3, 15), np.uint8))
