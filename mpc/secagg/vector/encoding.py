"""From a member's real vector to integers of proven size, and from the sum of all members' integers back.

Every parameter is public and agreed before the round. What is clipped is counted, and the count stays with the member.
"""

import math
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from entropy import Entropy, KeyStream
from entropy.stream import KEY_BYTES
from mpc.errors import LocalFaultError, ShapeError
from mpc.secagg.errors import EncodingOverflowError
from mpc.secagg.vector.group import SumGroup
from mpc.secagg.vector.rotation import padded_length, rotate, rotate_back
from mpc.transcript import encode_fields

Integers = NDArray[np.int64]
_SHRINK = 1.0 - 2.0**-40
_MAX_UNITS = 1 << 52
_MAX_INTEGER = (1 << 63) - 1


class Rounding(StrEnum):
    """How a scaled value becomes an integer."""

    TOWARD_ZERO = "toward-zero"
    """Never lengthens a vector, so noise need not cover the rounding. Biased by less than one unit per entry."""

    STOCHASTIC = "stochastic"
    """Up or down at random, right on average; the norm may grow by sqrt(entries)."""


@dataclass(frozen=True)
class EncodedVector:
    """The encoded contribution of a member, with facts about it that only the member may know.

    Attributes:
        values: integers, shape (encoding.n_elements,). Secret.
        clipped_fraction: fraction of the entries that were outside the range, 0 .. 1. Private: it depends on the data.
        norm_was_clipped: whether the whole vector was shortened. Private likewise.
    """

    values: Integers = field(repr=False)
    clipped_fraction: float = field(repr=False)
    norm_was_clipped: bool = field(repr=False)


@dataclass(frozen=True)
class VectorEncoding:
    """A public rule that makes integers of a vector.

    A vector of finite numbers is shortened to Euclidean norm `norm_clip` if that is given, rotated if `rotation` is
    given, clipped entry by entry to [-clip, clip], multiplied by `units` and rounded. With `largest_weight` the
    integers are multiplied by the member's weight, an integer, and the weight itself, times `weight_units`, is the last
    element: it travels masked, like everything else.

    Attributes:
        length: entries of a member's vector.
        clip: largest size of an entry, after rotation.
        units: integer units per 1.0, 1 .. 2^52.
        rounding: rule of rounding to integers.
        norm_clip: largest Euclidean norm of a vector, or None for no limit.
        rotation: public label of the rotation, or None for none.
        largest_weight: largest weight of a member, or None for plain sums.
        weight_units: integer units per 1 of weight: noise that is sized for the entries would otherwise hide weights.

    Raises:
        LocalFaultError: a parameter is out of range.
        EncodingOverflowError: the scaled values need more than 53 bits, or an element more than 63 bits and a sign.
    """

    length: int
    clip: float
    units: int = 1
    rounding: Rounding = Rounding.TOWARD_ZERO
    norm_clip: float | None = None
    rotation: str | None = None
    largest_weight: int | None = None
    weight_units: int = 1

    def __post_init__(self) -> None:
        limits = [self.clip] if self.norm_clip is None else [self.clip, self.norm_clip]
        if self.length < 1 or not 1 <= self.units <= _MAX_UNITS:
            raise LocalFaultError("an encoding needs at least one entry and 1 to 2^52 units per 1.0")
        if not all(math.isfinite(limit) and limit > 0 for limit in limits):
            raise LocalFaultError("clipping bounds must be positive and finite")
        if self.largest_weight is not None and self.largest_weight < 1:
            raise LocalFaultError("the largest weight must be at least 1")
        if self.weight_units < 1 or (self.weight_units > 1 and self.largest_weight is None):
            raise LocalFaultError("the units of weights must be at least 1, and 1 where there are no weights")
        if self.clip * self.units > 1 << 53:
            raise EncodingOverflowError(
                "clip times units must not exceed 2^53, because float64 cannot represent larger scaled values exactly"
            )
        if self.largest_element > _MAX_INTEGER:
            raise EncodingOverflowError(
                "the largest weight times the largest entry must not exceed 2^63 - 1, because a member computes with "
                "64-bit integers"
            )

    @property
    def kind(self) -> str:
        """What a member's policy allows or not: the rounding, "rotated-" before it where there is a rotation."""
        return f"rotated-{self.rounding}" if self.rotation is not None else str(self.rounding)

    @property
    def n_entries(self) -> int:
        """Entries after rotation."""
        return self.length if self.rotation is None else padded_length(self.length)

    @property
    def n_elements(self) -> int:
        """Group elements that a member contributes: the entries, and its weight if there are weights."""
        return self.n_entries + (self.largest_weight is not None)

    @property
    def largest_entry(self) -> int:
        """The largest size of an integer entry before weighting, exactly."""
        scaled = Fraction(self.clip) * self.units
        return math.floor(scaled) if self.rounding is Rounding.TOWARD_ZERO else math.ceil(scaled)

    @property
    def largest_element(self) -> int:
        """The largest size of anything a member contributes."""
        if self.largest_weight is None:
            return self.largest_entry
        return self.largest_weight * max(self.weight_units, self.largest_entry)

    @property
    def squared_norm_bound(self) -> int:
        """The largest sum of squares of the integer entries of one member, before weighting: what noise must cover.

        `encode` guarantees it in integer arithmetic. With norm limit c, u units and n entries it is floor((c u)^2) when
        rounding toward zero, floor((c u + sqrt n)^2) for stochastic rounding; without a norm limit it is n times the
        square of the largest entry. (The bound (c u)^2 + n for stochastic rounding, as in [SPCA24, eq. 13], is false.)
        """
        by_entries = self.n_entries * self.largest_entry**2
        if self.norm_clip is None:
            return by_entries
        scaled = Fraction(self.norm_clip) * self.units
        if self.rounding is Rounding.STOCHASTIC:
            scaled += Fraction(math.isqrt(self.n_entries << 40) + 1, 1 << 20)
        return min(by_entries, math.floor(scaled**2))

    def check_fits(self, group: SumGroup, n_members: int, noise_bound: int = 0) -> None:
        """Prove that the sum of all members' integers, and noise, is represented exactly in a group.

        Args:
            group: group of the sum.
            n_members: maximum number of members that contribute.
            noise_bound: public bound on the size of the noise in the sum.

        Raises:
            EncodingOverflowError: n_members * largest_element + noise_bound is above the group's largest integer.
        """
        bound = n_members * self.largest_element + noise_bound
        if bound > group.largest:
            raise EncodingOverflowError(
                f"values of {n_members} members of up to {self.largest_element} and noise of up to {noise_bound} may "
                f"add up to {bound}, but the largest integer of {group.name} is {group.largest}: use more bits, fewer "
                "units or a tighter clip"
            )

    def encode(self, vector: ArrayLike, entropy: Entropy, weight: int | None = None) -> EncodedVector:
        """Return a member's integers.

        Args:
            vector: shape (length,), finite real numbers.
            entropy: random source of stochastic rounding; 32 bytes are read then, else none.
            weight: 0 .. largest_weight, if and only if the encoding has weights.

        Raises:
            LocalFaultError: a value is not finite, or the weight does not fit the encoding.
            ShapeError: not of this length.
        """
        x = np.array(vector, dtype=np.float64)
        if x.shape != (self.length,):
            raise ShapeError(f"the encoding takes {self.length} entries, not an array of shape {x.shape}")
        if not np.isfinite(x).all():
            raise LocalFaultError("the vector has entries that are not finite numbers")
        if (weight is None) != (self.largest_weight is None):
            raise LocalFaultError("a weight is given if and only if the encoding has weights")
        if weight is not None and not 0 <= weight <= (self.largest_weight or 0):
            raise LocalFaultError(f"the weight is not within 0..{self.largest_weight}")
        norm_was_clipped = self._clip_norm(x)
        if self.rotation is not None:
            x = rotate(x, self.rotation)
        n_clipped = int(np.count_nonzero(np.abs(x) > self.clip))
        np.clip(x, -self.clip, self.clip, out=x)
        integers = self._round(x * self.units, entropy)
        if weight is not None:
            integers = np.append(integers * weight, np.int64(weight * self.weight_units))
        return EncodedVector(integers, n_clipped / self.n_entries, norm_was_clipped)

    def check_values(self, values: Integers) -> None:
        """Refuse integers that `encode` cannot have made: the proof of `check_fits` would not cover them.

        Raises:
            EncodingOverflowError: one is too large. ShapeError: wrong shape. Neither says which or by how much.
        """
        if values.shape != (self.n_elements,) or values.dtype != np.int64:
            raise ShapeError(f"the round sums {self.n_elements} 64-bit integers per member")
        if max(int(values.max()), -int(values.min())) > self.largest_element:
            raise EncodingOverflowError(f"the absolute value of an element is larger than {self.largest_element}")

    def decode_sum(self, total: NDArray[Any]) -> NDArray[np.float64]:
        """Return the sum of the members' vectors (each times its weight, if there are weights), shape (length,)."""
        entries = np.asarray(total[: self.n_entries], dtype=np.float64) / self.units
        return entries if self.rotation is None else rotate_back(entries, self.length, self.rotation)

    def total_weight(self, total: NDArray[Any]) -> int | float:
        """Return the sum of the members' weights; not a whole number where noise is finer than a weight of 1."""
        if self.largest_weight is None:
            raise LocalFaultError("this encoding has no weights")
        units = int(total[self.n_entries])
        return units if self.weight_units == 1 else units / self.weight_units

    def encode_rule(self) -> bytes:
        """Return the rule itself as bytes, for the hash of the round's configuration."""
        return encode_fields(
            self.length,
            float(self.clip).hex(),
            self.units,
            self.rounding,
            "none" if self.norm_clip is None else float(self.norm_clip).hex(),
            "none" if self.rotation is None else f"label {self.rotation}",
            self._weight_rule,
        )

    @property
    def _weight_rule(self) -> str:
        if self.largest_weight is None:
            return "none"
        return f"{self.largest_weight}" if self.weight_units == 1 else f"{self.largest_weight} in {self.weight_units}"

    def _clip_norm(self, x: NDArray[np.float64]) -> bool:
        if self.norm_clip is None:
            return False
        largest = float(np.abs(x).max())
        if largest == 0.0:
            return False
        norm = largest * float(np.linalg.norm(x / largest))  # the squares alone might overflow
        if norm <= self.norm_clip:
            return False
        x *= self.norm_clip / norm
        return True

    def _round(self, scaled: NDArray[np.float64], entropy: Entropy) -> Integers:
        """Return integers within `largest_entry` and, where there is a norm limit, within `squared_norm_bound`.

        Both hold exactly. The product of a clipped entry and `units` may be rounded up by floating point to an integer
        that the exact product stays below (0.7 times 10 is 7.0, and exactly it is less), so integers are clipped too.
        """
        if self.rounding is Rounding.TOWARD_ZERO:
            integers = self._within_largest_entry(np.trunc(scaled).astype(np.int64))
        else:
            floor = np.floor(scaled)
            words = KeyStream(entropy.read(KEY_BYTES)).words(scaled.size)
            rounded = (floor + ((words >> np.uint64(11)) * 2.0**-53 < scaled - floor)).astype(np.int64)
            integers = self._within_largest_entry(rounded)
        if self.norm_clip is None:  # the bound is that of the entries, and they keep theirs
            return integers
        # Floating-point error may leave a vector a little too long; integers decide, and it is shrunk until it is not.
        while _squared_norm(integers) > self.squared_norm_bound:
            scaled = scaled * _SHRINK
            integers = self._within_largest_entry(np.trunc(scaled).astype(np.int64))
        return integers

    def _within_largest_entry(self, integers: Integers) -> Integers:
        return np.clip(integers, -self.largest_entry, self.largest_entry)


def _squared_norm(integers: Integers) -> int:
    """Return the exact sum of squares: in 64 bits where it fits, else in Python integers."""
    largest = max(int(integers.max()), -int(integers.min()))
    if largest * largest * integers.size < 1 << 63:
        return int(np.dot(integers, integers))
    return sum(int(v) * int(v) for v in integers)
