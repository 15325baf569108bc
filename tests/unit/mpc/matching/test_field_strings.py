"""Field elements as uniform strings of bits: read back as they are, and not to be told from garbage."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from uniformity import worst_of_places

from entropy import KeyStream
from mpc.arithmetic.field import ResidueField
from mpc.matching.field_strings import elements_of_strings, elements_of_tags, strings_of_elements

KEY = bytes(range(32))


class WordsOf:
    """A stream that gives chosen words."""

    def __init__(self, word: int) -> None:
        self._word = word

    def words(self, n_words: int) -> np.ndarray:
        return np.full(n_words, self._word, dtype=np.uint64)


@pytest.mark.parametrize("n_primes", [1, 2, 3, 4, 6])
@given(number=st.integers(0, 1 << 30))
def test_an_element_is_read_back(n_primes, number):
    field = ResidueField(n_primes)
    words = field.random(KeyStream(KEY, number), (5, 3))
    strings = strings_of_elements(field, words, KeyStream(KEY[::-1], number))
    assert strings.shape == (5, 3, field.n_words, 2)
    assert np.array_equal(elements_of_strings(field, strings), words)


@pytest.mark.parametrize("word", [0, (1 << 64) - 1, 1 << 63])
@pytest.mark.parametrize("n_primes", [3, 5])
def test_an_element_is_read_back_at_the_ends_of_the_range(n_primes, word):
    field = ResidueField(n_primes)
    words = field.encode(np.array([[0, 1, -1, 5_000_000, -9_999_999_999]]))
    strings = strings_of_elements(field, words, WordsOf(word))
    assert np.array_equal(elements_of_strings(field, strings), words)
    assert [int(high) for high in strings[0, :, 0, 0]] == [word] * 5  # no string goes around


def test_strings_are_read_as_integers_modulo_the_order():
    field = ResidueField(3)
    strings = KeyStream(KEY).words(2 * 40).reshape(40, 1, 1, 2)
    wide = [(int(high) << 64) + int(low) for high, low in strings[:, 0, 0]]
    assert field.decode(elements_of_strings(field, strings))[:, 0].tolist() == [
        (w + field.half_order) % field.order - field.half_order for w in wide
    ]


@pytest.mark.parametrize("n_primes", [2, 3])
def test_strings_of_uniform_elements_are_uniform_and_packed_words_are_not(n_primes):
    field = ResidueField(n_primes)
    words = field.random(KeyStream(KEY), (20_000, 1))
    assert worst_of_places(strings_of_elements(field, words, KeyStream(KEY[::-1]))) < 5
    assert worst_of_places(words) > 50


def test_equal_tags_are_equal_elements_and_others_differ_modulo_each_prime():
    field = ResidueField(4)
    tags = KeyStream(KEY).words(2 * 1000).reshape(1000, 1, 2)
    words = elements_of_tags(field, tags)
    field.check(words)
    assert np.array_equal(words, elements_of_tags(field, tags.copy()))
    for residue in field.residues(words):
        assert len(np.unique(residue)) > 990


def test_a_tag_is_three_residues_of_21_bits():
    field = ResidueField(2)
    p = field.primes
    tag = np.array([[[(p[0] + 3) | (7 << 21) | (1 << 63)]]], dtype=np.uint64)
    assert [int(r[0, 0]) for r in field.residues(elements_of_tags(field, tag))] == [3, 7]
