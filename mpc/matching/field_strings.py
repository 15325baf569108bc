"""Field elements as uniform strings of bits, so that who reads garbage instead of an element cannot tell.

A packed word is no such string: its highest bit is zero and its residues are below their primes. A word that is read
with the right key would look different from one that is read with a wrong key, which is uniform.

    element      per word of three primes with product Q < 2^63 a string of 128 bits, read as an integer modulo Q. The
                 string of an element is uniform among the strings that are read as it; so the string of a uniform
                 element is uniform up to a statistical distance of 2 Q / 2^128 < 2^-64.
    tag          a string of 64 bits per word, uniform exactly. Three parts of 21 bits become residues. Two equal tags
                 are equal as elements; two independent ones agree modulo all three primes with a probability below
                 2^-62.9, and modulo one with a probability below 2^-20.9.
"""

from collections.abc import Callable

import numpy as np

from entropy import KeyStream
from mpc.arithmetic import kernels
from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.kernels import RESIDUE_BITS, RESIDUES_PER_WORD
from mpc.arithmetic.moduli import words_of
from mpc.arithmetic.words import Words

WORDS_PER_STRING = 2
"""64-bit words of the string of an element, per word of the field: the high one, then the low one."""

_AS_IT_IS = np.uint64((1 << 63) - 1)
"""No integer below Q is above it, so none is made negative."""

_LOW_BITS = np.uint64((1 << RESIDUE_BITS) - 1)


def elements_of_strings(field: ResidueField, strings: Words) -> Words:
    """Read strings as elements.

    Args:
        field: field of the elements.
        strings: shape (n, m, n_words, 2).

    Returns:
        Packed words, shape (n_words, n, m).
    """

    def residue(word: int, prime: np.uint64) -> Words:
        high, low = strings[:, :, word, 0], strings[:, :, word, 1]
        return (high % prime * np.uint64((1 << 64) % int(prime)) + low % prime) % prime

    return _packed(field, strings.shape[:2], residue)


def strings_of_elements(field: ResidueField, words: Words, stream: KeyStream) -> Words:
    """Draw a string of each element; inverse of `elements_of_strings`.

    A uniform string is moved up, by less than Q, to the next string that is read as the element; or down, where the
    next one would have more than 128 bits.

    Args:
        field: field of the elements.
        words: shape (n_words, n, m).
        stream: read from where it stands.

    Returns:
        Shape (n, m, n_words, 2).
    """
    _, n, m = words.shape
    strings = stream.words(n * m * field.n_words * WORDS_PER_STRING).astype(np.uint64, copy=False)
    strings = strings.reshape(n, m, field.n_words, WORDS_PER_STRING)
    missing = field.subtract(words, elements_of_strings(field, strings))
    for number, constants in enumerate(words_of(field.primes)):
        up, row = np.empty(n * m, dtype=np.uint64), np.ascontiguousarray(missing[number]).reshape(-1)
        kernels.from_residues(up, row, constants.garner, constants.primes, constants.inverses, _AS_IT_IS, np.uint64(0))
        up = up.reshape(n, m)
        high, low = strings[:, :, number, 0], strings[:, :, number, 1]
        low += up
        carry = low < up
        high += carry
        too_far = carry & (high == 0)
        order = np.uint64(constants.order)
        high -= too_far & (low < order)
        low -= np.where(too_far, order, np.uint64(0))
    return strings


def elements_of_tags(field: ResidueField, tags: Words) -> Words:
    """Read tags of 64 bits per word as elements.

    Args:
        field: field of the elements.
        tags: shape (n, m, n_words).

    Returns:
        Packed words, shape (n_words, n, m).
    """

    def residue(word: int, prime: np.uint64, place: int) -> Words:
        part = (tags[:, :, word] >> np.uint64(RESIDUE_BITS * place)) & _LOW_BITS
        return part % prime

    return _packed_by_place(field, tags.shape[:2], residue)


def _packed(field: ResidueField, shape: tuple[int, ...], residue: Callable[[int, np.uint64], Words]) -> Words:
    return _packed_by_place(field, shape, lambda word, prime, _: residue(word, prime))


def _packed_by_place(
    field: ResidueField, shape: tuple[int, ...], residue: Callable[[int, np.uint64, int], Words]
) -> Words:
    out = field.zeros(shape)
    for number, prime in enumerate(field.primes):
        word, place = divmod(number, RESIDUES_PER_WORD)
        out[word] |= residue(word, np.uint64(prime), place) << np.uint64(RESIDUE_BITS * place)
    return out
