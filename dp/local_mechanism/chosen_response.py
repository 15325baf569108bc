"""Responses about what a public choice says; their draws depend on no input, so both together lead to a response."""

from dp.local_mechanism.odds import LocalResponse
from dp.local_mechanism.public_choice import Integers, PublicChoices
from entropy import Entropy


class ChosenResponse(LocalResponse):
    """What all mechanisms have in common in which a public choice says what each respondent answers about.

    Attributes:
        n_inputs: d.
    """

    n_inputs: int

    def respond(self, values: Integers, choices: PublicChoices, entropy: Entropy) -> Integers:
        """Draw one response per input, each below `n_outputs`.

        Args:
            values: shape (n,), 0 .. d - 1.
            choices: choices of the n respondents.
            entropy: gives the keys of the streams.

        Raises:
            ValueError: a value that is no input.
        """
        return self.outputs_of(values, choices, self.draw(entropy, choices))

    def draw(self, entropy: Entropy, choices: PublicChoices) -> Integers:
        """Draw what `outputs_of` turns into responses, for each respondent."""
        raise NotImplementedError

    def outputs_of(self, values: Integers, choices: PublicChoices, draws: Integers) -> Integers:
        """Return the responses that draws lead to."""
        raise NotImplementedError

    def check(self, values: Integers) -> None:
        """Raise ValueError if a value is no input."""
        if values.size and not 0 <= values.min() <= values.max() < self.n_inputs:
            raise ValueError(f"a value is outside 0..{self.n_inputs - 1}")
