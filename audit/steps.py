"""Audit target of sampled steps: noisy gradients of a logistic regression over bounded Poisson samples."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, reduce

import numpy as np

from analyses.logistic_regression.taylor_gradient import TaylorGradient
from audit.less_noise import NoisyTarget, with_noise
from dp.audit.exact_audit import UNIT, Part
from dp.audit.exact_law import Floats, Integers, Law, mixture, pushed, skellam
from dp.cost.views import View
from dp.mechanism.sampled import SampledSkellam
from entropy import Entropy, KeyStream
from entropy.stream import KEY_BYTES

_LEAST = 1e-300


@dataclass(frozen=True)
class Record:
    """One record of the joint table, quantised.

    Attributes:
        row: its features.
        label: 0 or 1.
    """

    row: tuple[int, ...]
    label: int


@dataclass(frozen=True)
class StepsTarget(NoisyTarget):
    """The gradients of all steps about a table of one record, which is absent or replaced under input 1.

    Weights are those of a coordinator that sends the same ones in every step. The table holds nothing else: whatever
    other records there were would only add to what a view does not know, or be subtracted by it.

    A step's output is a vector of noise, with or without the record's gradient. Its part of the loss is the logarithm
    of its likelihood ratio, in multiples of `UNIT`: for the coordinator, who does not know the sample, that of a
    mixture; for a coalition, which knows it, that of the gradient where the record takes part, else 0. The value of the
    one part is the sum over all steps. What is summed is a function of the output, so the law of the sum is exact.

    Attributes:
        mechanism: the releases.
        gradient: gradient of one or two columns and one sum.
        weights: on the lattice.
        records: records of input 0 and of input 1; None for no record. The coordinator's view has (None, a record), the
            coalition's two records.
        view: whose.
    """

    mechanism: SampledSkellam
    gradient: TaylorGradient
    weights: tuple[int, ...]
    records: tuple[Record | None, Record]
    view: View

    def parts(self, noise: Fraction) -> Sequence[Part]:
        """See `ExactTarget`."""
        laws = [self._law(world, noise) for world in (0, 1)]
        start, stop = self._window()
        return [Part(np.stack([law.within(start, stop) for law in laws]))]

    def draw(self, world: int, n_runs: int, entropy: Entropy) -> Integers:
        """See `ExactTarget`: samples, factors and every party's noise come from the functions that a job calls."""
        mechanism, losses = with_noise(self.mechanism, self.noise), self._losses
        step = mechanism.step
        n_unknown = step.n_parties - (step.colluding if self.view == "coalition" else 0)
        record, baseline = self.records[world], self._gradient_of(self.records[0])
        alone, empty = self._gradient_of(record), self._gradient_of(None)
        start, stop = self._window()
        edge = np.array(losses.shape) // 2
        found = np.zeros((n_runs, 1), dtype=np.int64)
        for run in range(n_runs):
            stream = KeyStream(entropy.read(KEY_BYTES))
            for batch in mechanism.sampling.samples(stream, 0 if record is None else 1):
                opened = alone if len(batch) else empty
                for _ in range(n_unknown):
                    opened = opened + mechanism.draw(entropy)
                if self.view == "coordinator" or len(batch):
                    seen = opened if self.view == "coordinator" else opened - baseline
                    at = np.clip(seen + edge, 0, 2 * edge)
                    found[run] += losses[tuple(at)]
        return np.clip(found, start, stop - 1) - start

    def _gradient_of(self, record: Record | None) -> Integers:
        """Return the sum that is opened about a batch of one record, or of none, entry after entry."""
        gradient = self.gradient
        if record is None:
            return np.zeros(gradient.n_columns * gradient.n_sums, dtype=np.int64)
        row = np.array([record.row], dtype=object)
        products, labels = row @ np.array(self.weights, dtype=object), np.array([record.label], dtype=object)
        factors = gradient.factors(products, labels, products**3 if gradient.order == 3 else None)
        return np.stack([row.T @ factor for factor in factors], axis=1).astype(np.int64).reshape(-1)

    def _difference(self) -> Integers:
        return self._gradient_of(self.records[1]) - self._gradient_of(self.records[0])

    def _noise_law(self, noise: Fraction) -> Law:
        return skellam(with_noise(self.mechanism, noise).step.unknown_mu(self.view))

    def _masses(self, noise: Fraction, moved: Integers) -> Floats:
        """Return the probabilities of a step's entries, on a square of values around 0."""
        law, reach = self._noise_law(noise), self._reach()
        entries = [law.shifted(int(d)).within(-reach, reach + 1) for d in moved]
        found: Floats = reduce(np.multiply.outer, entries)
        return found

    def _reach(self) -> int:
        return self._noise_law(Fraction(1)).stop + int(np.abs(self._difference()).max())

    @cached_property
    def _losses(self) -> Integers:
        """Return what a step's output adds to the loss, by its entries."""
        nothing = self._masses(Fraction(1), 0 * self._difference())
        moved = self._masses(Fraction(1), self._difference())
        rate = float(self.mechanism.sampling.rate) if self.view == "coordinator" else 1.0
        ratio: Floats = (1 - rate) * nothing + rate * moved
        found: Floats = np.log(np.maximum(ratio, _LEAST)) - np.log(np.maximum(nothing, _LEAST))
        found[(ratio < _LEAST) & (nothing < _LEAST)] = 0.0
        return np.rint(np.clip(found, -15.0, 15.0) / UNIT).astype(np.int64)

    def _law(self, world: int, noise: Fraction) -> Law:
        """Return the law of the loss: over all ways in which the record can take part in the steps, no more than K."""
        losses, sampling = self._losses, self.mechanism.sampling
        moved = self._difference() * world
        present = pushed(self._masses(noise, moved).ravel(), losses.ravel())
        absent = Law(0, np.ones(1))
        if self.view == "coordinator":
            absent = pushed(self._masses(noise, 0 * moved).ravel(), losses.ravel())
        if self.records[world] is None:
            return absent.times(sampling.n_steps)
        rate, most = float(sampling.rate), sampling.most_participations
        ways: dict[int, list[tuple[float, Law]]] = {0: [(1.0, Law(0, np.ones(1)))]}
        for _ in range(sampling.n_steps):
            after: dict[int, list[tuple[float, Law]]] = {}
            for n_used, parts in ways.items():
                chance, law = sum(p for p, _ in parts), _normed(parts)
                takes_part = rate if n_used < most else 0.0
                after.setdefault(n_used, []).append((chance * (1 - takes_part), law + absent))
                if takes_part:
                    after.setdefault(n_used + 1, []).append((chance * takes_part, law + present))
            ways = after
        return mixture([way for parts in ways.values() for way in parts])

    def _window(self) -> tuple[int, int]:
        n_steps, losses = self.mechanism.sampling.n_steps, self._losses
        return n_steps * int(losses.min()), n_steps * int(losses.max()) + 1


def _normed(parts: Sequence[tuple[float, Law]]) -> Law:
    chance = sum(p for p, _ in parts)
    return mixture([(p / chance, law) for p, law in parts])
