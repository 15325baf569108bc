"""Hadamard randomized response (HRR): the sign of the input in a public row of a Hadamard matrix [CormodeKS18]."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dp.cost.accounting import CalibrationError
from dp.draw.noise import sample_uniform
from dp.local_mechanism.chosen_response import ChosenResponse
from dp.local_mechanism.odds import MAX_INPUTS, Odds
from dp.local_mechanism.public_choice import Integers, PublicChoices
from entropy import Entropy


@dataclass(frozen=True)
class HadamardResponse(ChosenResponse):
    """Reports whether H[r, i] = (-1)^(number of ones in r AND i) is plus 1, truthfully with weight A of A + B.

    The row r of the respondent is public, one of D, the power of two from d on. An input may carry a sign of its own,
    with which the entry is multiplied, as the coefficients of a Haar tree do.

    Claim: see `dp.local_mechanism.odds.Odds`, with T = A + B.

    Attributes:
        n_inputs: d.
        odds: A and B.
    """

    n_inputs: int
    odds: Odds

    def __post_init__(self) -> None:
        if not 1 <= self.n_inputs <= MAX_INPUTS:
            raise CalibrationError(f"a Hadamard response has 1 to {MAX_INPUTS} inputs, not {self.n_inputs}")

    @property
    def n_outputs(self) -> int:
        """Plus or minus."""
        return 2

    @property
    def n_rows(self) -> int:
        """D."""
        return 1 << (self.n_inputs - 1).bit_length()

    @property
    def total(self) -> int:
        """T."""
        return self.odds.favoured + self.odds.other

    @property
    def variance(self) -> Fraction:
        """Variance of a rare input's estimated frequency, times the responses: ((A + B) / (A - B))^2."""
        return Fraction(self.total, self.odds.favoured - self.odds.other) ** 2

    def draw(self, entropy: Entropy, choices: PublicChoices) -> Integers:
        """Draw what `outputs_of` turns into responses: independent uniform integers below T, for each respondent."""
        return sample_uniform(entropy, self.total, len(choices))

    def outputs_of(self, values: Integers, choices: PublicChoices, draws: Integers) -> Integers:
        """Return the responses that draws lead to."""
        return self.signs_of(values, choices.rows(self.n_rows), draws)

    def signs_of(
        self, values: Integers, rows: Integers, draws: Integers, negated: NDArray[np.bool_] | None = None
    ) -> Integers:
        """Return the output that a uniform integer below T leads to, for each input and public row.

        Args:
            values: shape (n,), 0 .. d - 1.
            rows: shape (n,), public.
            draws: shape (n,), 0 .. T - 1.
            negated: shape (n,), which inputs carry a minus; none by default.

        Raises:
            ValueError: a value that is no input.
        """
        self.check(values)
        is_minus = (np.bitwise_count(values & rows) & 1).astype(np.bool_)
        if negated is not None:
            is_minus = is_minus ^ negated
        found: Integers = (is_minus ^ (draws < self.odds.favoured)).astype(np.int64)
        return found
