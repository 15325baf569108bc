"""What `moiety audit` can audit: our mechanisms, and faulty ones that it must catch."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from scipy.special import ive

from cli.faulty_mechanisms import DELTA, FloatLaplace, SketchWithSharedKeys, TooLittleLaplace, TwoViewsOfOneSum
from dp.accounting import Adjacency
from dp.audit import Claim, Statistics, Target
from dp.cardinality_sketch import PartitionSketch, highest_of_many
from dp.cost import Cost, Unit
from dp.gram_mechanism import NoisyGram
from dp.mechanism import DiscreteGaussianNoise, DiscreteLaplaceNoise, SkellamNoise
from dp.randomized_response import RandomizedResponse
from dp.skellam import sample_skellam
from dp.sketch_loss import SketchCell
from entropy import Entropy, KeyStream
from entropy.stream import KEY_BYTES

Additive = DiscreteGaussianNoise | DiscreteLaplaceNoise | SkellamNoise


@dataclass(frozen=True)
class AdditiveTarget:
    """A count of 0 or `l1` with the noise of a mechanism of ours: the worst neighbours."""

    mechanism: Additive
    claim: Claim

    def statistics(self, world: int, n_runs: int, entropy: Entropy) -> Statistics:
        """Return the noisy count; all counts of one batch come from one call of the sampler."""
        batch = type(self.mechanism)(
            n_runs,
            self.mechanism.squared_l2,
            self.mechanism.l1,
            self.mechanism.parameter,
            self.mechanism.adjacency,
            self.mechanism.unit,
        )
        return {"count": (batch.sample(entropy).values + world * self.mechanism.l1).astype(np.float64)}


@dataclass(frozen=True)
class GramTarget:
    """The Gram matrix of two columns of one party, with and without the row (3, 3).

    Noise is drawn for all runs at once, as `NoisyGram.sample_party_noise` draws it for one.

    Attributes:
        mechanism: of two columns, squared norm bound 18; one party.
        claim: for the coordinator's view.
        shrink: the noise has this part of the parameter that is claimed; 1 for an honest party.
    """

    mechanism: NoisyGram
    claim: Claim
    shrink: Fraction = Fraction(1)

    def statistics(self, world: int, n_runs: int, entropy: Entropy) -> Statistics:
        """Return the logarithm of the likelihood ratio of the noisy entries 11, 12 and 22."""
        mu = self.mechanism.party_mu * self.shrink
        log_ratio = np.zeros(n_runs)
        for part in (mu, mu / 2, mu):
            entry = 9 * world + sample_skellam(entropy, part, n_runs)
            mass = ive(np.abs(np.arange(entry.min() - 9, entry.max() + 1)), 2 * float(part))
            log_mass = np.log(np.maximum(mass, 1e-300))
            log_ratio += (log_mass[:-9] - log_mass[9:])[entry - entry.min()]
        return {"log likelihood ratio": log_ratio}


@dataclass(frozen=True)
class ResponseTarget:
    """One report about the choice 0 or 1."""

    response: RandomizedResponse

    @property
    def claim(self) -> Claim:
        """The pure epsilon of a report."""
        return Claim(self.response.pure_epsilon, 0.0)

    def statistics(self, world: int, n_runs: int, entropy: Entropy) -> Statistics:
        """Return the report."""
        reports = self.response.report(np.full(n_runs, world), entropy, Unit.RECORD)
        return {"report": reports.values.astype(np.float64)}


@dataclass(frozen=True)
class SketchTarget:
    """Sketches of two parties with one cluster each: without any user, and with one.

    Attributes:
        sketch: of one cluster and two parties.
    """

    sketch: PartitionSketch

    @property
    def cell(self) -> SketchCell:
        """What the sketches are accounted by."""
        s = self.sketch
        return SketchCell(1.0, s.n_sketches, 2, s.own_phantoms, s.shared_phantoms, s.floor)

    @property
    def claim(self) -> Claim:
        """The exact composition of the losses of all sketches."""
        return Claim(self.cell.epsilon(DELTA), DELTA)

    def statistics(self, world: int, n_runs: int, entropy: Entropy) -> Statistics:
        """Return the logarithm of the likelihood ratio of all levels of both parties.

        Levels are drawn for all runs at once, by the sampler and the maxima of `PartitionSketch.publish`.
        """
        s, stream = self.sketch, KeyStream(entropy.read(KEY_BYTES))
        size = n_runs * s.n_sketches
        common = np.maximum(highest_of_many(stream, s.shared_phantoms, size), highest_of_many(stream, world, size))
        levels = [np.maximum(common, highest_of_many(stream, s.own_phantoms, size)) for _ in range(2)]
        first, second = (np.maximum(of_party, s.floor).astype(np.int64) for of_party in levels)
        without, with_target = (np.log(np.maximum(masses, 1e-300)) for masses in self.cell.outcomes())
        log_ratio = with_target - without
        lowest = np.minimum(np.minimum(first, second) - s.floor, len(log_ratio) - 1)
        found = log_ratio[lowest, (first == second).astype(np.int64)]
        return {"log likelihood ratio": found.reshape(n_runs, s.n_sketches).sum(axis=1)}


class Entry(NamedTuple):
    """One name of the command's table.

    Attributes:
        summary: what is audited.
        is_sound: whether the claim is true: it must withstand; else it must be beaten.
        n_runs: of each input, enough for a verdict.
        make: builds the target.
    """

    summary: str
    is_sound: bool
    n_runs: int
    make: Callable[[], Target]


def _additive(kind: type[Additive], sensitivity: int, parameter: int, delta: float) -> Callable[[], Target]:
    def make() -> Target:
        mechanism = kind(1, sensitivity**2, sensitivity, parameter, Adjacency.ADD_OR_REMOVE_ONE, Unit.RECORD)
        if isinstance(mechanism, DiscreteLaplaceNoise):
            return AdditiveTarget(mechanism, Claim(float(mechanism.pure_epsilon), 0.0))
        return AdditiveTarget(mechanism, Claim(Cost.of(mechanism.event, Unit.RECORD).epsilon(delta).epsilon, delta))

    return make


def _gram(shrink: Fraction) -> Callable[[], Target]:
    def make() -> Target:
        mechanism = NoisyGram(n_columns=2, squared_norm_bound=18, n_parties=1, colluding=0, party_mu=324)
        return GramTarget(mechanism, Claim(mechanism.epsilon("coordinator", DELTA).epsilon, DELTA), shrink)

    return make


TARGETS = {
    "gram": Entry("Gram matrix with Skellam noise", True, 1_000_000, _gram(Fraction(1))),
    "skellam": Entry("count with Skellam noise", True, 2_000_000, _additive(SkellamNoise, 10, 200, DELTA)),
    "discrete-laplace": Entry(
        "count with discrete Laplace noise", True, 2_000_000, _additive(DiscreteLaplaceNoise, 100, 100, 0)
    ),
    "discrete-gaussian": Entry(
        "count with discrete Gaussian noise", True, 2_000_000, _additive(DiscreteGaussianNoise, 10, 200, DELTA)
    ),
    "randomized-response": Entry(
        "randomized response among three options",
        True,
        2_000_000,
        lambda: ResponseTarget(RandomizedResponse(3, Fraction(3, 5))),
    ),
    "sketch": Entry(
        "cardinality sketches of two parties with shared keys and shared phantoms",
        True,
        500_000,
        lambda: SketchTarget(PartitionSketch(1, 4, 2, own_phantoms=4, shared_phantoms=2, floor=2)),
    ),
    "faulty-laplace": Entry("discrete Laplace noise of a scale 20 % too small", False, 2_000_000, TooLittleLaplace),
    "faulty-gram": Entry(
        "Gram matrix with Skellam noise of half the parameter", False, 1_000_000, _gram(Fraction(1, 2))
    ),
    "faulty-masked-sum": Entry("sum of which two noisy views are sent", False, 2_000_000, TwoViewsOfOneSum),
    "faulty-sketch": Entry("cardinality sketches of parties with shared keys", False, 2_000_000, SketchWithSharedKeys),
    "faulty-float-laplace": Entry("numpy's floating-point Laplace noise", False, 20_000, FloatLaplace),
}
"""Name on the command line to what is audited."""
