"""Audit targets of releases of integers plus noise: a vector of which a neighbour moves some entries by known steps."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import groupby
from typing import Protocol, Self

import numpy as np

from analyses.clustering.estimators.independent import NoisySizes
from analyses.power_moments.column_sums import NoisyColumnSums
from analyses.sums.noise import SumNoise
from audit.less_noise import NoisyRelease, NoisyTarget
from dp.audit.exact_audit import Part
from dp.audit.exact_law import Integers, Law, discrete_gaussian, discrete_laplace, laplace_shares, skellam
from dp.cost.views import View
from dp.mechanism.gram import NoisyGram
from dp.mechanism.norm_proof import MaskedProjections
from dp.mechanism.scalar import DiscreteGaussianNoise, DiscreteLaplaceNoise, SkellamNoise
from dp.mechanism.shared_laplace import SharedLaplace
from dp.mechanism.vector import SharedNoise, SharedSkellam
from entropy import Entropy
from mpc.secagg.opened_sum import OpenedSum
from mpc.secagg.secret.surplus import SurplusSeeds, n_opened_by
from mpc.secagg.vector.group import RingGroup

RUNS_AT_ONCE = 16
"""Runs of a release with independent noise of one law on a vector of any length are drawn as one vector this many times
as long: entries are independent, so its pieces are that many runs. Most of the time goes into the calls."""


class Release(Protocol):
    """A release of the exact answer plus independent noise in each entry; input 1 moves it by `difference`."""

    @property
    def difference(self) -> tuple[int, ...]:
        """What input 1 adds to the exact answer, per entry."""

    def laws(self) -> Sequence[Law]:
        """Return the law of the noise that the view does not know, per entry."""

    def output(self, world: int, entropy: Entropy) -> Integers:
        """Run once on input 0 or 1; return what the view sees less the exact answer for input 0, shape (entries,)."""

    def with_noise(self, noise: Fraction) -> Self:
        """Return the release with `noise` times the noise."""


@dataclass(frozen=True)
class AdditiveTarget(NoisyTarget):
    """Each entry of a release is a part.

    Attributes:
        release: release with the claimed noise.
    """

    release: Release

    def parts(self, noise: Fraction) -> Sequence[Part]:
        """See `ExactTarget`."""
        found = []
        laws = self.release.with_noise(noise).laws()
        entries = zip(self._windows(), laws, self.release.difference, strict=True)
        # Entries that follow each other and have one law and one difference are parts alike.
        for _, alike in groupby(entries, key=lambda entry: (entry[0], id(entry[1]), entry[2])):
            ((start, stop), law, moved), *others = alike
            masses = np.stack([law.within(start, stop), law.shifted(moved).within(start, stop)])
            found.append(Part(masses, 1 + len(others)))
        return found

    def draw(self, world: int, n_runs: int, entropy: Entropy) -> Integers:
        """See `ExactTarget`: one call of the release per run, or per `RUNS_AT_ONCE` of a release of any length."""
        release, windows = self.release.with_noise(self.noise), np.array(self._windows())
        longer = _longer(release, RUNS_AT_ONCE)
        n_long = 0 if longer is None else n_runs // RUNS_AT_ONCE
        drawn = [longer.output(world, entropy) for _ in range(n_long)] if longer is not None else []
        drawn += [release.output(world, entropy) for _ in range(n_runs - n_long * RUNS_AT_ONCE)]
        outputs = np.concatenate(drawn).reshape(n_runs, len(windows))
        found: Integers = np.clip(outputs, windows[:, 0], windows[:, 1] - 1) - windows[:, 0]
        return found

    def _windows(self) -> list[tuple[int, int]]:
        """Return the values told apart in each entry: all that occur, but with a probability below 1e-13."""
        return [
            (law.start + min(0, moved), law.stop + max(0, moved))
            for law, moved in zip(self.release.laws(), self.release.difference, strict=True)
        ]


@dataclass(frozen=True)
class PartiesRelease(NoisyRelease):
    """A release under shares: every party draws its part by `draw`, a view does not know that of some.

    Attributes:
        mechanism: mechanism of all parties.
        view: `coordinator` knows none of the noise; `coalition` has subtracted that of t parties.
        difference: see `Release`; no longer than the mechanism's sensitivity in the view.
    """

    mechanism: SharedNoise | NoisyGram
    view: View
    difference: tuple[int, ...]

    def laws(self) -> Sequence[Law]:
        """See `Release`."""
        mechanism = self.mechanism
        if isinstance(mechanism, SharedLaplace):
            return [laplace_shares(mechanism.unknown_shape(self.view), mechanism.mean)] * mechanism.length
        assert isinstance(mechanism, SharedSkellam | NoisyGram), "the law of other noise is not known"
        mu = mechanism.unknown_mu(self.view)
        if isinstance(mechanism, SharedSkellam):
            return [skellam(mu)] * mechanism.length
        n, on, off = mechanism.n_columns, skellam(mu), skellam(Fraction(mu, 2))
        return [on if i == j else off for i in range(n) for j in range(i, n)]

    def output(self, world: int, entropy: Entropy) -> Integers:
        """See `Release`."""
        n_unknown = self.mechanism.n_parties - (self.mechanism.colluding if self.view == "coalition" else 0)
        total = world * np.array(self.difference, dtype=np.int64)
        for _ in range(n_unknown):
            total = total + self.mechanism.draw(entropy)
        return total


def gram_difference(enters: Sequence[int], leaves: Sequence[int] | None = None) -> tuple[int, ...]:
    """Return how far the upper triangle of X^T X moves when a row enters, or replaces another one."""
    found = np.outer(enters, enters) - (0 if leaves is None else np.outer(leaves, leaves))
    return tuple(int(x) for x in found[np.triu_indices(len(enters))])


@dataclass(frozen=True)
class MechanismRelease(NoisyRelease):
    """A vector with the noise of one party, or of several that each release a vector of their own.

    Attributes:
        mechanism: mechanism of `dp.mechanism.scalar`, or of one owner: sizes of its clusters, the sum of its column,
            projections of its rows.
        n_owners: each releases such a vector.
        difference: see `Release`, owner after owner.
    """

    mechanism: (
        SkellamNoise | DiscreteGaussianNoise | DiscreteLaplaceNoise | NoisySizes | NoisyColumnSums | MaskedProjections
    )
    n_owners: int
    difference: tuple[int, ...]

    def laws(self) -> Sequence[Law]:
        """See `Release`."""
        match self.mechanism:
            case SkellamNoise(parameter=mu):
                law = skellam(mu)
            case DiscreteGaussianNoise(parameter=variance) | MaskedProjections(variance=variance):
                law = discrete_gaussian(variance)
            case DiscreteLaplaceNoise(parameter=scale) | NoisySizes(scale=scale) | NoisyColumnSums(scale=scale):
                law = discrete_laplace(scale)
        return [law] * len(self.difference)

    def output(self, world: int, entropy: Entropy) -> Integers:
        """See `Release`."""
        noise = np.concatenate([self.mechanism.draw(entropy) for _ in range(self.n_owners)])
        return noise + world * np.array(self.difference, dtype=np.int64)


@dataclass(frozen=True)
class MaskedSumRelease(NoisyRelease):
    """A masked sum with removable noise, of which what is in excess is opened and taken away.

    Every survivor draws by `SumNoise.draw` with seeds of its own; the excess is taken away by `remove_surplus`. A
    coalition has besides subtracted all that its members added.

    Attributes:
        mechanism: mechanism of all members.
        view: view to account for.
        n_survivors: at least the lowest level.
        difference: see `Release`.
    """

    mechanism: SumNoise
    view: View
    n_survivors: int
    difference: tuple[int, ...]

    def laws(self) -> Sequence[Law]:
        """See `Release`."""
        noise, part = self.mechanism, self.mechanism.unknown_part(self.n_survivors, self.view)
        law = laplace_shares(part * noise.shape, noise.mean) if noise.mean_units else skellam(part * noise.mu)
        return [law] * noise.length

    def output(self, world: int, entropy: Entropy) -> Integers:
        """See `Release`."""
        noise, survivors = self.mechanism, range(1, self.n_survivors + 1)
        n_components, n_opened = len(noise.component_parts), n_opened_by(noise.levels, self.n_survivors)
        corrupt = noise.n_corrupt if self.view == "coalition" else 0
        total, known = world * np.array(self.difference, dtype=np.int64), np.zeros(noise.length, dtype=np.int64)
        opened_seeds = {}
        for member in survivors:
            seeds = SurplusSeeds(entropy, n_components).seeds
            values = noise.draw(entropy, seeds)
            total = total + values
            opened_seeds[member] = seeds[:n_opened]
            if member <= corrupt:
                # What is opened of its noise is gone from the sum already.
                known = known + values - noise._components(seeds[:n_opened])
        group = RingGroup(62)
        opened = OpenedSum(group, group.encode(total), tuple(survivors), {}, {}, (), opened_seeds if n_opened else {})
        left: Integers = noise.remove_surplus(opened).integers().astype(np.int64) - known
        return left


def _longer(release: Release, times: int) -> Release | None:
    """Return a release whose output is that of several runs, one after the other; None if its length is not free."""
    if isinstance(release, PartiesRelease):
        if isinstance(release.mechanism, SharedSkellam | SharedLaplace):
            longer = replace(release.mechanism, length=times * release.mechanism.length)
            return replace(release, mechanism=longer, difference=times * release.difference)
    elif isinstance(release, MaskedSumRelease):
        noise = replace(release.mechanism, length=times * release.mechanism.length)
        return replace(release, mechanism=noise, difference=times * release.difference)
    return None
