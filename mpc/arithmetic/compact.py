"""Elements of a field of 1 or 4 primes without the empty places of their last words: as the rows of a table travel.

An element of such a field has a single residue in its last word, and two of three places there are empty. In compact
form the last words of three elements are one word: all the other words of n elements as they are, then m = ceil(n / 3)
words, of which word j holds the last residues of the elements j, m + j and 2 m + j, in the order of its bits. Places
beyond the last element are zero. A row of a table of four primes takes 4/3 words instead of 2.

Elements of other fields are as they are; nothing here is for them.
"""

from math import prod

import numpy as np

from entropy import KeyStream
from mpc.arithmetic import kernels
from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.kernels import RESIDUE_BITS, RESIDUES_PER_WORD
from mpc.arithmetic.words import Words
from mpc.errors import OutOfRangeError, ShapeError

_STREAM_CHUNK = 1 << 16  # as in `mpc.arithmetic.field`
_SECOND, _THIRD = np.uint64(RESIDUE_BITS), np.uint64(2 * RESIDUE_BITS)
_RESIDUE = np.uint64((1 << RESIDUE_BITS) - 1)


class CompactForm:
    """The compact form of the elements of one field.

    Args:
        field: with 1 or 4 primes, see `has_compact_form`.
    """

    def __init__(self, field: ResidueField) -> None:
        self._field = field
        self._n_whole = field.n_words - 1
        self._whole = ResidueField.over(field.primes[:-1]) if self._n_whole else None
        prime = field.primes[-1]
        self._primes = np.array([prime] * RESIDUES_PER_WORD, dtype=np.uint64)
        used = (1 << (prime - 1).bit_length()) - 1
        self._mask = np.uint64(sum(used << RESIDUE_BITS * i for i in range(RESIDUES_PER_WORD)))

    def n_words(self, n_elements: int) -> int:
        """Return how many words so many elements take."""
        return self._n_whole * n_elements + -(-n_elements // RESIDUES_PER_WORD)

    def compacted(self, words: Words) -> Words:
        """Return elements in compact form, shape `(self.n_words(elements),)`, a new array.

        Args:
            words: shape `(n_words, *shape)`.
        """
        n = words[0].size
        out = np.zeros(self.n_words(n), dtype=np.uint64)
        whole, packed = self._parts(out, n)
        whole[:] = words[:-1].reshape(self._n_whole, n)
        last, m = words[-1].reshape(-1), len(packed)
        packed[:] = last[:m]
        for third, shift in ((last[m : 2 * m], _SECOND), (last[2 * m :], _THIRD)):
            packed[: len(third)] |= third << shift
        return out

    def expanded(self, compact: Words, shape: tuple[int, ...]) -> Words:
        """Return the elements, shape `(n_words, *shape)`, a new array. `compact` has been checked, or drawn."""
        n = prod(shape)
        out = np.empty((self._n_whole + 1, n), dtype=np.uint64)
        whole, packed = self._parts(compact, n)
        out[:-1] = whole
        _spread(packed, out[-1])
        return out.reshape(self._n_whole + 1, *shape)

    def check(self, compact: Words, n_elements: int) -> None:
        """Accept only so many elements in compact form. Runs on everything that comes from the network.

        Raises:
            OutOfRangeError: a residue is not below its prime, or an unused bit is set.
            ShapeError: it has another shape.
        """
        if compact.dtype != np.uint64 or compact.shape != (self.n_words(n_elements),):
            raise ShapeError("elements in compact form have another shape")
        whole, packed = self._parts(compact, n_elements)
        if self._whole is not None:
            self._whole.check(whole)
        m = len(packed)
        beyond = ((packed[max(0, n_elements - i * m) :] >> shift).any() for i, shift in ((1, _SECOND), (2, _THIRD)))
        if kernels.count_out_of_range(packed, self._primes) or any(beyond):
            raise OutOfRangeError("words are not elements of the field in compact form")

    def random(self, stream: KeyStream, shape: tuple[int, ...]) -> Words:
        """Draw uniform elements; whoever holds the same stream draws the same ones, and they are not compact.

        They are drawn in compact form, which takes fewer words of the stream than `ResidueField.random`: at first the
        other words, as the field of their primes draws them; then the last ones, each a word of the stream of which a
        residue that is not below its prime rejects the whole word; then the rejected ones again, in their order.

        Args:
            stream: read from where it stands.
            shape: shape of the elements.
        """
        n = prod(shape)
        out = np.empty((self._n_whole + 1, n), dtype=np.uint64)
        if self._whole is not None:
            self._whole.random(stream, n, out=out[:-1])
        packed = np.empty(-(-n // RESIDUES_PER_WORD), dtype=np.uint64)
        rejected = np.empty(0, dtype=np.int64)
        positions = np.empty(min(_STREAM_CHUNK, len(packed)), dtype=np.int64)
        for start in range(0, len(packed), _STREAM_CHUNK):
            part = packed[start : start + _STREAM_CHUNK]
            stream.fill(part)
            n_found = kernels.mask_and_reject(part, self._mask, self._primes, positions)
            rejected = np.concatenate((rejected, positions[:n_found] + start))
        while rejected.size:
            again = stream.words(rejected.size).astype(np.uint64, copy=False)
            positions = np.empty(rejected.size, dtype=np.int64)
            n_found = kernels.mask_and_reject(again, self._mask, self._primes, positions)
            packed[rejected] = again
            rejected = rejected[positions[:n_found]]
        _spread(packed, out[-1])
        return out.reshape(self._n_whole + 1, *shape)

    def _parts(self, compact: Words, n_elements: int) -> tuple[Words, Words]:
        """Return views of the whole words, shape `(n_words - 1, n)`, and of those that three elements share."""
        end = self._n_whole * n_elements
        return compact[:end].reshape(self._n_whole, n_elements), compact[end:]


def _spread(packed: Words, last: Words) -> None:
    """Write the residues of words that three elements share, one to a word; of more residues the first ones."""
    m = len(packed)
    np.bitwise_and(packed, _RESIDUE, out=last[:m])
    for third, shift in ((last[m : 2 * m], _SECOND), (last[2 * m :], _THIRD)):
        np.right_shift(packed[: len(third)], shift, out=third)
    last[m : 2 * m] &= _RESIDUE


def has_compact_form(field: ResidueField) -> bool:
    """Return whether the last word of an element has a single residue."""
    return len(field.primes) % RESIDUES_PER_WORD == 1
