"""Hierarchical responses: each respondent answers about one public level of a tree over the inputs.

HH [CormodeKS19, Hay10]: the node of the input at the level, among all nodes of the level, by a frequency oracle.
HaarHRR [CormodeKS19]: the Haar coefficient of the input at a height of a binary tree, plus or minus 1 at one node, by a
Hadamard response.

Claim of both: the level is public and does not depend on the input, so that of the oracle of the level.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dp.cost.accounting import CalibrationError
from dp.local_mechanism.chosen_response import ChosenResponse
from dp.local_mechanism.hadamard_response import HadamardResponse
from dp.local_mechanism.hashed_response import DirectResponse, HashedResponse, frequency_oracle
from dp.local_mechanism.odds import MAX_INPUTS, Odds
from dp.local_mechanism.public_choice import Integers, PublicChoices
from entropy import Entropy


def level_sizes(n_inputs: int, branching: int) -> tuple[int, ...]:
    """Return the number of nodes of each level of the tree, from below the root down to the inputs.

    Node v of a level has the children branching * v .. branching * v + branching - 1 that exist.
    """
    sizes = [n_inputs]
    while sizes[0] > branching:
        sizes.insert(0, -(-sizes[0] // branching))
    return tuple(sizes)


@dataclass(frozen=True)
class HierarchicalResponse(ChosenResponse):
    """Responses about a tree (HH).

    Attributes:
        n_inputs: d, at least 2.
        odds: A and B.
        branching: branching factor of the tree, at least 2.
    """

    n_inputs: int
    odds: Odds
    branching: int = 4

    def __post_init__(self) -> None:
        if not 2 <= self.n_inputs <= MAX_INPUTS or self.branching < 2:
            raise CalibrationError(f"a tree has 2 to {MAX_INPUTS} inputs and at least two branches")

    @property
    def n_outputs(self) -> int:
        """The most outputs of the oracle of any level."""
        return max(oracle.n_outputs for oracle in self.oracles)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """See `level_sizes`."""
        return level_sizes(self.n_inputs, self.branching)

    @cached_property
    def oracles(self) -> tuple[DirectResponse | HashedResponse, ...]:
        """The frequency oracle of each level."""
        return tuple(frequency_oracle(size, self.odds) for size in self.sizes)

    def ancestors(self, values: Integers, level: int) -> Integers:
        """Return the node of each input at a level."""
        found: Integers = values // self.branching ** (len(self.sizes) - 1 - level)
        return found

    def draw(self, entropy: Entropy, choices: PublicChoices) -> Integers:
        """Draw what `outputs_of` turns into responses, by the oracles of the respondents' levels."""
        levels, found = choices.levels(len(self.sizes)), np.empty(len(choices), dtype=np.int64)
        for level, oracle in enumerate(self.oracles):
            at = levels == level
            found[at] = oracle.draw(entropy, choices.among(at))
        return found

    def outputs_of(self, values: Integers, choices: PublicChoices, draws: Integers) -> Integers:
        """Return the responses that draws lead to."""
        self.check(values)
        levels, found = choices.levels(len(self.sizes)), np.empty(len(values), dtype=np.int64)
        for level, oracle in enumerate(self.oracles):
            at = levels == level
            found[at] = oracle.outputs_of(self.ancestors(values[at], level), choices.among(at), draws[at])
        return found


@dataclass(frozen=True)
class HaarResponse(ChosenResponse):
    """Responses about Haar coefficients (HaarHRR).

    At height h = 1 .. H, H the least with 2^H >= d, input i belongs to node i >> h, with plus in the node's left half
    and minus in its right one.

    Attributes:
        n_inputs: d, at least 2.
        odds: A and B.
    """

    n_inputs: int
    odds: Odds

    def __post_init__(self) -> None:
        if not 2 <= self.n_inputs <= MAX_INPUTS:
            raise CalibrationError(f"a tree has 2 to {MAX_INPUTS} inputs")

    @property
    def n_outputs(self) -> int:
        """Plus or minus."""
        return 2

    @property
    def n_heights(self) -> int:
        """H."""
        return (self.n_inputs - 1).bit_length()

    def oracle(self, height: int) -> HadamardResponse:
        """Return the response among the nodes of a height, 1 .. H."""
        return HadamardResponse(((self.n_inputs - 1) >> height) + 1, self.odds)

    def draw(self, entropy: Entropy, choices: PublicChoices) -> Integers:
        """Draw what `outputs_of` turns into responses: uniform integers below A + B, whatever the height."""
        return self.oracle(1).draw(entropy, choices)

    def outputs_of(self, values: Integers, choices: PublicChoices, draws: Integers) -> Integers:
        """Return the responses that draws lead to."""
        self.check(values)
        levels, found = choices.levels(self.n_heights), np.empty(len(values), dtype=np.int64)
        for level in range(self.n_heights):
            at, height = levels == level, level + 1
            oracle, negated = self.oracle(height), ((values[at] >> level) & 1).astype(np.bool_)
            rows = choices.among(at).rows(oracle.n_rows)
            found[at] = oracle.signs_of(values[at] >> height, rows, draws[at], negated)
        return found
