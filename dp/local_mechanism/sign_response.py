"""The sign response (SR): one bit whose probability rises linearly with the input [DuchiJW18], for means."""

from dataclasses import dataclass

from dp.cost.accounting import CalibrationError
from dp.draw.noise import sample_uniform
from dp.local_mechanism.odds import MAX_INPUTS, LocalResponse, Odds
from dp.local_mechanism.public_choice import Integers
from entropy import Entropy


@dataclass(frozen=True)
class SignResponse(LocalResponse):
    """Answers input i < d by plus with the weight B (d - 1 - i) + A i of T = (A + B) (d - 1).

    Claim. Both weights are non-negative combinations of those of the two ends, A (d - 1) and B (d - 1), so each
    lies between them, and `dp.local_mechanism.odds.Odds` applies with weights A (d - 1) and B (d - 1).

    Attributes:
        n_inputs: d, at least 2.
        odds: A and B.
    """

    n_inputs: int
    odds: Odds

    def __post_init__(self) -> None:
        if not 2 <= self.n_inputs <= MAX_INPUTS:
            raise CalibrationError(f"a sign response has 2 to {MAX_INPUTS} inputs, not {self.n_inputs}")

    @property
    def total(self) -> int:
        """T."""
        return (self.odds.favoured + self.odds.other) * (self.n_inputs - 1)

    def draw(self, entropy: Entropy, n_responses: int) -> Integers:
        """Draw what `outputs_of` turns into responses: independent uniform integers below T."""
        return sample_uniform(entropy, self.total, n_responses)

    def respond(self, values: Integers, entropy: Entropy) -> Integers:
        """Draw one response per input, 1 for plus and 0 for minus.

        Args:
            values: shape (n,), 0 .. d - 1.
            entropy: gives the key of the stream.

        Raises:
            ValueError: a value that is no input.
        """
        return self.outputs_of(values, self.draw(entropy, len(values)))

    def outputs_of(self, values: Integers, draws: Integers) -> Integers:
        """Return the output that a uniform integer below T leads to, for each input."""
        if values.size and not 0 <= values.min() <= values.max() < self.n_inputs:
            raise ValueError(f"a value is outside 0..{self.n_inputs - 1}")
        plus = self.odds.other * (self.n_inputs - 1 - values) + self.odds.favoured * values
        found: Integers = (draws < plus).astype(int)
        return found
