"""Audit targets of local reports: randomized responses, plain or hashed, and bits about all slots or some."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod

import numpy as np
from scipy.stats import binom

from analyses.pattern_count.reports import PatternReports
from analyses.power_moments.reports import MomentReports
from analyses.rows.slots import placement
from audit.less_noise import NoisyTarget, with_noise
from dp.audit.exact_audit import Part
from dp.audit.exact_law import Floats, Integers, discrete_laplace
from dp.mechanism.hashing import LocalHashing
from dp.mechanism.response import RandomizedResponse
from entropy import Entropy, KeyStream
from entropy.stream import KEY_BYTES

_LABEL_BYTES = 8


@dataclass(frozen=True)
class ResponseTarget(NoisyTarget):
    """The reports of `n_owners` about one slot: everybody's choice is 0 or 1.

    Attributes:
        response: response of each owner.
        n_owners: who report about the record.
    """

    response: RandomizedResponse
    n_owners: int

    def parts(self, noise: Fraction) -> Sequence[Part]:
        """See `ExactTarget`: the report of each owner."""
        response = with_noise(self.response, noise)
        masses = np.full((2, response.n_options), float(response.other))
        masses[[0, 1], [0, 1]] = float(response.truthful)
        return [Part(masses, self.n_owners)]

    def draw(self, world: int, n_runs: int, entropy: Entropy) -> Integers:
        """See `ExactTarget`."""
        response, choices = with_noise(self.response, self.noise), np.full(n_runs, world)
        reports = [response.reports(choices, response.draw(entropy, n_runs)) for _ in range(self.n_owners)]
        return np.stack(reports, axis=1)


@dataclass(frozen=True)
class HashingTarget(NoisyTarget):
    """A hashed report of a choice that is 0 or 1, of a slot whose public function is drawn anew in each run.

    What matters of a report is whether it supports choice 0, and whether it supports choice 1: the two bits of a value.

    Attributes:
        hashing: its label is replaced by a fresh one.
    """

    hashing: LocalHashing

    def parts(self, noise: Fraction) -> Sequence[Part]:
        """See `ExactTarget`. Both choices meet in one bucket with probability 1 / g, g the number of buckets."""
        response = with_noise(self.hashing, noise).response
        meet = 1 / response.n_options
        truth, lie, neither = float(response.truthful), float(response.other), (response.n_options - 2)
        apart = [neither * lie, truth, lie, 0.0]
        together = [1 - truth, 0.0, 0.0, truth]
        zero = [(1 - meet) * a + meet * b for a, b in zip(apart, together, strict=True)]
        return [Part(np.array([zero, [zero[0], zero[2], zero[1], zero[3]]]))]

    def draw(self, world: int, n_runs: int, entropy: Entropy) -> Integers:
        """See `ExactTarget`. All slots of a call have functions of their own."""
        label = entropy.read(_LABEL_BYTES).hex()
        hashing = replace(with_noise(self.hashing, self.noise), label=label)
        reports = hashing.reports(np.full(n_runs, world), hashing.draw(entropy, n_runs))
        supported = hashing.unbiased_indicators(reports)[:, :2] > 0
        found: Integers = (supported @ np.array([1, 2]))[:, None].astype(np.int64)
        return found


@dataclass(frozen=True)
class BitsTarget(NoisyTarget):
    """The bits of all parties about one slot, of which all are reported.

    Attributes:
        reports: reports of several parties.
        categories: categories of the slot under input 0 and input 1, the same at all parties; -1 for an empty slot.
    """

    reports: PatternReports
    categories: tuple[int, int]

    def parts(self, noise: Fraction) -> Sequence[Part]:
        """See `ExactTarget`: bit after bit, party after party."""
        truthful = float(with_noise(self.reports.bits, noise).truthful)
        found = []
        for n_categories in self.reports.n_categories:
            for category in range(n_categories):
                set_ = [truthful if category == held else 1 - truthful for held in self.categories]
                found.append(Part(np.array([[1 - p, p] for p in set_])))
        return found

    def draw(self, world: int, n_runs: int, entropy: Entropy) -> Integers:
        """See `ExactTarget`: the runs are slots of one message of each party."""
        reports = replace(self.reports, bits=with_noise(self.reports.bits, self.noise))
        held, columns = np.full(n_runs, self.categories[world]), []
        for party, n_categories in enumerate(reports.n_categories):
            packed = reports.packed(party, held, reports.draw(entropy, party, n_runs))
            columns.append(np.unpackbits(packed, count=n_runs * n_categories).reshape(n_runs, n_categories))
        return np.hstack(columns).astype(np.int64)


@dataclass(frozen=True)
class SampledBitsTarget(NoisyTarget):
    """The bits about a secret sample of slots: of an empty table, or of one with one row, whose slot nobody knows.

    Only the bits of the row's category tell anything. A value is the number of such bits that are set, in each of the k
    reported slots: a number of k digits.

    Attributes:
        reports: reports of several parties with two categories each; few slots.
    """

    reports: PatternReports

    def parts(self, noise: Fraction) -> Sequence[Part]:
        """See `ExactTarget`. The row is in none of the reported slots, or in each of them with probability 1 / N."""
        reports, n_bits = self.reports, len(self.reports.n_categories)
        truthful = float(with_noise(reports.bits, noise).truthful)
        full, empty = (binom.pmf(np.arange(n_bits + 1), n_bits, p) for p in (truthful, 1 - truthful))
        masses: list[list[float]] = [[], []]
        for outcome in itertools.product(range(n_bits + 1), repeat=reports.n_reported):
            without = prod(empty[n] for n in outcome)
            masses[0].append(without)
            held = sum(without / empty[n] * full[n] for n in outcome)
            masses[1].append((1 - reports.n_reported / reports.n_slots) * without + held / reports.n_slots)
        return [Part(np.array(masses))]

    def draw(self, world: int, n_runs: int, entropy: Entropy) -> Integers:
        """See `ExactTarget`: one placement and one message of each party per run."""
        reports = replace(self.reports, bits=with_noise(self.reports.bits, self.noise))
        base = len(reports.n_categories) + 1
        digits, block = base ** np.arange(reports.n_reported)[::-1], range(reports.n_reported)
        found = np.empty((n_runs, 1), dtype=np.int64)
        for run in range(n_runs):
            stream = KeyStream(entropy.read(KEY_BYTES))
            slots = placement(stream, world, reports.n_slots, reports.n_reported)
            categories = np.where(slots >= 0, 1, -1)
            n_set = np.zeros(reports.n_reported)
            for party in range(len(reports.n_categories)):
                flips = reports.draw(entropy, party, len(block))
                signs = reports.unpack(party, block, reports.packed(party, categories, flips))
                n_set += signs[:, 2] > 0
            found[run] = n_set.astype(np.int64) @ digits
        return found


@dataclass(frozen=True)
class MomentReportsTarget(NoisyTarget):
    """Both releases of `moments` with method `threshold` about a slot in which one event more or less has happened.

    Attributes:
        reports: reports of two parties.
        values: values of party 0 under input 0 and input 1, one apart; party 1 has 0. Far above the threshold, so that
            the second release is made in full, or far below it, so that it is made in bits.
    """

    reports: MomentReports
    values: tuple[int, int]

    @property
    def is_large(self) -> bool:
        """Whether the slot is released in full the second time."""
        return bool(2 * min(self.values) >= self.reports.threshold)

    def parts(self, noise: Fraction) -> Sequence[Part]:
        """See `ExactTarget`: the noisy values of both parties, twice; or once, and then their bits."""
        reports = with_noise(self.reports, noise)
        law, window = discrete_laplace(reports.scale), self._window()
        values = [np.stack([law.shifted(value).within(*window) for value in held]) for held in (self.values, (0, 0))]
        if self.is_large:
            return [Part(masses) for masses in values * 2]
        return [Part(masses) for masses in values] + [
            Part(_bit_masses(float(reports.bits.truthful), [value == c for value in held]))
            for party, held in enumerate((self.values, (0, 0)))
            for c in range(1, reports.largest[party] + 1)
        ]

    def draw(self, world: int, n_runs: int, entropy: Entropy) -> Integers:
        """See `ExactTarget`: the runs are slots of one job.

        Raises:
            ValueError: noise brought a slot to the other side of the threshold, which a target must make impossible.
        """
        reports, (start, stop) = with_noise(self.reports, self.noise), self._window()
        held = [np.full(n_runs, value) for value in (self.values[world], 0)]
        first = [values + reports.draw(entropy, n_runs) for values in held]
        if np.any(reports.is_large(first[0] + first[1]) != self.is_large):
            raise ValueError("the values of this target are too close to its threshold")
        if self.is_large:
            columns = first + [values + reports.draw(entropy, n_runs) for values in held]
            return np.asarray(np.clip(np.stack(columns, axis=1), start, stop - 1) - start, dtype=np.int64)
        bits = [
            np.unpackbits(
                reports.packed(party, values, reports.draw(entropy, n_runs, party)), count=n_runs * largest
            ).reshape(n_runs, largest)
            for party, (values, largest) in enumerate(zip(held, reports.largest, strict=True))
        ]
        noisy = np.clip(np.stack(first, axis=1), start, stop - 1) - start
        return np.hstack([noisy, *bits]).astype(np.int64)

    def _window(self) -> tuple[int, int]:
        reach = discrete_laplace(self.reports.scale).stop
        return -reach, max(self.values) + reach


def _bit_masses(truthful: float, is_set: Sequence[bool]) -> Floats:
    chances = [truthful if bit else 1 - truthful for bit in is_set]
    return np.array([[1 - p, p] for p in chances])
