"""Frequent values among very many, from responses about prefixes [WLJ21]: found from the first bits to the last.

At each level the prefixes that go on from the most frequent ones are looked up. Of n responses about a level the number
that supports a prefix of frequency f is binomial with the part a = q + (p - q) f, for rows that are draws from a
distribution: so (support / n - q) / (p - q) is f without bias, and the interval of a is the exact one [ClopperP34]. Two
values meet in a part of the K functions that is 1 / g only on average over functions; a value of frequency f moves the
frequencies of all others by that, with the variance f^2 / ((g - 1) K), which widens intervals for the values found.

Who answers about the last level answers about no other, so what is looked up there does not depend on those responses.
Intervals of all of these prefixes hold at once, by Bonferroni's bound; so they do of those that are stated.
"""

import math
from dataclasses import dataclass

import numpy as np

from analyses.distribution.estimates.frequencies import Floats, Integers, chances
from analyses.distribution.estimates.intervals import LEAST_DEVIATIONS
from analyses.distribution.estimates.noise_of_responses import FEWEST
from analyses.job.forecast import ALL_OF, deviations_of_all
from dp.cost.binomial import largest_probability, least_probability
from dp.local_mechanism.prefix_response import STEP_BITS, PrefixResponse
from dp.local_mechanism.public_choice import PublicChoices

MOST_FREQUENT = 32
"""Most prefixes of a level that are gone on from, and most values that are stated."""

_BLOCK = 1 << 20


class PrefixTally:
    """How often each bucket was the response, by level and function: a table whose size is that of the mechanism's.

    Attributes:
        n_responses: number of responses that were added.
    """

    def __init__(self, mechanism: PrefixResponse) -> None:
        self.n_responses = 0
        self.mechanism = mechanism
        self._shape = (len(mechanism.shifts), mechanism.n_functions, mechanism.n_outputs)
        self._counts = np.zeros(math.prod(self._shape), dtype=np.int64)

    def add(self, responses: Integers, choices: PublicChoices | None = None) -> None:
        """See `Tally`."""
        assert choices is not None
        levels, functions = self.mechanism.asked(choices)
        at = np.ravel_multi_index((levels, functions, responses), self._shape)
        self._counts += np.bincount(at, minlength=len(self._counts))
        self.n_responses += len(responses)

    @property
    def numbers(self) -> tuple[int, ...]:
        """Numbers of responses about each level."""
        return tuple(self._counts.reshape(self._shape).sum(axis=(1, 2)).tolist())

    def support(self, level: int, prefixes: Integers) -> Integers:
        """Return how many responses support each prefix of a level, shape (prefixes,)."""
        counts, functions = self._counts.reshape(self._shape)[level], np.arange(self.mechanism.n_functions)
        step, found = max(1, _BLOCK // len(functions)), [np.zeros(0, dtype=np.int64)]
        for start in range(0, len(prefixes), step):
            some = prefixes[start : start + step, None].astype(np.uint64)
            found.append(counts[functions, self.mechanism.buckets(level, functions, some)].sum(axis=1))
        return np.concatenate(found)

    @property
    def support_of_empty(self) -> int:
        """How many responses of all levels support the empty input."""
        counts, functions = self._counts.reshape(self._shape), np.arange(self.mechanism.n_functions)
        empty = np.array([self.mechanism.n_inputs - 1])
        buckets = (self.mechanism.buckets_of(empty, level, functions) for level in range(len(counts)))
        return sum(int(of_level[functions, at].sum()) for of_level, at in zip(counts, buckets, strict=True))


@dataclass(frozen=True)
class Frequent:
    """What responses about prefixes say.

    Attributes:
        present: part of the respondents that have a value.
        values: inputs, shape (values,), the most frequent first.
        shares: shape (values, 3): share among those who have a value, and the ends of its interval.
    """

    present: float
    values: Integers
    shares: Floats


def frequent_values(tally: PrefixTally) -> Frequent | None:
    """Return the values whose interval lies above 0, at most `MOST_FREQUENT`.

    Returns:
        None where some level has too few responses, or those who have a value are hardly seen.

    Cost: a few thousand prefixes per level, each under all functions of the level, at most 2^13 of them.
    """
    mechanism, numbers = tally.mechanism, tally.numbers
    p, q = chances(mechanism.oracle)
    if min(numbers) < FEWEST:
        return None
    empty = _frequencies(np.array([tally.support_of_empty]), tally.n_responses, p, q)
    present = 1 - float(empty[0])
    variance_of_present = float(_variances(empty, tally.n_responses, p, q)[0])
    if not present > LEAST_DEVIATIONS * math.sqrt(variance_of_present):
        return None
    prefixes = np.arange(mechanism.n_prefixes(0))
    for level, shift in enumerate(mechanism.shifts[:-1]):
        found = _frequencies(tally.support(level, prefixes), numbers[level], p, q)
        kept = prefixes[_largest(found)]
        step = shift - mechanism.shifts[level + 1]
        prefixes = ((kept[:, None] << step) + np.arange(1 << step)).ravel()
        prefixes = prefixes[prefixes < mechanism.n_prefixes(level + 1)]
    support = tally.support(len(numbers) - 1, prefixes)
    found = _frequencies(support, numbers[-1], p, q)
    ends = _frequencies(numbers[-1] * _ends(support, numbers[-1]), numbers[-1], p, q)
    meeting = float(np.sum(found[ends[0] > 0] ** 2)) + float(empty[0]) ** 2
    meeting /= (mechanism.n_outputs - 1) * mechanism.n_functions
    shares = found / present
    more = deviations_of_all(len(prefixes)) ** 2 * (meeting + shares**2 * variance_of_present)
    below, above = np.sqrt((ends - found) ** 2 + more) / present
    at = _largest(shares - below)
    at = at[np.argsort(-shares[at], kind="stable")]
    return Frequent(present, prefixes[at], np.column_stack([shares, shares - below, shares + above])[at])


def seen_from(mechanism: PrefixResponse, n_responses: int) -> tuple[float, float]:
    """Return the standard error of a rare value's share, and the share from which on a value is as a rule stated."""
    p, q = chances(mechanism.oracle)
    error = math.sqrt(q * (1 - q) / (n_responses / len(mechanism.shifts))) / (p - q)
    return error, (deviations_of_all(MOST_FREQUENT << STEP_BITS) + 1) * error


def _ends(support: Integers, n: int) -> Floats:
    """Return the exact ends of the intervals of the parts of n responses that support each prefix, shape (2, m)."""
    tail = ALL_OF / (2 * len(support))
    return np.stack([least_probability(support, n, tail), largest_probability(support, n, tail)])


def _largest(found: Floats) -> Integers:
    """Return the places of the largest numbers above 0, at most `MOST_FREQUENT`, in their order."""
    at = np.sort(np.argsort(-found, kind="stable")[:MOST_FREQUENT])
    return at[found[at] > 0]


def _frequencies(support: Integers | Floats, n: int, p: float, q: float) -> Floats:
    found: Floats = (support / n - q) / (p - q)
    return found


def _variances(frequencies: Floats, n: int, p: float, q: float) -> Floats:
    a = q + (p - q) * np.clip(frequencies, 0, 1)
    found: Floats = a * (1 - a) / (n * (p - q) ** 2)
    return found
