"""Responses about a prefix of an input, for frequent values among very many [WLJ21, PEM].

An input is a whole number. Each respondent answers about one public level: the first bits of its input, hashed by one
of finitely many public functions, by randomized response. So the coordinator keeps a table of a fixed size, and looks
up only prefixes that go on from frequent ones.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dp.cost.accounting import CalibrationError
from dp.local_mechanism.chosen_response import ChosenResponse
from dp.local_mechanism.hashed_response import HashedResponse
from dp.local_mechanism.odds import Odds
from dp.local_mechanism.public_choice import Integers, PublicChoices
from entropy import Entropy

MAX_VALUES = 1 << 48
"""Largest number of inputs: whole numbers that floating-point numbers hold exactly, with room for their products."""

FIRST_BITS = 10
"""Bits of the prefix at the first level: all of them are looked up."""

STEP_BITS = 6
"""Bits that each further level adds to a prefix."""

_LOG2_TABLE = 14
"""Entries of the table of a level, functions times buckets."""

_EMPTY = np.uint64(1 << 63)
"""Stands for the prefix of the empty input, at every level."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class PrefixResponse(ChosenResponse):
    """Reports, by randomized response, the bucket of a prefix of the input under a public function.

    Claim: level and function are public and do not depend on the input, so the claim is that of the response among the
    g buckets (`dp.local_mechanism.odds.Odds`): whatever the input, each bucket has a weight between B and A of one T.

    Attributes:
        n_inputs: d, at least 2; the last input is the empty one, which has no prefix in common with any other.
        odds: A and B.
    """

    n_inputs: int
    odds: Odds

    def __post_init__(self) -> None:
        if not 2 <= self.n_inputs <= MAX_VALUES + 1:
            raise CalibrationError(f"prefixes are asked of at most 2^48 inputs, not {self.n_inputs}")

    @cached_property
    def oracle(self) -> HashedResponse:
        """The response of each level."""
        return HashedResponse.of_odds(self.n_inputs, self.odds)

    @property
    def n_outputs(self) -> int:
        """G."""
        return self.oracle.n_buckets

    @cached_property
    def n_functions(self) -> int:
        """Number of functions of a level, a power of two: with more, two values meet in nearly 1 / g of them."""
        return 1 << (_LOG2_TABLE - (self.n_outputs - 1).bit_length())

    @cached_property
    def shifts(self) -> tuple[int, ...]:
        """Number of last bits of an input that are left out, level by level; 0 at the last one."""
        n_bits = max(1, (self.n_inputs - 2).bit_length())
        longest = max(0, n_bits - FIRST_BITS)
        return (*range(longest, 0, -STEP_BITS), 0)

    def n_prefixes(self, level: int) -> int:
        """Return how many prefixes the inputs have at a level, without that of the empty one."""
        return ((self.n_inputs - 2) >> self.shifts[level]) + 1

    def draw(self, entropy: Entropy, choices: PublicChoices) -> Integers:
        """Draw what `outputs_of` adds to buckets, for each respondent, whatever its level."""
        return self.oracle.draw(entropy, choices)

    def outputs_of(self, values: Integers, choices: PublicChoices, draws: Integers) -> Integers:
        """Return the responses that draws lead to."""
        self.check(values)
        return self.oracle.response.reports(self.buckets_of(values, *self.asked(choices)), draws)

    def asked(self, choices: PublicChoices) -> tuple[Integers, Integers]:
        """Return the level and the function of each respondent, shape (n,) each."""
        return choices.levels(len(self.shifts)), choices.rows(self.n_functions)

    def buckets(self, levels: Integers | int, functions: Integers, prefixes: NDArray[np.uint64]) -> Integers:
        """Return the bucket of prefixes under functions of levels; shapes are broadcast. Public."""
        number = (np.asarray(levels, dtype=np.uint64) << np.uint64(32)) + functions.astype(np.uint64)
        key = _mixed((number + np.uint64(1)) * _GOLDEN)
        return (_mixed(prefixes ^ key) % np.uint64(self.n_outputs)).astype(np.int64)

    def buckets_of(self, values: Integers, levels: Integers | int, functions: Integers) -> Integers:
        """Return the bucket of the prefixes of inputs under functions of levels; shapes are broadcast. Public."""
        prefixes = (values >> np.array(self.shifts)[levels]).astype(np.uint64)
        return self.buckets(levels, functions, np.where(values == self.n_inputs - 1, _EMPTY, prefixes))


def _mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return words in which each bit depends on all bits of one word (the finalizer of SplitMix64 [SteeleLF14])."""
    found: NDArray[np.uint64] = words ^ (words >> np.uint64(30))
    found = found * np.uint64(0xBF58476D1CE4E5B9)
    found ^= found >> np.uint64(27)
    found = found * np.uint64(0x94D049BB133111EB)
    found ^= found >> np.uint64(31)
    return found
