"""What an estimate needs of all responses: sums whose size does not depend on how many there are.

The tallies of mechanisms from which frequencies of the inputs follow (`OfFrequencies`) say these, without bias.
"""

from typing import Protocol

import numpy as np

from analyses.distribution.estimates.frequencies import (
    Floats,
    Integers,
    Level,
    level_of,
    mass_of_differences,
    signed_of,
    signs_by_row,
    support_of,
)
from analyses.distribution.estimates.frequent import PrefixTally
from analyses.distribution.estimates.tree_estimate import least_squares
from analyses.distribution.methods import Mechanism
from dp.local_mechanism.hadamard_response import HadamardResponse
from dp.local_mechanism.hashed_response import DirectResponse, HashedResponse
from dp.local_mechanism.hierarchy import HaarResponse, HierarchicalResponse
from dp.local_mechanism.prefix_response import PrefixResponse
from dp.local_mechanism.public_choice import PublicChoices
from dp.local_mechanism.sign_response import SignResponse
from dp.local_mechanism.wave import Wave


class Tally(Protocol):
    """Takes responses in parts, in any order, and is the same afterwards however they were divided.

    Attributes:
        n_responses: number of responses that were added.
    """

    n_responses: int

    def add(self, responses: Integers, choices: PublicChoices | None = None) -> None:
        """Add responses.

        Args:
            responses: shape (n,), outputs of the mechanism.
            choices: choices of the n respondents; for a wave or a direct response None.
        """


class FrequencyTally(Tally, Protocol):
    """A tally that says how frequent each input is."""

    @property
    def frequencies(self) -> Floats:
        """Frequencies of the inputs, shape (inputs,), linear in the responses and without bias."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """Numbers of responses about each level, of one where there is no tree."""


class CountedTally:
    """How often each output was given: all that waves, signs and direct responses tell, whoever gave it.

    Attributes:
        mechanism: that was answered by.
        n_responses: number of responses that were added.
        counts: shape (outputs,).
    """

    def __init__(self, mechanism: Wave | SignResponse | DirectResponse) -> None:
        self.mechanism = mechanism
        self.n_responses = 0
        self.counts = np.zeros(mechanism.n_outputs, dtype=np.int64)

    def add(self, responses: Integers, choices: PublicChoices | None = None) -> None:
        """See `Tally`."""
        self.add_counts(np.bincount(responses, minlength=len(self.counts)))

    def add_counts(self, counts: Integers) -> None:
        """Add responses of which so many are each output, shape (outputs,)."""
        self.counts += counts
        self.n_responses += int(counts.sum())


class DirectTally(CountedTally):
    """How often each input was named."""

    mechanism: DirectResponse

    @property
    def frequencies(self) -> Floats:
        """See `FrequencyTally`."""
        return level_of(self.mechanism, self.counts, self.n_responses).frequencies

    @property
    def numbers(self) -> tuple[int, ...]:
        """See `FrequencyTally`."""
        return (self.n_responses,)


class SupportTally:
    """How many responses support each input of a frequency oracle.

    Attributes:
        n_responses: number of responses that were added.
        support: shape (inputs,).
    """

    def __init__(self, oracle: DirectResponse | HashedResponse) -> None:
        self.n_responses = 0
        self.support = np.zeros(oracle.n_inputs, dtype=np.int64)
        self._oracle = oracle

    def add(self, responses: Integers, choices: PublicChoices | None = None) -> None:
        """See `Tally`."""
        self.support += support_of(self._oracle, responses, choices)
        self.n_responses += len(responses)

    @property
    def level(self) -> Level:
        """The frequencies of the inputs, with their variance."""
        return level_of(self._oracle, self.support, self.n_responses)

    @property
    def frequencies(self) -> Floats:
        """See `FrequencyTally`."""
        return self.level.frequencies

    @property
    def numbers(self) -> tuple[int, ...]:
        """See `FrequencyTally`."""
        return (self.n_responses,)


class SignTally:
    """The sums of signs of each row of a Hadamard response.

    Attributes:
        n_responses: number of responses that were added.
    """

    def __init__(self, mechanism: HadamardResponse) -> None:
        self.n_responses = 0
        self._mechanism = mechanism
        self._sums = np.zeros(mechanism.n_rows)

    def add(self, responses: Integers, choices: PublicChoices | None = None) -> None:
        """See `Tally`."""
        assert choices is not None
        self._sums += signs_by_row(self._mechanism, responses, choices)
        self.n_responses += len(responses)

    @property
    def frequencies(self) -> Floats:
        """See `FrequencyTally`; of inputs with a sign, the part with plus less that with minus."""
        return signed_of(self._mechanism, self._sums, self.n_responses)

    @property
    def numbers(self) -> tuple[int, ...]:
        """See `FrequencyTally`."""
        return (self.n_responses,)


class TreeTally:
    """The tallies of all levels of a tree.

    Attributes:
        n_responses: number of responses that were added.
        branching: branching of the tree.
    """

    def __init__(self, tree: HierarchicalResponse) -> None:
        self.n_responses = 0
        self.branching = tree.branching
        self._tallies = [SupportTally(oracle) for oracle in tree.oracles]

    def add(self, responses: Integers, choices: PublicChoices | None = None) -> None:
        """See `Tally`."""
        assert choices is not None
        levels = choices.levels(len(self._tallies))
        for level, tally in enumerate(self._tallies):
            at = levels == level
            tally.add(responses[at], choices.among(at))
        self.n_responses += len(responses)

    @property
    def levels(self) -> list[Level]:
        """The frequencies of the nodes of each level, from below the root down to the inputs."""
        return [tally.level for tally in self._tallies]

    @property
    def frequencies(self) -> Floats:
        """See `FrequencyTally`: by least squares over the tree."""
        return least_squares(self.levels, self.branching)[-1]

    @property
    def numbers(self) -> tuple[int, ...]:
        """See `FrequencyTally`."""
        return tuple(tally.n_responses for tally in self._tallies)


class HaarTally:
    """The sums of signs of each row, at every height.

    Attributes:
        n_responses: number of responses that were added.
    """

    def __init__(self, mechanism: HaarResponse) -> None:
        self.n_responses = 0
        self._mechanism = mechanism
        self._tallies = [SignTally(mechanism.oracle(height)) for height in range(1, mechanism.n_heights + 1)]

    def add(self, responses: Integers, choices: PublicChoices | None = None) -> None:
        """See `Tally`."""
        assert choices is not None
        levels = choices.levels(len(self._tallies))
        for level, tally in enumerate(self._tallies):
            at = levels == level
            tally.add(responses[at], choices.among(at))
        self.n_responses += len(responses)

    @property
    def frequencies(self) -> Floats:
        """See `FrequencyTally`: `analyses.distribution.estimates.frequencies.mass_of_differences`."""
        return mass_of_differences(self._mechanism, [tally.frequencies for tally in self._tallies])

    @property
    def numbers(self) -> tuple[int, ...]:
        """See `FrequencyTally`."""
        return tuple(tally.n_responses for tally in self._tallies)


def tally_of(mechanism: Mechanism) -> CountedTally | PrefixTally | FrequencyTally:
    """Return the empty tally of a mechanism."""
    match mechanism:
        case Wave() | SignResponse():
            return CountedTally(mechanism)
        case DirectResponse():
            return DirectTally(mechanism)
        case HashedResponse():
            return SupportTally(mechanism)
        case HadamardResponse():
            return SignTally(mechanism)
        case HierarchicalResponse():
            return TreeTally(mechanism)
        case PrefixResponse():
            return PrefixTally(mechanism)
    return HaarTally(mechanism)
