"""Exact randomized response: bits that are reported as they are with a rational probability, else flipped."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dp.cost.accounting import Adjacency, CalibrationError, check_delta, check_epsilon
from dp.cost.calibrate import last_enough
from dp.cost.events.randomized_response import RandomizedResponseDpEvent
from dp.draw.noise import sample_bernoulli
from entropy import Entropy

Bits = NDArray[np.bool_]

BIAS_UNIT = Fraction(1, 1 << 21)
"""Biases are multiples of it: planning is quick, and machines whose logarithms differ in the last bit plan alike."""


@dataclass(frozen=True)
class RandomizedBits:
    """Reports each bit truthfully with probability 1/2 + bias, independently [Warner65].

    A report tells at most ln((1/2 + bias) / (1/2 - bias)) of its bit. Where one unit can flip two bits, as a category
    among indicators does [VertPrim23, appendix B], an epsilon for both allows bias = tanh(epsilon / 4) / 2; the paper's
    epsilon / 16 spends half of it.

    Attributes:
        bias: positive, below 1/2.
    """

    bias: Fraction

    def __post_init__(self) -> None:
        if not 0 < self.bias < Fraction(1, 2):
            raise ValueError(f"the bias of randomized response must be between 0 and 1/2, not {float(self.bias):g}")

    @staticmethod
    def largest_bias(
        epsilon_of: Callable[["RandomizedBits"], float], *, epsilon: float, delta: float = 0.5
    ) -> "RandomizedBits":
        """Return the least noise, among multiples of `BIAS_UNIT`, of which what is released costs at most `epsilon`.

        Args:
            epsilon_of: cost of a whole release made with these bits; grows with the bias.
            epsilon: positive.
            delta: delta for which `epsilon_of` states it; checked here for a clear error.

        Raises:
            CalibrationError: epsilon or delta is out of range, or no bias is small enough.
        """
        check_epsilon(epsilon)
        check_delta(delta)

        def bits(step: int) -> RandomizedBits:
            return RandomizedBits(step * BIAS_UNIT)

        enough = last_enough(
            lambda step: epsilon_of(bits(step)) <= epsilon, lacking=int(Fraction(1, 2) / BIAS_UNIT), enough=0
        )
        if enough == 0:
            raise CalibrationError(
                f"epsilon {epsilon:g} is so small that randomized response would carry no information; use a larger "
                "epsilon"
            )
        return bits(enough)

    @property
    def truthful(self) -> Fraction:
        """Probability that a bit is reported as it is."""
        return Fraction(1, 2) + self.bias

    def event(self, adjacency: Adjacency) -> RandomizedResponseDpEvent:
        """Return what the report of one bit costs, for neighbours that differ in it."""
        return RandomizedResponseDpEvent(2, self.truthful, adjacency)

    def draw(self, entropy: Entropy, shape: tuple[int, ...]) -> Bits:
        """Draw which bits are flipped: each with probability 1/2 - bias, exactly. Reports are bits ^ flips.

        Args:
            entropy: gives the key of the stream.
            shape: shape of the bits.
        """
        return sample_bernoulli(entropy, 1 - self.truthful, math.prod(shape)).reshape(shape)
