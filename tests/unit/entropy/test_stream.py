import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from entropy import KeyStream, derive_key

KEY = bytes(range(32))


def test_the_stream_is_aes_256_in_counter_mode_from_the_number_of_the_block():
    counter = (7).to_bytes(8, "big") + bytes(8)
    oracle = Cipher(algorithms.AES256(KEY), modes.CTR(counter)).encryptor().update(bytes(100))
    assert KeyStream(KEY, 7).read(100) == oracle


@pytest.mark.parametrize("n_words", [1, 5, 65535, 65536, 65537, 200_000])
def test_filling_an_array_yields_the_same_bytes_as_reading_whatever_its_size(n_words):
    words = KeyStream(KEY).words(n_words)
    assert words.tobytes() == KeyStream(KEY).read(8 * n_words)


def test_successive_fills_continue_the_stream():
    stream = KeyStream(KEY)
    parts = np.concatenate([stream.words(3), stream.words(70_000)])
    assert np.array_equal(parts, KeyStream(KEY).words(70_003))


def test_streams_of_different_numbers_or_keys_differ():
    first = KeyStream(KEY, 0).read(32)
    assert first != KeyStream(KEY, 1).read(32)
    assert first != KeyStream(bytes(32), 0).read(32)


def test_a_key_of_the_wrong_length_is_refused_without_showing_it():
    with pytest.raises(ValueError, match="32 bytes, not 5"):
        KeyStream(b"short")


def test_nothing_of_the_key_is_shown():
    assert KEY.hex() not in repr(KeyStream(KEY))
    assert repr(KEY) not in repr(KeyStream(KEY))


def test_derived_keys_are_those_of_rfc_5869():
    # Test case 1 of the RFC; its output key has 42 bytes, of which HKDF's first block gives the first 32.
    key = derive_key(bytes([0x0B] * 22), salt=bytes(range(13)), info=bytes(range(0xF0, 0xFA)))
    assert key.hex() == "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf"


def test_keys_for_different_purposes_differ():
    assert derive_key(KEY, salt=b"", info=b"one") != derive_key(KEY, salt=b"", info=b"two")
