"""Audit targets of local responses: waves and sign responses, and responses about public rows, functions or levels."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from audit.entry import Entry
from audit.less_noise import NoisyTarget, with_noise
from dp.audit.exact_audit import Part
from dp.audit.exact_law import Floats, Integers
from dp.local_mechanism.hadamard_response import HadamardResponse
from dp.local_mechanism.hashed_response import DirectResponse, HashedResponse
from dp.local_mechanism.hierarchy import HaarResponse, HierarchicalResponse
from dp.local_mechanism.odds import Odds
from dp.local_mechanism.prefix_response import PrefixResponse
from dp.local_mechanism.public_choice import PublicChoices
from dp.local_mechanism.sign_response import SignResponse
from dp.local_mechanism.wave import Wave
from entropy import Entropy

_QUESTION_BYTES = 16


@dataclass(frozen=True)
class WaveTarget(NoisyTarget):
    """The response of a wave, or a sign response, to one of two inputs; or several of one person, all of one input.

    Attributes:
        mechanism: mechanism with its weights.
        values: input 0 and input 1.
        n_responses: number of responses.
    """

    mechanism: Wave | SignResponse
    values: tuple[int, int]
    n_responses: int = 1

    def parts(self, noise: Fraction) -> Sequence[Part]:
        """See `ExactTarget`: the outputs, which are independent."""
        law = np.stack([_row(with_noise(self.mechanism, noise), value) for value in self.values])
        return [Part(law, self.n_responses)]

    def draw(self, world: int, n_runs: int, entropy: Entropy) -> Integers:
        """See `ExactTarget`."""
        mechanism = with_noise(self.mechanism, self.noise)
        drawn = mechanism.respond(np.full(n_runs * self.n_responses, self.values[world]), entropy)
        return drawn.reshape(n_runs, self.n_responses)


def _row(mechanism: Wave | SignResponse, value: int) -> Floats:
    if isinstance(mechanism, Wave):
        return np.asarray(mechanism.weights_of(value) / mechanism.total)
    return np.asarray(mechanism.weights_of(np.array([value]))[0] / mechanism.total)


@dataclass(frozen=True)
class SupportTarget(NoisyTarget):
    """A response about a public row, function or level that follows from a fresh question in each run.

    What matters of it is what is public of it and whether it supports input 0, and whether it supports input 1: a value
    is four times the level, and these two bits.

    Attributes:
        mechanism: mechanism for inputs 0 .. d - 1.
        values: input 0 and input 1, in different nodes of all levels below the uppermost.
    """

    mechanism: HashedResponse | HadamardResponse | HierarchicalResponse | HaarResponse | PrefixResponse
    values: tuple[int, int]

    def parts(self, noise: Fraction) -> Sequence[Part]:
        """See `ExactTarget`."""
        mechanism = with_noise(self.mechanism, noise)
        match mechanism:
            case HashedResponse():
                levels = [_of_oracle(mechanism)]
            case PrefixResponse():
                levels = [_of_oracle(mechanism.oracle)] * len(mechanism.shifts)
            case HadamardResponse():
                levels = [_of_signs(mechanism, meet=0.5)]
            case HierarchicalResponse():
                levels = [_of_oracle(oracle) for oracle in mechanism.oracles]
            case HaarResponse():
                # Under the root both inputs belong to one node, with opposite signs.
                heights = range(1, mechanism.n_heights + 1)
                apart = [self.values[0] >> height != self.values[1] >> height for height in heights]
                levels = [
                    _of_signs(mechanism.oracle(height), meet=0.5 if differ else 0.0)
                    for height, differ in zip(heights, apart, strict=True)
                ]
        first = np.concatenate(levels) / len(levels)
        second = first.reshape(-1, 4)[:, [0, 2, 1, 3]].ravel()
        return [Part(np.stack([first, second]))]

    def draw(self, world: int, n_runs: int, entropy: Entropy) -> Integers:
        """See `ExactTarget`."""
        mechanism = with_noise(self.mechanism, self.noise)
        choices = PublicChoices(entropy.read(_QUESTION_BYTES), map(str, range(n_runs)))
        values = np.full(n_runs, self.values[world])
        responses = mechanism.respond(values, choices, entropy)
        levels, supported = np.zeros(n_runs, dtype=np.int64), np.zeros(n_runs, dtype=np.int64)
        for bit, value in enumerate(self.values):
            at = np.full(n_runs, value)
            match mechanism:
                case HashedResponse():
                    agrees = choices.hashed(at, mechanism.n_buckets) == responses
                case PrefixResponse():
                    levels, functions = mechanism.asked(choices)
                    agrees = mechanism.buckets_of(at, levels, functions) == responses
                case HadamardResponse():
                    agrees = _entries(mechanism, at, choices) == responses
                case HierarchicalResponse():
                    levels, agrees = choices.levels(len(mechanism.sizes)), np.zeros(n_runs, dtype=np.bool_)
                    for level, oracle in enumerate(mechanism.oracles):
                        here = levels == level
                        expected = mechanism.ancestors(at[here], level)
                        if isinstance(oracle, HashedResponse):
                            expected = choices.among(here).hashed(expected, oracle.n_buckets)
                        agrees[here] = expected == responses[here]
                case HaarResponse():
                    levels, agrees = choices.levels(mechanism.n_heights), np.zeros(n_runs, dtype=np.bool_)
                    for level in range(mechanism.n_heights):
                        here = levels == level
                        entries = _entries(mechanism.oracle(level + 1), at[here] >> (level + 1), choices.among(here))
                        agrees[here] = entries ^ ((value >> level) & 1) == responses[here]
            supported += agrees.astype(np.int64) << bit
        return (4 * levels + supported)[:, None]


def _of_oracle(oracle: DirectResponse | HashedResponse) -> Floats:
    """Return the law of the two bits for input 0: hashes of the two meet with probability 1 / g."""
    response = oracle.response
    truth, lie = float(response.truthful), float(response.other)
    apart = np.array([(response.n_options - 2) * lie, truth, lie, 0.0])
    if isinstance(oracle, DirectResponse):
        return apart
    together, meet = np.array([1 - truth, 0.0, 0.0, truth]), 1 / oracle.n_buckets
    found: Floats = (1 - meet) * apart + meet * together
    return found


def _of_signs(oracle: HadamardResponse, meet: float) -> Floats:
    """Return the law of the two bits for input 0, where the entries of both are alike in a part `meet` of the rows."""
    truth = float(oracle.odds.truthful)
    found: Floats = (1 - meet) * np.array([0.0, truth, 1 - truth, 0.0]) + meet * np.array([1 - truth, 0.0, 0.0, truth])
    return found


def _entries(oracle: HadamardResponse, values: Integers, choices: PublicChoices) -> Integers:
    """Return 1 where the entry of the input in the respondent's row is plus, and 0 where it is minus."""
    found: Integers = (1 - (np.bitwise_count(values & choices.rows(oracle.n_rows)) & 1)).astype(np.int64)
    return found


_ODDS = Odds.of_epsilon(2.0)

LOCAL_RESPONSES: dict[str, Entry] = {
    "wave": Entry(
        "response of a square wave, seen by anybody",
        ("distribution:wave", "distribution:piecewise"),
        lambda: WaveTarget(Wave.square(16, _ODDS), (2, 13)),
    ),
    "wave-empty": Entry(
        "the same, of a slot that holds a row or nobody",
        ("distribution:wave",),
        lambda: WaveTarget(Wave.square(16, _ODDS, has_empty=True), (2, 16)),
    ),
    "wave-trapezoid": Entry(
        "response of a trapezoid wave, seen by anybody",
        ("distribution:trapezoid",),
        lambda: WaveTarget(Wave.of_shape("trapezoid", 16, _ODDS), (2, 13)),
    ),
    "wave-triangle": Entry(
        "response of a triangle wave, seen by anybody",
        ("distribution:triangle",),
        lambda: WaveTarget(Wave.of_shape("triangle", 16, _ODDS), (2, 13)),
    ),
    "sign-response": Entry(
        "sign response, seen by anybody",
        ("distribution:sign",),
        lambda: WaveTarget(SignResponse(16, _ODDS, has_empty=True), (0, 15)),
    ),
    "sign-responses-of-a-person": Entry(
        "sign responses about three records of a person, seen by anybody",
        ("pattern-count:devices",),
        lambda: WaveTarget(SignResponse(2, _ODDS, has_empty=True), (0, 1), 3),
    ),
    "hashed-by-name": Entry(
        "response of an input hashed by the respondent's name, seen by anybody",
        ("distribution:bins", "distribution:hashed", "distribution:grid"),
        lambda: SupportTarget(HashedResponse.of_odds(16, _ODDS), (2, 13)),
    ),
    "hadamard": Entry(
        "Hadamard response, seen by anybody",
        ("distribution:hadamard", "distribution:grid"),
        lambda: SupportTarget(HadamardResponse(16, _ODDS), (2, 13)),
    ),
    "hierarchy": Entry(
        "response about a level of a tree, seen by anybody",
        ("distribution:tree",),
        lambda: SupportTarget(HierarchicalResponse(16, _ODDS), (0, 15)),
    ),
    "haar": Entry(
        "response about a Haar coefficient, seen by anybody",
        ("distribution:haar",),
        lambda: SupportTarget(HaarResponse(16, _ODDS), (0, 15)),
    ),
    "prefixes": Entry(
        "response about the first bits of an input, seen by anybody",
        ("distribution:prefixes",),
        lambda: SupportTarget(PrefixResponse(1 << 20, _ODDS), (0, (1 << 20) - 2)),
    ),
}
"""The part of the table with the targets of this module."""
