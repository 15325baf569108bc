"""The sign response (SR): one of the two ends of the range, likelier the nearer the input [DuchiJW18], for means."""

from dataclasses import dataclass

import numpy as np

from dp.cost.accounting import CalibrationError
from dp.draw.noise import sample_uniform
from dp.local_mechanism.odds import MAX_INPUTS, LocalResponse, Odds
from dp.local_mechanism.public_choice import Integers
from entropy import Entropy

MINUS, PLUS, NEITHER = range(3)
"""The outputs. Only a response with an empty input has the last one."""


@dataclass(frozen=True)
class SignResponse(LocalResponse):
    """Answers input i < d by plus with the weight B (d - 1 - i) + A i, and by minus with A (d - 1 - i) + B i.

    Without an empty input T = (A + B) (d - 1). With one, every input answers neither with the weight B (d - 1), and the
    empty input d answers plus, minus and neither with B (d - 1), B (d - 1) and A (d - 1): T = (A + 2 B) (d - 1). That
    is a direct response among "upper end", "lower end" and "nobody", of an input that is rounded to one of the two
    ends at random.

    Claim. All weights are non-negative combinations of A (d - 1) and B (d - 1) whose factors add up to 1, so each
    lies between them, and `dp.local_mechanism.odds.Odds` applies with weights A (d - 1) and B (d - 1).

    Attributes:
        n_inputs: d, at least 2, without the empty one.
        odds: A and B.
        has_empty: whether the input d stands for a slot that holds nobody.
    """

    n_inputs: int
    odds: Odds
    has_empty: bool = False

    def __post_init__(self) -> None:
        if not 2 <= self.n_inputs <= MAX_INPUTS:
            raise CalibrationError(f"a sign response has 2 to {MAX_INPUTS} inputs, not {self.n_inputs}")

    @property
    def n_outputs(self) -> int:
        """3 with an empty input, else 2."""
        return 2 + self.has_empty

    @property
    def total(self) -> int:
        """T."""
        return (self.odds.favoured + self.odds.other * (1 + self.has_empty)) * (self.n_inputs - 1)

    def weights_of(self, values: Integers) -> Integers:
        """Return the weight of each output for each input, shape (n, outputs): probabilities times T.

        Args:
            values: shape (n,), 0 .. d - 1, or d where there is an empty input.

        Raises:
            ValueError: a value that is no input.
        """
        most, last = self.n_inputs - 1 + self.has_empty, self.n_inputs - 1
        if values.size and not 0 <= values.min() <= values.max() <= most:
            raise ValueError(f"a value is outside 0..{most}")
        a, b, is_input = self.odds.favoured, self.odds.other, values <= last
        ends = np.where(is_input, a * (last - values) + b * values, b * last)
        others = np.where(is_input, b * (last - values) + a * values, b * last)
        columns = [ends, others, np.where(is_input, b * last, a * last)]
        return np.stack(columns[: self.n_outputs], axis=1)

    def draw(self, entropy: Entropy, n_responses: int) -> Integers:
        """Draw what `outputs_of` turns into responses: independent uniform integers below T."""
        return sample_uniform(entropy, self.total, n_responses)

    def respond(self, values: Integers, entropy: Entropy) -> Integers:
        """Draw one response per input: PLUS, MINUS or NEITHER.

        Args:
            values: shape (n,), 0 .. d - 1, or d where there is an empty input.
            entropy: gives the key of the stream.

        Raises:
            ValueError: a value that is no input.
        """
        return self.outputs_of(values, self.draw(entropy, len(values)))

    def outputs_of(self, values: Integers, draws: Integers) -> Integers:
        """Return the output that a uniform integer below T leads to, for each input: the lowest integers to plus."""
        weights = self.weights_of(values)
        plus, signs = weights[:, PLUS], weights[:, MINUS] + weights[:, PLUS]
        return np.where(draws < plus, PLUS, np.where(draws < signs, MINUS, NEITHER)).astype(np.int64)
