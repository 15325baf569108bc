"""Optimised local hashing [WBLJ17] with each respondent's function derived from its name, and the choice of an oracle.

`dp.mechanism.hashing.LocalHashing` draws whole tables for slots in their order. Here respondents answer one by one, at
any time, so their functions must not depend on who else answers.
"""

from dataclasses import dataclass
from fractions import Fraction

from dp.cost.accounting import CalibrationError
from dp.local_mechanism.chosen_response import ChosenResponse
from dp.local_mechanism.odds import Odds
from dp.local_mechanism.public_choice import Integers, PublicChoices
from dp.mechanism.hashing import MAX_BUCKETS
from dp.mechanism.response import RandomizedResponse
from entropy import Entropy


@dataclass(frozen=True)
class HashedResponse(ChosenResponse):
    """Reports, by randomized response, the bucket of an input under the respondent's own public function.

    Claim: the claim of the response among the g buckets (`dp.local_mechanism.odds.Odds`); functions are public.

    Attributes:
        n_inputs: d, at least 2.
        odds: A and B.
        n_buckets: g, 2 .. 256.
    """

    n_inputs: int
    odds: Odds
    n_buckets: int

    def __post_init__(self) -> None:
        if self.n_inputs < 2 or not 2 <= self.n_buckets <= MAX_BUCKETS:
            raise CalibrationError(f"hashing needs two inputs, and 2 to {MAX_BUCKETS} buckets")

    @property
    def n_outputs(self) -> int:
        """G."""
        return self.n_buckets

    @staticmethod
    def of_odds(n_inputs: int, odds: Odds) -> "HashedResponse":
        """Return the hashing with g = round(A / B) + 1 buckets, at most 256."""
        return HashedResponse(n_inputs, odds, min(round(Fraction(odds.favoured, odds.other)) + 1, MAX_BUCKETS))

    @property
    def response(self) -> RandomizedResponse:
        """The randomized response about the bucket."""
        return RandomizedResponse.of_odds(self.n_buckets, self.odds.favoured, self.odds.other)

    @property
    def variance(self) -> Fraction:
        """Variance of a rare input's estimated frequency, times the responses: q (1 - q) / (p - q)^2, q = 1/g."""
        p, q = self.response.truthful, Fraction(1, self.n_buckets)
        return q * (1 - q) / (p - q) ** 2

    def draw(self, entropy: Entropy, choices: PublicChoices) -> Integers:
        """Draw what `outputs_of` adds to its buckets or inputs, for each respondent."""
        return self.response.draw(entropy, len(choices))

    def outputs_of(self, values: Integers, choices: PublicChoices, draws: Integers) -> Integers:
        """Return the responses that draws lead to."""
        self.check(values)
        return self.response.reports(choices.hashed(values, self.n_buckets), draws)


@dataclass(frozen=True)
class DirectResponse(ChosenResponse):
    """Randomized response among all inputs; takes no public choice.

    Claim: see `dp.local_mechanism.odds.Odds`.

    Attributes:
        n_inputs: d, at least 2.
        odds: A and B.
    """

    n_inputs: int
    odds: Odds

    @property
    def n_outputs(self) -> int:
        """D."""
        return self.n_inputs

    @property
    def response(self) -> RandomizedResponse:
        """The randomized response about the input itself."""
        return RandomizedResponse.of_odds(self.n_inputs, self.odds.favoured, self.odds.other)

    @property
    def variance(self) -> Fraction:
        """Return the variance; see `HashedResponse.variance`, with q the probability of each lie."""
        p, q = self.response.truthful, self.response.other
        return q * (1 - q) / (p - q) ** 2

    def draw(self, entropy: Entropy, choices: PublicChoices) -> Integers:
        """Draw what `outputs_of` adds to its buckets or inputs, for each respondent."""
        return self.response.draw(entropy, len(choices))

    def outputs_of(self, values: Integers, choices: PublicChoices, draws: Integers) -> Integers:
        """Return the responses that draws lead to; `choices` is not looked at."""
        return self.response.reports(values, draws)


def frequency_oracle(n_inputs: int, odds: Odds) -> DirectResponse | HashedResponse:
    """Return the oracle of the two whose frequencies of rare inputs have the smaller exact variance."""
    direct, hashed = DirectResponse(n_inputs, odds), HashedResponse.of_odds(n_inputs, odds)
    return direct if direct.variance <= hashed.variance else hashed
