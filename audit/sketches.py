"""Audit targets of sketches: cardinalities of clusters, and random projections of rows or of a column."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, Self

import numpy as np

from analyses.power_moments.sketch import MomentSketch
from analyses.second_moments.sketch_matrix import SketchMatrix
from audit.less_noise import NoisyRelease, NoisyTarget, with_noise
from dp.audit.exact_audit import Part
from dp.audit.exact_law import Floats, Integers, Law, discrete_gaussian, mixture, total
from dp.cost.losses.sketch import SketchCell
from dp.mechanism.cardinality import HIGHEST, PartitionSketch
from dp.mechanism.projection import NoisySketch
from entropy import Entropy, InsecureTestEntropy, KeyStream
from entropy.stream import KEY_BYTES


@dataclass(frozen=True)
class CardinalityTarget(NoisyTarget):
    """The sketches of all parties of a key, one cluster each: without any user, and with one who is in all clusters.

    The likelihood ratio of one sketch depends on the least level and on how many parties publish it; their pair is a
    value of one part.

    Attributes:
        sketch: sketch of one cluster.
    """

    sketch: PartitionSketch

    def parts(self, noise: Fraction) -> Sequence[Part]:
        """See `ExactTarget`. Levels above the highest one published count as that one."""
        s = with_noise(self.sketch, noise)
        cell = SketchCell(1.0, s.n_sketches, s.n_parties, s.own_phantoms, s.shared_phantoms, s.floor)
        return [Part(np.stack([self._cut(masses) for masses in cell.outcomes()]), s.n_sketches)]

    def draw(self, world: int, n_runs: int, entropy: Entropy) -> Integers:
        """See `ExactTarget`: every party publishes, with streams of one key."""
        s = with_noise(self.sketch, self.noise)
        found = np.empty((n_runs, s.n_sketches), dtype=np.int64)
        membership = np.zeros(world, dtype=np.int64)
        for run in range(n_runs):
            users, phantoms = entropy.read(KEY_BYTES), entropy.read(KEY_BYTES)
            levels = np.stack(
                [
                    s.publish(membership, axis, KeyStream(users), KeyStream(phantoms), s.draw(entropy))[:, 0]
                    for axis in range(s.n_parties)
                ]
            )
            least = levels.min(axis=0)
            found[run] = (least.astype(np.int64) - s.floor) * s.n_parties + (levels == least).sum(axis=0) - 1
        return found

    def _cut(self, masses: Floats) -> Floats:
        """Return the masses of levels up to HIGHEST: whoever is above publishes that one, and so do all above it."""
        kept = HIGHEST - self.sketch.floor
        cut = masses[: kept + 1].copy()
        cut[kept] = 0.0
        cut[kept, -1] = 1 - cut.sum()
        return cut.ravel()


class Signs(Protocol):
    """A sketch by random signs that the owners know: what it does for one row, and its noise."""

    @property
    def entries(self) -> tuple[int, ...]:
        """The values of the row that input 1 has more than input 0, one per sketch that is released."""

    @property
    def n_rows(self) -> int:
        """Entries of each sketch."""

    @property
    def weights(self) -> tuple[int, ...]:
        """The best linear combination of the sketches: entries over variances, as integers."""

    def laws(self) -> Sequence[Law]:
        """Return the law of the noise of each sketch."""

    def output(self, world: int, entropy: Entropy) -> tuple[Integers, Integers]:
        """Run once; return the noisy sketches, shape (sketches, n_rows), and the signs that the row met, (n_rows,)."""

    def with_noise(self, noise: Fraction) -> Self:
        """Return the sketch with `noise` times the noise."""


@dataclass(frozen=True)
class SignsTarget(NoisyTarget):
    """Noisy sketches by random signs, of an empty table and of one with one row.

    With the signs known, row i of the weighted sum of the sketches is shifted by sign i times a constant. With the
    signs unknown, it is as often shifted up as down. Either way the likelihood ratio depends on the weighted sum alone,
    as the weights are entries over variances.

    Attributes:
        sketch: what is released.
        knows_signs: whether the view knows the signs: owners, and whoever colludes with one, do; the coordinator does
            not.
    """

    sketch: Signs
    knows_signs: bool

    def parts(self, noise: Fraction) -> Sequence[Part]:
        """See `ExactTarget`: row after row of the weighted sum, times its sign where signs are known."""
        law, shift, (start, stop) = self._law(noise), self._shift(), self._window()
        up, down = law.shifted(shift), law.shifted(-shift)
        present = up if self.knows_signs else mixture([(0.5, up), (0.5, down)])
        masses = np.stack([law.within(start, stop), present.within(start, stop)])
        return [Part(masses, self.sketch.n_rows)]

    def draw(self, world: int, n_runs: int, entropy: Entropy) -> Integers:
        """See `ExactTarget`: one call per run and owner."""
        sketch, (start, stop) = self.sketch.with_noise(self.noise), self._window()
        weights = np.array(self.sketch.weights)
        found = np.empty((n_runs, self.sketch.n_rows), dtype=np.int64)
        for run in range(n_runs):
            noisy, signs = sketch.output(world, entropy)
            found[run] = weights @ noisy * (signs if self.knows_signs else 1)
        return np.clip(found, start, stop - 1) - start

    def _law(self, noise: Fraction) -> Law:
        laws = self.sketch.with_noise(noise).laws()
        return total(law.scaled(weight) for law, weight in zip(laws, self.sketch.weights, strict=True))

    def _shift(self) -> int:
        return sum(weight * entry for weight, entry in zip(self.sketch.weights, self.sketch.entries, strict=True))

    def _window(self) -> tuple[int, int]:
        law, shift = self._law(Fraction(1)), self._shift()
        return law.start - shift, law.stop + shift


@dataclass(frozen=True)
class MomentSigns(NoisyRelease):
    """The sketch of `moments`: each owner's column, with a variance of its own.

    Attributes:
        mechanism: the row has the owners' largest values.
    """

    mechanism: MomentSketch

    @property
    def entries(self) -> tuple[int, ...]:
        """See `Signs`."""
        return self.mechanism.largest

    @property
    def n_rows(self) -> int:
        """See `Signs`."""
        return self.mechanism.n_rows

    @property
    def weights(self) -> tuple[int, ...]:
        """See `Signs`: the quotient is alike for all owners."""
        return (1,) * len(self.entries)

    def laws(self) -> Sequence[Law]:
        """See `Signs`."""
        return [discrete_gaussian(variance) for variance in self.mechanism.variances]

    def output(self, world: int, entropy: Entropy) -> tuple[Integers, Integers]:
        """See `Signs`."""
        key = entropy.read(KEY_BYTES)
        signs = self.mechanism.sketch(KeyStream(key), np.ones(1, dtype=np.int64))
        noisy = [
            self.mechanism.sketch(KeyStream(key), np.full(world, value)) + self.mechanism.draw(entropy, party)
            for party, value in enumerate(self.entries)
        ]
        return np.stack(noisy), signs


@dataclass(frozen=True)
class BlockSigns(NoisyRelease):
    """The sketch G X of rows, G of signs: each owner's block of one column, all with one variance.

    Attributes:
        mechanism: mechanism of blocks of one column each.
        row: one entry per block.
    """

    mechanism: NoisySketch
    row: tuple[int, ...]

    @property
    def entries(self) -> tuple[int, ...]:
        """See `Signs`."""
        return self.row

    @property
    def n_rows(self) -> int:
        """See `Signs`."""
        return self.mechanism.sketch_rows

    @property
    def weights(self) -> tuple[int, ...]:
        """See `Signs`."""
        return self.row

    def laws(self) -> Sequence[Law]:
        """See `Signs`. The longest column of signs has as squared norm the number of rows."""
        return [discrete_gaussian(self.mechanism.variance(self.n_rows))] * len(self.row)

    def output(self, world: int, entropy: Entropy) -> tuple[Integers, Integers]:
        """See `Signs`."""
        matrix = SketchMatrix(self.n_rows, "signs")
        columns = matrix.draw(KeyStream(entropy.read(KEY_BYTES)), 1)
        longest, signs = matrix.largest_squared_norm(columns), columns[0].astype(np.int64)
        noisy = [world * value * signs + self.mechanism.draw(entropy, longest, self.n_rows) for value in self.row]
        return np.stack(noisy), signs


@dataclass(frozen=True)
class ProjectedRow(NoisyRelease):
    """A release for `AdditiveTarget`: G X with a G that the coalition knows, where the row of one column changes.

    G is drawn as in a job, once, from a key that is written here: the claim holds for every G.

    Attributes:
        mechanism: mechanism of blocks of one column each.
        matrix: kind and rows of G.
        n_columns: columns of G; the row that changes meets the longest.
        change: change of the row, one entry per block.
    """

    mechanism: NoisySketch
    matrix: SketchMatrix
    n_columns: int
    change: tuple[int, ...]

    @property
    def difference(self) -> tuple[int, ...]:
        """See `Release`: block after block."""
        columns, longest = self._drawn()
        column = next(c for c in columns if self.matrix.largest_squared_norm(c[None, :]) == longest)
        return tuple(int(g) * entry for entry in self.change for g in column)

    def laws(self) -> Sequence[Law]:
        """See `Release`."""
        return [discrete_gaussian(self.mechanism.variance(self._drawn()[1]))] * len(self.difference)

    def output(self, world: int, entropy: Entropy) -> Integers:
        """See `Release`."""
        longest, s = self._drawn()[1], self.mechanism.sketch_rows
        noise = [self.mechanism.draw(entropy, longest, s) for _ in self.change]
        return np.concatenate(noise) + world * np.array(self.difference, dtype=np.int64)

    def _drawn(self) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.int8]], int]:
        stream = KeyStream(InsecureTestEntropy("the public matrix of this audit").read(KEY_BYTES))
        columns = self.matrix.draw(stream, self.n_columns)
        return columns, self.matrix.largest_squared_norm(columns)
