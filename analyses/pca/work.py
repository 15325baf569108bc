"""What principal components take of the coordinator: memory by formula, processor time by its steps, measured here."""

from dataclasses import replace

import numpy as np

from analyses.job.distance import Work
from analyses.pca.plan import PcaPlan
from analyses.pca.spectrum import COORDINATES, DRAWS
from analyses.second_moments.centred import centred
from analyses.second_moments.spectrum import WIDE, SimulatedNoise, leading_components, n_draws, some_components
from analyses.second_moments.work import BYTE_S, COLUMNS, ENTRIES, WORD, opening_bytes, seconds
from analyses.second_moments.work import work as work_of_release
from entropy import KeyStream
from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.gram import expand_triangle, n_entries
from mpc.arithmetic.opening import open_shares

COORDINATOR_S = 0.08
"""Processor seconds of a job of next to no rows, on the reference machine."""

MATRICES = 5.3
"""Matrices of float64 numbers at once: the opened one, the centred one, and copies while it is made tridiagonal."""

EDGE_BYTES, LIBRARY_BYTES = 25_000_000, 40_000_000
"""Memory of the noise that is simulated for its edge, and of a library that wide tables need."""

EIGEN_COLUMNS = 1536


def work(plan: PcaPlan, n_rows: int, measured: bool) -> Work | None:
    """Return what a job takes of party and coordinator; arguments as of `analyses.second_moments.work.work`."""
    found = work_of_release(plan, n_rows, measured)
    if found is None:
        return None
    seconds_there = coordinator_s(plan) if measured else None
    return replace(found, coordinator_bytes=coordinator_bytes(plan), coordinator_s=seconds_there)


def coordinator_bytes(plan: PcaPlan) -> int:
    """Return the memory of the coordinator beyond what it takes at rest."""
    n = plan.n_row_columns
    found = int(MATRICES * WORD * n * n) + (LIBRARY_BYTES if n > WIDE else 0)
    return max(opening_bytes(plan), found + EDGE_BYTES)


def coordinator_s(plan: PcaPlan) -> float:
    """Return the processor seconds of the coordinator, on this machine; takes a second or two.

    Of wide tables as if no eigenvalue were above the noise: for each one that is, an eigenvector comes in besides.
    """
    field, n, k = ResidueField(plan.n_primes), plan.n_row_columns, plan.params.components
    entries, few = min(n_entries(n), ENTRIES), min(n, COLUMNS)
    constant = field.random(KeyStream(bytes(32)), (entries,))
    shares = dict.fromkeys(range(1, plan.n_parties + 1), constant)  # of a constant polynomial: all agree
    opening = seconds(lambda: field.decode(open_shares(shares, 2 * plan.job.t, field).words))
    opening += plan.n_parties * seconds(lambda: field.check(constant))
    simulated, triangle = SimulatedNoise(), np.zeros(n_entries(few))
    expanding = seconds(lambda: expand_triangle(triangle, few))
    matrix = simulated.symmetric(few)
    moved = BYTE_S * WORD * field.n_words * plan.n_parties * n_entries(n)
    found = COORDINATOR_S + moved + opening * n_entries(n) / entries + expanding * (n / few) ** 2
    if plan.params.center:
        found += seconds(lambda: centred(matrix, 1.0, (-1.0, 1.0), (1, 10))) * (n / few) ** 2
    some = min(n, EIGEN_COLUMNS)
    wide = simulated.symmetric(some)
    found += seconds(lambda: leading_components(wide, min(k, some)), 1) * (n / some) ** 3
    return found + (_draws_s(plan, n, k) if plan.params.center else 0.0)


def _draws_s(plan: PcaPlan, n: int, k: int) -> float:
    """Return the seconds of the draws of noise by which intervals or edges are found."""
    simulated, is_wide = SimulatedNoise(), n > WIDE
    size = n if not is_wide or plan.params.scale else COORDINATES
    size = min(size, COLUMNS)

    def draw() -> None:
        some_components(centred(simulated.symmetric(size + 1), 1.0, (-1.0, 1.0), (1, 10)).matrix, min(k, size))

    return seconds(draw) * n_draws(DRAWS, n)
