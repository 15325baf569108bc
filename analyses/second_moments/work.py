"""What a release of X^T X takes of a party's machine: memory by formula, processor time by its steps, measured here.

Memory is the larger one of two moments: while rows are multiplied, and once they are, when the triangle is opened.
Processor time is measured on a part of the rows, columns and entries with the functions of the job itself, and
multiplied by how many there are. What a service does besides (`PARTY_S`, `BYTE_S`) is that of the reference machine.
"""

import time
from collections.abc import Callable

import numpy as np

from analyses.job.distance import Work
from analyses.job.plan import Plan, matches_in_secret
from analyses.rows.joint_computation import ROWS_PER_BLOCK
from analyses.second_moments.gram_plan import GramPlan
from dp.draw.skellam import sample_skellam
from entropy import KeyStream, SystemEntropy
from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.gram import PANEL_ROWS, GramAccumulator, n_entries
from mpc.arithmetic.shamir import ShamirScheme

WORD = 8

BLOCKS, PANELS = 3, 3
"""Blocks whose shares are in memory, and panels of float64 numbers that are multiplied at once."""

OWN_COPIES, TRIANGLES = 4, 5
"""Copies of a block of one's own columns on their way to shares; of the triangle on its way to the coordinator."""

REST_BYTES = 4_000_000

MATRICES = 13
"""Matrices of float64 numbers at the coordinator at most: those of draws of the noise, or the result and its text."""

PARTY_S, BYTE_S = 0.045, 1.5e-9
"""Processor seconds of a job of next to no rows, and those of a byte that is sent or has come."""

ROWS, COLUMNS, ENTRIES = 1024, 1024, 1 << 17
"""The most of each with which a step is measured."""


def work(plan: Plan, n_rows: int, measured: bool) -> Work | None:
    """Return what a job takes; None where no X^T X is released, or rows are matched in secret, proven or for workers.

    Args:
        plan: plan of the job.
        n_rows: rows of the joint table.
        measured: whether this machine is measured to say processor time.
    """
    if not isinstance(plan, GramPlan) or matches_in_secret(plan.job) or plan.norm_bounds or plan.n_lanes:
        return None
    there = max(opening_bytes(plan), MATRICES * WORD * plan.n_row_columns**2)
    return Work(n_rows, party_bytes(plan, n_rows), there, party_s(plan, n_rows) if measured else None)


def opening_bytes(plan: GramPlan) -> int:
    """Return the memory of the coordinator while it opens the triangle that it has shares of."""
    n_words = ResidueField(plan.n_primes).n_words
    return WORD * (plan.n_parties * n_words + n_words + 2) * n_entries(plan.n_row_columns)


def party_bytes(plan: GramPlan, n_rows: int) -> int:
    """Return the memory of the party that brings most columns, beyond what it takes at rest, its values included."""
    n, width = plan.n_row_columns, max(plan.widths.values())
    field = ResidueField(plan.n_primes)
    in_block = min(n_rows, ROWS_PER_BLOCK) * WORD * field.n_words
    sums = WORD * (len(field.primes) * n * n + PANELS * PANEL_ROWS * n)
    triangle = WORD * field.n_words * n_entries(n)
    multiplying = min(BLOCKS, -(-n_rows // ROWS_PER_BLOCK)) * in_block * n + OWN_COPIES * in_block * width + triangle
    return REST_BYTES + WORD * n_rows * width + sums + max(multiplying, TRIANGLES * triangle)


def party_s(plan: GramPlan, n_rows: int) -> float:
    """Return the processor seconds of the party that brings most columns, on this machine; takes about a second."""
    field, n, t = ResidueField(plan.n_primes), plan.n_row_columns, plan.job.t
    owner = max(plan.widths, key=lambda member: plan.widths[member])
    stream, r = KeyStream(bytes(32)), min(n_rows, ROWS)
    few, entries = min(n, COLUMNS), min(n_entries(n), ENTRIES)
    accumulator, rows = GramAccumulator(field, few), field.random(stream, (r, few))
    products = seconds(lambda: accumulator.add_rows([rows])) * (n_rows / r) * (n / few) ** 2
    packing = seconds(accumulator.upper_triangle) * n_entries(n) / n_entries(few)
    mu = max(1, plan.party_mu // 2)
    noise = seconds(lambda: field.encode(sample_skellam(SystemEntropy(), mu, entries)))
    noise_words = field.random(stream, (entries,))
    noise += _dealing_s(plan, noise_words, 2 * t) + (plan.n_parties - 1) * seconds(
        lambda: field.accumulate(noise_words, field.random(stream, (entries,)))
    )
    lower = np.array([column.lower for column in plan.schema_of(owner).columns])
    values = np.broadcast_to(lower, (r, len(lower))).copy()
    integers = plan.quantise(owner, values)[0]
    own = seconds(lambda: plan.quantise(owner, values)) + seconds(lambda: field.encode(integers))
    own += _dealing_s(plan, field.random(stream, integers.shape), t)
    others = (n - plan.widths[owner]) * seconds(lambda: field.random(stream, (r, few))) / few
    traffic = plan.traffic(n_rows)
    moved = sum(b for (sender, receiver), b in traffic.sent.items() if owner in (sender, receiver))
    of_entries = noise * n_entries(n) / entries + packing
    return PARTY_S + BYTE_S * moved + products + of_entries + (own + others) * n_rows / r


def _dealing_s(plan: GramPlan, secret: np.ndarray, degree: int) -> float:
    """Return the seconds in which an array is shared with a polynomial of this degree."""
    field, stream = ResidueField(plan.n_primes), KeyStream(bytes(32))
    scheme = ShamirScheme(field, plan.n_parties, degree)

    def deal() -> None:
        scheme.deal(1, secret, {r: field.random(stream, secret.shape[1:]) for r in scheme.derived_receivers(1)})

    return seconds(deal)


def seconds(step: Callable[[], object], times: int = 3) -> float:
    """Return the least processor seconds of a step of this thread, after a first time that is not counted."""
    taken = []
    for _ in range(times + 1):
        started = time.thread_time()
        step()
        taken.append(time.thread_time() - started)
    return min(taken[1:])
