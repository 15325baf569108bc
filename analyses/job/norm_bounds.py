"""What owners prove of the rows that they deal, in jobs with `security = "malicious"`: bounds, field, and the cost.

A proof opens masked projections of the rows (`mpc.proofs.norm_bound`), one more release for each owner. The noise of
the answer is chosen so that both together meet the job's privacy.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import chain
from typing import TypeVar

from analyses.job.job import Job, JobError, PrivacyTarget
from dp.cost.accounting import CalibrationError
from dp.cost.composition import composed_epsilon
from dp.cost.events.event import PrivacyEvent
from dp.cost.views import Protected, View
from dp.mechanism.norm_proof import MaskedProjections, noise_delta
from dp.mechanism.release import Release
from mpc.arithmetic.field import ResidueField
from mpc.proofs.norm_bound import LEAST_MASK, MOST_MASK, N_PROJECTIONS, NormBound, primes_needed

Bounds = Mapping[int, NormBound]
"""Owner to what is proven of its rows, in the order of the joint table; empty where nothing is."""

MOST_SQUARED_NORM = 1 << 60

_STEPS = 1 << 12
"""The answer's own epsilon is a multiple of the job's by 1 / 2^12: last digits of logarithms do not decide on it."""

R = TypeVar("R", bound=Release)


def by_owner(job: Job, bounds: Iterable[NormBound]) -> Bounds:
    """Return what owners prove, in the order of the job's inputs; nothing where the job asks for no proofs."""
    owners = [job.members.index(brought.party) + 1 for brought in job.inputs]
    return dict(zip(owners, bounds, strict=True)) if job.is_malicious else {}


def fitted(bounds: Bounds, n_primes: int) -> Bounds:
    """Return the bounds with masks as large as a field takes: the larger they are, the less projections say."""
    if not bounds:
        return bounds
    order, low, high = ResidueField(n_primes).order, LEAST_MASK, MOST_MASK
    while low < high:
        mask = (low + high + 1) // 2
        if all(replace(bound, mask=mask).order_needed < order for bound in bounds.values()):
            low = mask
        else:
            high = mask - 1
    return {owner: replace(bound, mask=low) for owner, bound in bounds.items()}


def primes_for(bounds: Bounds) -> int:
    """Return how many primes the proofs need at least; 1 where there is none.

    Raises:
        JobError: no field is large enough, or a row may be longer than squares are found for.
    """
    if any(bound.squared_norm > MOST_SQUARED_NORM for bound in bounds.values()):
        raise JobError("security: rows of integers as long as these cannot be proven; use coarser units")
    found = primes_needed(max((bound.order_needed for bound in bounds.values()), default=0))
    if found is None:
        raise JobError(
            "security: no field is large enough to prove rows of this many units, columns and max_rows; use coarser "
            "units (gamma), or declare fewer rows"
        )
    return found


def projections_of(bound: NormBound, protected: Protected) -> MaskedProjections:
    """Return the release of the projections that a bound is proven by."""
    return MaskedProjections(
        bound.largest_squared_norm, bound.squared_operator_bound, N_PROJECTIONS, bound.mask_variance, protected
    )


def events_of(bounds: Bounds, protected: Protected, view: View) -> tuple[PrivacyEvent, ...]:
    """Return what the projections of all owners cost."""
    return tuple(chain.from_iterable(projections_of(bound, protected).events(view) for bound in bounds.values()))


def with_proofs(
    calibrate: Callable[[float], R],
    bound_of: Callable[[R], int],
    proven: Bounds,
    target: PrivacyTarget,
    protected: Protected,
    n_noises: int,
) -> tuple[R, int]:
    """Return the release with about the least noise that meets a target beside proofs, and the primes of its field.

    Args:
        calibrate: returns the release with the least noise for an epsilon.
        bound_of: returns a bound of what is opened.
        proven: what owners prove of their rows, with the smallest masks; where nothing is proven, the epsilon is the
            target's own.
        target: privacy of the release and of what proofs show together.
        protected: unit in whose contribution neighbouring tables differ.
        n_noises: how often parties draw noise that is proven where rows are, all of them together.

    Raises:
        JobError: see `primes_for`; or proofs of noise take all of delta.
        CalibrationError: the proofs alone cost more than the job's epsilon, or as `calibrate`.
        FieldTooSmallError: no field holds what is opened.
    """
    n_primes, besides = primes_for(proven), noise_delta(n_noises) if proven else 0.0
    if besides >= target.delta:
        raise JobError(f"privacy.delta: {target.delta:g} is not more than the {besides:.2g} that proofs take of it")
    target = target.model_copy(update={"delta": target.delta - besides})
    while True:
        shown = events_of(fitted(proven, n_primes), protected, target.view)
        made = calibrated_beside(calibrate, shown, target)
        needed = len(ResidueField.for_bound(bound_of(made)).primes)
        if needed <= n_primes or not proven:
            return made, max(needed, n_primes)
        n_primes = needed


def calibrated_beside(calibrate: Callable[[float], R], beside: Iterable[PrivacyEvent], target: PrivacyTarget) -> R:
    """Return the release with about the least noise that meets a target together with other releases.

    Args:
        calibrate: returns the release with the least noise for an epsilon.
        beside: events of the others, in the view of the target; where there are none the epsilon is the target's own.
        target: privacy of all of them together.

    Raises:
        CalibrationError: the others alone cost more, or as `calibrate`.
    """
    others = tuple(beside)
    if not others:
        return calibrate(target.epsilon)
    steps = _STEPS - 1
    while steps > 0:
        made = calibrate(target.epsilon * steps / _STEPS)
        events = (*made.events(target.view), *others)
        excess = composed_epsilon(events, target.delta).epsilon / target.epsilon - 1
        if excess <= 0:
            return made
        steps -= max(1, int(excess * _STEPS))
    raise CalibrationError("what the proofs of malicious security say of rows costs more than the job's epsilon")
