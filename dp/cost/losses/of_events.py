"""The privacy loss of each kind of event, if it is known: dominating pairs of distributions for all neighbours.

For one direction P is what is released with the unit in question and Q without it, for the other the reverse. The
neighbours of a job are the same for all of its releases, so a composition is of one direction or of the other, and its
epsilon the larger of both. Where a map swaps P and Q, as x -> d - x does for symmetric noise, both are alike.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp.cost.accounting import Adjacency, log_ratio
from dp.cost.events import (
    BoundedSampledDpEvent,
    CardinalitySketchDpEvent,
    DiscreteGaussianShiftsDpEvent,
    DiscreteLaplaceDpEvent,
    LaplaceSharesDpEvent,
    PoissonSampledDpEvent,
    PrivacyEvent,
    RandomizedResponseDpEvent,
    SampledBitsDpEvent,
    SkellamShiftsDpEvent,
)
from dp.cost.losses.additive import discrete_gaussian_losses, discrete_laplace_losses, skellam_losses
from dp.cost.losses.distribution import Losses
from dp.cost.losses.laplace_share import share_losses
from dp.cost.losses.sampled_bits import outcomes
from dp.cost.losses.sketch import SketchCell

Floats = NDArray[np.float64]

_SLACK = 2.0**-40
"""Relative error allowed for a mass, absolute one of a loss per unit of the logarithms it is made of."""


@dataclass(frozen=True)
class PairLosses:
    """The privacy losses of one release in both directions.

    Attributes:
        enters: of what is released with the unit against without it.
        leaves: the reverse. The same object where both are alike.
        n_times: so many independent such losses are suffered.
    """

    enters: Losses
    leaves: Losses
    n_times: int = 1


def losses_of(event: PrivacyEvent) -> tuple[PairLosses, ...] | None:
    """Return pairs of which at least one is as bad as any neighbours, or None where no such pair is known.

    One pair for nearly all events. The neighbours of sampled bits differ in who else's slot it might be
    (`dp.cost.losses.sampled_bits`): one pair for each kind, and the largest of their hockey-stick divergences bounds
    the event's.
    """
    match event:
        case DiscreteLaplaceDpEvent():
            if event.l1_sensitivity == 0:
                return None
            return _symmetric(discrete_laplace_losses(event.l1_sensitivity, event.scale), 1)
        case DiscreteGaussianShiftsDpEvent():
            return _symmetric(discrete_gaussian_losses(event.shift, event.variance), event.n_shifts)
        case SkellamShiftsDpEvent():
            return _symmetric(skellam_losses(event.shift, event.mu), event.n_shifts)
        case LaplaceSharesDpEvent():
            return _symmetric(share_losses(event.shape, event.mean, event.shift), event.n_shifts)
        case RandomizedResponseDpEvent():
            return _symmetric(_response_losses(event), 1)
        case SampledBitsDpEvent():
            return tuple(_sampled_bits_pairs(event))
        case CardinalitySketchDpEvent():
            return (_sketch_pair(event),)
        case PoissonSampledDpEvent():
            return _sampled(event, 1)
        case BoundedSampledDpEvent():
            return _sampled(event.step, event.n_steps)
    return None


def _symmetric(losses: Losses | None, n_times: int) -> tuple[PairLosses, ...] | None:
    return None if losses is None else (PairLosses(losses, losses, n_times),)


def _response_losses(event: RandomizedResponseDpEvent) -> Losses:
    """Two options change places: probabilities p, q, and (k - 2) q for all others, whose loss is 0."""
    p, other = event.truthful, (1 - event.truthful) / (event.n_options - 1)
    loss = log_ratio(p, other)
    masses = np.array([float(p), float((event.n_options - 2) * other), float(other)])
    return Losses(masses * (1 + _SLACK), np.array([loss, 0.0, -loss]) + loss * _SLACK)


def _sampled_bits_pairs(event: SampledBitsDpEvent) -> Iterator[PairLosses]:
    for log_base, log_absent, log_present in outcomes(event.truthful, event.n_bits, event.share):
        size = np.abs(log_base).max() + np.abs(log_absent).max() + np.abs(log_present).max() + 10
        enters, leaves = (
            Losses(np.exp(log_base + log_p) * (1 + size * _SLACK), log_p - log_q + size * _SLACK)
            for log_p, log_q in ((log_present, log_absent), (log_absent, log_present))
        )
        yield PairLosses(enters, leaves)


def _sketch_pair(event: CardinalitySketchDpEvent) -> PairLosses:
    """Both directions of a sketch: `dp.cost.losses.sketch`; one after the other where the user moves."""
    moves = event.adjacency is Adjacency.REPLACE_ONE
    own = event.own_phantoms // (2 if moves else 1)
    cell = SketchCell(1.0, event.n_sketches, event.n_parties, own, event.shared_phantoms, event.floor)
    enters, leaves = cell.losses()
    if moves:
        both = _product(enters, leaves)
        return PairLosses(both, both, event.n_sketches)
    return PairLosses(enters, leaves, event.n_sketches)


def _product(one: Losses, other: Losses) -> Losses:
    masses = np.outer(one.masses, other.masses).ravel() * (1 + 2.0**-52)
    losses = np.add.outer(one.losses, other.losses).ravel()
    return Losses(masses, losses + np.abs(losses) * 2.0**-52, (one.lost + other.lost) * 2)


def _sampled(event: PoissonSampledDpEvent, n_times: int) -> tuple[PairLosses, ...] | None:
    """Return the losses of a sampled release, of P and Q the release about a sample with the unit and without it.

    With r the rate the unit's presence is M = (1 - r) Q + r P, its absence Q [ZhuDongWang22, theorem 11]. With
    l = ln(P / Q), which may be larger than it is, as M against Q then only shows more:

        M against Q:  mass (1 - r) Q + r P,  loss  ln(1 - r + r e^l)
        Q against M:  by symmetry that of P against (1 - r) P + r Q:  mass P,  loss  -ln(1 - r + r e^-l).

    Q here is P e^-l, and what that lacks to 1 has no mass under P: loss ln(1 - r).
    """
    if event.rate == 0:
        return None
    found = losses_of(event.release)
    if found is None or len(found) != 1 or found[0].n_times != 1 or found[0].enters is not found[0].leaves:
        return None
    of, rate = found[0].enters, float(event.rate) * (1 + 2.0**-50)
    if rate >= 1:
        return found if n_times == 1 else (PairLosses(of, of, n_times),)
    less = math.log1p(-rate)
    without = of.masses * np.exp(-of.losses)
    rest = max(0.0, 1 - float(without.sum())) + _SLACK
    enters = Losses(
        np.append((1 - rate) * without + rate * of.masses, (1 - rate) * rest) * (1 + _SLACK),
        np.append(np.logaddexp(less, math.log(rate) + of.losses), less) + _error(of.losses, rate),
        rate * of.lost * (1 + _SLACK),
    )
    leaves = Losses(of.masses, -np.logaddexp(less, math.log(rate) - of.losses) + _error(of.losses, rate), of.lost)
    return (PairLosses(enters, leaves, n_times),)


def _error(losses: Floats, rate: float) -> float:
    """Return the error allowed for a loss of a sampled release: relative to the logarithms in it, but no smaller.

    ln(1 - r + r e^l) is near r (e^l - 1) for a small loss: it is wrong by 2^-50 of 1, and by little of itself.
    """
    return (1 + float(np.abs(losses).max()) - math.log(rate)) * 2.0**-46
