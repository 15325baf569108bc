"""FOR AUDITS ONLY: a mechanism with less noise than it claims, as if it had a fault.

`with_noise(mechanism, factor)` scales the noise parameter that the mechanism gives to its sampler; nothing else of the
mechanism changes, and the sampler is the one that jobs use. An audit keeps the claim of the whole mechanism and must
find that the other one does not keep it.

| mechanism | what is scaled |
| --- | --- |
| Skellam and discrete Gaussian noise | the variance, by the factor |
| discrete Laplace noise | the scale, by its square root, which scales the variance by the factor |
| randomized response, bits, local hashing, reports made of bits, local responses | epsilon, by 2 - factor |
| cardinality sketches | the numbers of phantoms, by the factor |

Parameters are whole numbers, so what they are scaled to is rounded; laws are computed from the rounded ones.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Self, TypeVar

from analyses.clustering.estimators.independent import NoisySizes
from analyses.clustering.noisy_lloyd import NoisyLloyd
from analyses.clustering.partition_tree import PartitionTree
from analyses.matrix_factorization.descent.step_noise import OwnStepNoise, SumStepNoise
from analyses.matrix_factorization.round_noise import OwnItemsNoise, RoundNoise
from analyses.pattern_count.reports import PatternReports
from analyses.power_moments.column_sums import NoisyColumnSums
from analyses.power_moments.reports import MomentReports
from analyses.power_moments.sketch import MomentSketch
from analyses.sums.noise import SumNoise
from dp.local_mechanism.hadamard_response import HadamardResponse
from dp.local_mechanism.hashed_response import HashedResponse
from dp.local_mechanism.hierarchy import HaarResponse, HierarchicalResponse
from dp.local_mechanism.odds import Odds
from dp.local_mechanism.prefix_response import PrefixResponse
from dp.local_mechanism.sign_response import SignResponse
from dp.local_mechanism.wave import Wave
from dp.mechanism.bits import BIAS_UNIT, RandomizedBits
from dp.mechanism.cardinality import PartitionSketch
from dp.mechanism.gram import NoisyGram
from dp.mechanism.hashing import LocalHashing
from dp.mechanism.norm_proof import MaskedProjections
from dp.mechanism.projection import NoisySketch
from dp.mechanism.response import RandomizedResponse
from dp.mechanism.sampled import SampledSkellam
from dp.mechanism.scalar import DiscreteGaussianNoise, DiscreteLaplaceNoise, SkellamNoise
from dp.mechanism.shared_laplace import MEAN_UNIT, SharedLaplace
from dp.mechanism.vector import SharedSkellam

M = TypeVar("M")

_STEPS = 1 << 20


def with_noise(mechanism: M, factor: Fraction) -> M:
    """Return the mechanism with `factor` times its noise; itself for 1.

    Raises:
        TypeError: it is not defined how to reduce the noise of such a mechanism.
    """
    if factor == 1:
        return mechanism
    for kind, scale in _SCALINGS.items():
        if isinstance(mechanism, kind):
            scaled: M = scale(mechanism, factor)
            return scaled
    raise TypeError(f"it is not defined how to reduce the noise of a {type(mechanism).__name__}")


@dataclass(frozen=True)
class NoisyTarget:
    """What all targets have, beside the mechanism with the claimed noise.

    Attributes:
        noise: the fraction of the claimed noise that runs are drawn with.
    """

    noise: Fraction = field(default=Fraction(1), kw_only=True)

    def with_noise(self, noise: Fraction) -> Self:
        """See `ExactTarget`."""
        return replace(self, noise=noise)


@dataclass(frozen=True)
class NoisyRelease:
    """What all releases have that `NoisyTarget`s look at.

    Attributes:
        mechanism: mechanism whose noise `with_noise` reduces.
    """

    mechanism: Any

    def with_noise(self, noise: Fraction) -> Self:
        """Return the release with `noise` times the noise."""
        return replace(self, mechanism=with_noise(self.mechanism, noise))


def scaled_scale(scale: Fraction, factor: Fraction) -> Fraction:
    """Return the scale of discrete Laplace noise of about `factor` times the variance."""
    return Fraction(round(scale * _STEPS * Fraction(math.sqrt(factor))), _STEPS)


def _shared(mechanism: SharedSkellam, factor: Fraction) -> SharedSkellam:
    return replace(mechanism, party_mu=round(mechanism.party_mu * factor))


def _shared_laplace(mechanism: SharedLaplace, factor: Fraction) -> SharedLaplace:
    return replace(mechanism, mean_units=_scaled_mean(mechanism.mean_units, factor))


def _scaled_mean(units: int, factor: Fraction) -> int:
    """Return the mean m' of `factor` times the variance, which is proportional to m (1 + m)."""
    mean = units * float(MEAN_UNIT)
    scaled = 2 * float(factor) * mean * (1 + mean) / (1 + math.sqrt(1 + 4 * float(factor) * mean * (1 + mean)))
    return round(scaled / float(MEAN_UNIT))


def _of_a_round(mechanism: RoundNoise | OwnItemsNoise, factor: Fraction) -> RoundNoise | OwnItemsNoise:
    return replace(mechanism, noise=with_noise(mechanism.noise, factor))


def _of_steps(mechanism: SumStepNoise | OwnStepNoise, factor: Fraction) -> SumStepNoise | OwnStepNoise:
    plan = mechanism.plan
    return replace(mechanism, plan=replace(plan, mu=round(plan.mu * factor)))


def _gram(mechanism: NoisyGram, factor: Fraction) -> NoisyGram:
    return replace(mechanism, party_mu=2 * round(mechanism.party_mu * factor / 2))


def _sampled(mechanism: SampledSkellam, factor: Fraction) -> SampledSkellam:
    return replace(mechanism, step=with_noise(mechanism.step, factor))


def _by_variance(mechanism: Any, factor: Fraction) -> Any:
    return replace(mechanism, parameter=round(mechanism.parameter * factor))


def _sizes(mechanism: NoisySizes, factor: Fraction) -> NoisySizes:
    return replace(mechanism, scale=round(mechanism.scale * math.sqrt(factor)))


def _column_sums(mechanism: NoisyColumnSums, factor: Fraction) -> NoisyColumnSums:
    return replace(mechanism, scale=scaled_scale(mechanism.scale, factor))


def _laplace(mechanism: DiscreteLaplaceNoise, factor: Fraction) -> DiscreteLaplaceNoise:
    return replace(mechanism, parameter=round(mechanism.parameter * math.sqrt(factor)))


def _sum(mechanism: SumNoise, factor: Fraction) -> SumNoise:
    if mechanism.mean_units:
        return replace(mechanism, mean_units=_scaled_mean(mechanism.mean_units, factor))
    return replace(mechanism, mu=round(mechanism.mu * factor))


def _sketch(mechanism: NoisySketch, factor: Fraction) -> NoisySketch:
    return replace(mechanism, multiplier=round(mechanism.multiplier * factor))


def _tree(mechanism: PartitionTree, factor: Fraction) -> PartitionTree:
    return replace(mechanism, count_variance=mechanism.count_variance * factor, sum_cost=mechanism.sum_cost / factor)


def _lloyd(mechanism: NoisyLloyd, factor: Fraction) -> NoisyLloyd:
    return replace(
        mechanism,
        count_variance=mechanism.count_variance * factor,
        sum_variance=mechanism.sum_variance * factor,
    )


def _moment_sketch(mechanism: MomentSketch, factor: Fraction) -> MomentSketch:
    return replace(mechanism, quotient=round(mechanism.quotient * factor))


def _response(mechanism: RandomizedResponse, factor: Fraction) -> RandomizedResponse:
    odds = math.exp(mechanism.pure_epsilon * float(2 - factor))
    truthful = odds / (odds + mechanism.n_options - 1)
    return replace(mechanism, truthful=Fraction(round(truthful * _STEPS), _STEPS))


def _hashing(mechanism: LocalHashing, factor: Fraction) -> LocalHashing:
    return replace(mechanism, response=with_noise(mechanism.response, factor))


def _bits(mechanism: RandomizedBits, factor: Fraction) -> RandomizedBits:
    odds = float(mechanism.truthful / (1 - mechanism.truthful)) ** float(2 - factor)
    return RandomizedBits(round((odds / (1 + odds) - 0.5) / BIAS_UNIT) * BIAS_UNIT)


def _reports(mechanism: MomentReports | PatternReports, factor: Fraction) -> MomentReports | PatternReports:
    return replace(mechanism, bits=with_noise(mechanism.bits, factor))


def _phantoms(mechanism: PartitionSketch, factor: Fraction) -> PartitionSketch:
    return replace(
        mechanism,
        own_phantoms=round(mechanism.own_phantoms * factor),
        shared_phantoms=max(1, round(mechanism.shared_phantoms * factor)),
    )


def _wave(mechanism: Wave, factor: Fraction) -> Wave:
    window = tuple(_scaled_weight(weight, mechanism.other, factor) for weight in mechanism.window)
    return replace(mechanism, window=window)


def _by_odds(mechanism: Any, factor: Fraction) -> Any:
    odds = mechanism.odds
    return replace(mechanism, odds=Odds(_scaled_weight(odds.favoured, odds.other, factor), odds.other))


def _scaled_weight(weight: int, other: int, factor: Fraction) -> int:
    scaled: int = round(other * (weight / other) ** float(2 - factor))
    return scaled


_SCALINGS: dict[type, Callable[[Any, Fraction], Any]] = {
    SharedSkellam: _shared,
    SharedLaplace: _shared_laplace,
    NoisyGram: _gram,
    SampledSkellam: _sampled,
    SkellamNoise: _by_variance,
    DiscreteGaussianNoise: _by_variance,
    MaskedProjections: lambda made, factor: replace(made, variance=round(made.variance * factor)),
    DiscreteLaplaceNoise: _laplace,
    NoisySizes: _sizes,
    NoisyColumnSums: _column_sums,
    SumNoise: _sum,
    RoundNoise: _of_a_round,
    OwnItemsNoise: _of_a_round,
    SumStepNoise: _of_steps,
    OwnStepNoise: _of_steps,
    NoisySketch: _sketch,
    PartitionTree: _tree,
    NoisyLloyd: _lloyd,
    MomentSketch: _moment_sketch,
    RandomizedResponse: _response,
    LocalHashing: _hashing,
    Wave: _wave,
    SignResponse: _by_odds,
    HashedResponse: _by_odds,
    HadamardResponse: _by_odds,
    HierarchicalResponse: _by_odds,
    HaarResponse: _by_odds,
    PrefixResponse: _by_odds,
    RandomizedBits: _bits,
    MomentReports: _reports,
    PatternReports: _reports,
    PartitionSketch: _phantoms,
}
