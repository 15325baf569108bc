"""Integers of a public range as digits, so that exactly those of the range have any.

An integer 0 .. R is sum_j v_j d_j with digits 0 <= d_j <= e_j, where v_0 = 1 and sum_j v_j e_j = R: nothing above R has
digits, and everything up to R has, as each weight is at most one more than what the digits before it add up to.
"""

from dataclasses import dataclass
from itertools import count

import numpy as np
from numpy.typing import NDArray

from mpc.prime.field import signed

LARGEST_TOP = 15
"""Largest digit. A prover's work grows with the square of how many values a digit has, and the length of what it shares
falls with their logarithm only."""


@dataclass(frozen=True)
class Digits:
    """How integers of one range are written.

    Attributes:
        weights: v_j, ascending.
        tops: e_j.
    """

    weights: tuple[int, ...]
    tops: tuple[int, ...]

    @classmethod
    def of_range(cls, largest: int) -> "Digits":
        """Return as few digits as there can be for 0 .. largest, with as few values as so many digits need.

        Args:
            largest: R, 1 and up.
        """
        for n_digits in count(1):
            for base in range(2, LARGEST_TOP + 2):
                if base**n_digits > largest:
                    found = cls._of_base(largest, base, n_digits)
                    if max(found.tops) <= LARGEST_TOP:
                        return found
        raise AssertionError("some number of digits is enough")

    @classmethod
    def _of_base(cls, largest: int, base: int, n_digits: int) -> "Digits":
        """With v = (R + 1) / b, rounded down, the digits before leave R - (b - 1) v >= v - 1 to be written."""
        weights: list[int] = []
        rest = largest
        for _ in range(n_digits - 1):
            weights.append(max(1, (rest + 1) // base))
            rest -= (base - 1) * weights[-1]
        return cls((1, *reversed(weights)), (rest, *[base - 1] * (n_digits - 1)))

    @property
    def largest(self) -> int:
        """R."""
        return sum(weight * top for weight, top in zip(self.weights, self.tops, strict=True))

    def taken(self, integers: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Return the digits of integers, shape (..., digits), as elements of the field of proofs.

        They add up to the integer, whatever it is; the first one is beyond its top where the integer is out of range.
        """
        rest = integers.astype(np.int64)
        found = np.empty((*rest.shape, len(self.weights)), dtype=np.uint64)
        for place in range(len(self.weights) - 1, 0, -1):
            digit = np.clip(rest // self.weights[place], 0, self.tops[place])
            found[..., place] = digit
            rest = rest - digit * self.weights[place]
        found[..., 0] = signed(rest)
        return found
