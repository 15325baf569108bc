"""The random matrix of a sketch: the same at all data parties, integers only, drawn from a key that they agreed on."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from entropy import KeyStream

Entries = Literal["gaussian", "signs"]

MAX_BLOCK_COLUMNS = 1 << 14
_ENTRIES_PER_BLOCK = 1 << 20
_TRIALS = 64  # of the binomial entries: one word of the stream each


@dataclass(frozen=True)
class SketchMatrix:
    """G: `n_rows` rows; as many columns as asked for, independent and alike.

    `gaussian`: on a lattice, as a sensitivity needs integers: 64 fair bits, counted, less 32. Mean 0, variance 16,
    kurtosis 3 - 1/32; sub-Gaussian, which is all that bounds for such sketches need. Every machine draws the same ones,
    as no floating-point logarithm is involved.

    `signs`: +1 or -1. All columns have the same norm, so the noise need not follow the longest of them.

    Attributes:
        n_rows: s.
        entries: their distribution.
    """

    n_rows: int
    entries: Entries

    @property
    def variance(self) -> int:
        """Variance of one entry. The expected value of G^T G is s times this variance times the identity."""
        return _TRIALS // 4 if self.entries == "gaussian" else 1

    @property
    def largest_entry(self) -> int:
        """Largest absolute value of an entry."""
        return _TRIALS // 2 if self.entries == "gaussian" else 1

    @property
    def block_columns(self) -> int:
        """Number of columns that are drawn at once; it is the same at all parties."""
        return min(MAX_BLOCK_COLUMNS, max(64, _ENTRIES_PER_BLOCK // self.n_rows))

    def draw(self, stream: KeyStream, n_columns: int) -> NDArray[np.int8]:
        """Return the next columns, as rows: shape (n_columns, n_rows)."""
        shape, n_entries = (n_columns, self.n_rows), n_columns * self.n_rows
        if self.entries == "gaussian":
            counted = np.bitwise_count(stream.words(n_entries)).astype(np.int8)
            return (counted - np.int8(_TRIALS // 2)).reshape(shape)
        bits = np.unpackbits(np.frombuffer(stream.read(-(-n_entries // 8)), dtype=np.uint8), count=n_entries)
        return (2 * bits.astype(np.int8) - np.int8(1)).reshape(shape)

    def largest_squared_norm(self, columns: NDArray[np.int8]) -> int:
        """Return the largest squared norm of some columns, as `draw` returns them."""
        wide = columns.astype(np.int32)
        return int(np.einsum("ij,ij->i", wide, wide).max(initial=0))
