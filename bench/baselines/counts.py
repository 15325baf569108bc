"""Baselines of pattern counts and moments. FOR COMPARISON ONLY: one participant has to hold all columns."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from analyses.pattern_count.reports import PatternEstimate, PatternReports, PatternTally
from analyses.rows.slots import placement
from dp.draw.noise import sample_discrete_laplace
from entropy import Entropy, KeyStream
from entropy.stream import KEY_BYTES

Integers = NDArray[np.int64]


def central_release(values: Integers, *, l1: int, epsilon: float, entropy: Entropy) -> Integers:
    """Return integers with discrete Laplace noise of scale l1 / epsilon: somebody holds all columns and publishes.

    Args:
        values: any shape.
        l1: how far one added or removed record moves them, in the sum of absolute differences.
        epsilon: for adding or removing one record, with delta 0.
        entropy: gives the key of the stream.
    """
    noise = sample_discrete_laplace(entropy, Fraction(l1) / Fraction(epsilon), values.size)
    return values + noise.reshape(values.shape)


def reported_counts(categories: Sequence[Integers], reports: PatternReports, entropy: Entropy) -> PatternEstimate:
    """Return what pattern counting by randomized response finds, all parties in this process.

    Args:
        categories: of each party, shape (rows,).
        reports: as in the plan of the job.
        entropy: of all parties.
    """
    slots = placement(KeyStream(entropy.read(KEY_BYTES)), len(categories[0]), reports.n_slots, reports.n_reported)
    tally = PatternTally(reports)
    for block in reports.blocks():
        rows = slots[block.start : block.stop]
        messages = [
            reports.packed(j, np.where(rows >= 0, of[rows], -1), reports.draw(entropy, j, len(block)))
            for j, of in enumerate(categories)
        ]
        tally.add(block, messages)
    return tally.estimate()
