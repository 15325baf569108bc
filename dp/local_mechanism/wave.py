"""The square wave mechanism and its relatives: responses that are likelier near the truth [SW20], drawn in integers.

Input i < d is answered by j < m = d + 2 w. The outputs i .. i + 2 w are the input's *window*, of k = 2 w + 1 weights
a_0 .. a_2w, the same for all inputs; every other output has the weight B. The weights sum up to T = sum a_z + (d - 1) B
for every input, and j has probability weight / T. Where all a_z are A this is the square wave.

An input `empty` has a window of its own, the outputs d + 2 w .. d + 4 w: slots that hold nobody answer as it does, so
how many they are stays hidden. Then T is larger by k B, for every input.

The randomized outputs are integers from the start. The continuous form, v + b (2 U - 1) in floating point, tells v by
the lowest bits of its sum; values are put into buckets first, which loses nothing that the estimate had.

Claim: see `dp.local_mechanism.odds.Odds`, with A the largest of the weights.
"""

from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dp.cost.accounting import CalibrationError
from dp.draw.noise import sample_uniform
from dp.draw.rejection import precise_context
from dp.local_mechanism.odds import MAX_INPUTS, LocalResponse, Odds
from entropy import Entropy

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

Shape = Literal["square", "trapezoid", "triangle"]

MAX_WINDOW = (1 << 15) + 1
"""Largest number of weights in a window: the relative half-width is at most 1/2, except for perturbed values on a finer
grid."""

_DIGITS = 60


@dataclass(frozen=True)
class Wave(LocalResponse):
    """A response of integer weights that depend on the distance to the input only.

    Attributes:
        n_inputs: d, 2 .. MAX_INPUTS, without the empty one.
        window: a_0 .. a_2w, an odd number of weights of at least B, at least one of them larger.
        other: B, the weight of outputs outside the window.
        has_empty: whether the input d, beyond the others, stands for a slot that holds nobody.

    Raises:
        CalibrationError: there is no such wave.
    """

    n_inputs: int
    window: tuple[int, ...]
    other: int
    has_empty: bool = False

    def __post_init__(self) -> None:
        if not 2 <= self.n_inputs <= MAX_INPUTS:
            raise CalibrationError(f"a wave has 2 to {MAX_INPUTS} inputs, not {self.n_inputs}")
        if len(self.window) % 2 == 0 or len(self.window) > MAX_WINDOW or min(self.window) < self.other:
            raise CalibrationError("a window has an odd number of weights, none below that of the outputs outside it")
        if self.total >= 1 << 63:
            raise CalibrationError("the weights of a wave sum up to less than 2^63")
        self.odds  # noqa: B018  # checks that the weights differ

    @staticmethod
    def square(n_inputs: int, odds: Odds, half_width: int | None = None, *, has_empty: bool = False) -> "Wave":
        """Return the square wave.

        Args:
            n_inputs: d.
            odds: A and B.
            half_width: w; by default `best_half_width`.
            has_empty: see the class.
        """
        return Wave.of_shape("square", n_inputs, odds, half_width, has_empty=has_empty)

    @staticmethod
    def of_shape(
        shape: Shape,
        n_inputs: int,
        odds: Odds,
        half_width: int | None = None,
        *,
        top: Fraction = Fraction(1, 2),
        has_empty: bool = False,
    ) -> "Wave":
        """Return a wave whose weights fall linearly from A to B on both sides of a flat top.

        Args:
            shape: `square` is flat, `triangle` has a top of one output.
            n_inputs: d.
            odds: A and B.
            half_width: w, at least 0; by default `best_half_width`.
            top: flat part of a trapezoid's window, 0 .. 1.
            has_empty: see the class.

        Raises:
            CalibrationError: there is no such wave.
        """
        w = best_half_width(n_inputs, odds) if half_width is None else half_width
        if w < 0 or not 0 <= top <= 1:
            raise CalibrationError(f"a window of half-width {w} and flat part {float(top):g} does not exist")
        flat = {"square": w, "trapezoid": int(top * w), "triangle": 0}[shape]
        rise, slope = odds.favoured - odds.other, w + 1 - flat
        window = tuple(odds.other + rise * min(slope, w + 1 - abs(z - w)) // slope for z in range(2 * w + 1))
        return Wave(n_inputs, window, odds.other, has_empty)

    @staticmethod
    def piecewise(n_inputs: int, odds: Odds, *, has_empty: bool = False) -> "Wave":
        """Return the piecewise mechanism of [Wang19] on d inputs: the square wave of half-width d e^(-epsilon/2) / 2.

        With C = (s + 1) / (s - 1), s = e^(epsilon/2), that mechanism answers x in [-1, 1] by y in [-C, C], with density
        s^2 times higher in a window of length C - 1 than elsewhere. Its window is the part (C - 1) / (2 C) = 1 / (s +
        1) of all outputs, and that of a square wave is 2 b / (1 + 2 b): they agree at b = 1 / (2 s). The centre of the
        window goes linearly from one end of the outputs to the other in both, so the two differ by a linear map of the
        outputs only. The mean of the responses, mapped back, is its estimate
        (`analyses.distribution.estimates.wave_moments`).
        """
        with localcontext(precise_context(_DIGITS)):
            root = (Decimal(odds.other) / Decimal(odds.favoured)).sqrt()
            half_width = int((n_inputs * root / 2).to_integral_value())
        return Wave.square(n_inputs, odds, half_width, has_empty=has_empty)

    @property
    def half_width(self) -> int:
        """The number w of outputs on each side of the middle of a window."""
        return (len(self.window) - 1) // 2

    @property
    def n_real_outputs(self) -> int:
        """The number d + 2 w of outputs that the windows of all inputs but the empty one cover."""
        return self.n_inputs + len(self.window) - 1

    @property
    def n_outputs(self) -> int:
        """m, with the window of the empty input where there is one."""
        return self.n_real_outputs + (len(self.window) if self.has_empty else 0)

    @property
    def empty(self) -> int:
        """The number that stands for a slot that holds nobody.

        Raises:
            CalibrationError: slots that hold nobody do not answer.
        """
        if not self.has_empty:
            raise CalibrationError("this wave has no answer for an empty slot")
        return self.n_inputs

    @cached_property
    def total(self) -> int:
        """T, the sum of the weights of all outputs, the same for every input."""
        return sum(self.window) + (self.n_outputs - len(self.window)) * self.other

    @cached_property
    def odds(self) -> Odds:  # type: ignore[override]  # of the weights here
        """A and B."""
        return Odds(max(self.window), self.other)

    @property
    def is_square(self) -> bool:
        """Whether all weights of the window are alike."""
        return min(self.window) == max(self.window)

    def weights_of(self, value: int) -> Integers:
        """Return the weight of each output for an input, shape (n_outputs,): probabilities times T."""
        weights = np.full(self.n_outputs, self.other, dtype=np.int64)
        start = self._starts(np.array([value]))[0]
        weights[start : start + len(self.window)] = self.window
        return weights

    def draw(self, entropy: Entropy, n_responses: int) -> Integers:
        """Draw what `outputs_of` turns into responses: independent uniform integers below T."""
        return sample_uniform(entropy, self.total, n_responses)

    def respond(self, values: Integers, entropy: Entropy) -> Integers:
        """Draw one response per input.

        Args:
            values: shape (n,), 0 .. d - 1, or `empty`.
            entropy: gives the key of the stream.

        Returns:
            shape (n,), 0 .. m - 1.

        Raises:
            ValueError: a value that is no input.
        """
        return self.outputs_of(values, self.draw(entropy, len(values)))

    def outputs_of(self, values: Integers, draws: Integers) -> Integers:
        """Return the output that a uniform integer below T leads to, for each input.

        The first sum a_z integers lead into the window, the others to the outputs outside it in their order.

        Args:
            values: shape (n,), inputs.
            draws: shape (n,), 0 .. T - 1.
        """
        starts, inside = self._starts(values), sum(self.window)
        if self.is_square:
            near = starts + draws // self.window[0]
        else:
            cumulative = np.array(list(accumulate(self.window)), dtype=np.int64)
            near = starts + np.searchsorted(cumulative, draws, side="right")
        far = (draws - inside) // self.other
        far = np.where(far < starts, far, far + len(self.window))
        found: Integers = np.where(draws < inside, near, far)
        return found

    def _starts(self, values: Integers) -> Integers:
        """Return the first output of each input's window."""
        n_all = self.n_inputs + self.has_empty
        if values.size and not 0 <= values.min() <= values.max() < n_all:
            raise ValueError(f"a value is outside 0..{n_all - 1}")
        found: Integers = np.where(values == self.n_inputs, self.n_real_outputs, values).astype(np.int64)
        return found


def relative_half_width(odds: Odds) -> Decimal:
    """Return b, the half-width of the square wave in units of the range, that maximises mutual information [SW20].

    b = (e^-x - 1 + x) / (2 (e^x - 1 - x)) with e^x = A / B: the printed (x e^x - e^x + 1) / (2 e^x (e^x - 1 - x)). Both
    parts are about x^2 / 2 for small x, where b = 1/2 - x/3 + ..., so six of the 60 digits cancel at x = 2^-10. Decimal
    arithmetic gives all machines one width.
    """
    with localcontext(precise_context(_DIGITS)):
        ratio = Decimal(odds.favoured) / Decimal(odds.other)
        x = ratio.ln()
        return (1 / ratio - 1 + x) / (2 * (ratio - 1 - x))


def best_half_width(n_inputs: int, odds: Odds) -> int:
    """Return w, the better one of floor and ceiling of b d, by the mutual information of input and uniform output.

    That is log m - H(row), with H(row) the entropy of the response to one input: log T - (k A log A + (d - 1) B log B)
    / T. It takes the output for uniform, as [SW20] does.
    """
    low = int(relative_half_width(odds) * n_inputs)

    def information(w: int) -> Decimal:
        k, a, b = 2 * w + 1, Decimal(odds.favoured), Decimal(odds.other)
        total = k * a + (n_inputs - 1) * b
        logs = (k * a * a.ln() + (n_inputs - 1) * b * b.ln()) / total
        return Decimal(n_inputs + 2 * w).ln() - total.ln() + logs

    with localcontext(precise_context(_DIGITS)):
        return max((low, low + 1), key=information)
