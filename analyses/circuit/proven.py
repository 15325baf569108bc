"""What a program proves where members may deviate, and what masked openings take of delta."""

from collections.abc import Sequence

from analyses.job.job import Job
from analyses.job.norm_bounds import Bounds, by_owner
from analyses.job.plan import protects_persons
from analyses.job.schema import BlockSchema
from dp.cost.views import Protected
from mpc.proofs.norm_bound import EntryBounds
from mpc.proofs.proven_bits import DISTANCE
from mpc.protocol.operations.bits import STATISTICAL_BITS


def proven_bounds(job: Job, schemas: Sequence[BlockSchema], max_rows: int) -> Bounds:
    """Return what owners prove of their rows, with the smallest masks; nothing where the job wants no proofs."""
    first = job.inputs[0].party if protects_persons(job) else None
    found = []
    for brought in job.inputs:
        columns = schemas[job.members.index(brought.party)].columns
        ranges = [int(column.upper) - int(column.lower) for column in columns]
        found.append(EntryBounds.of([*ranges, *[1] * (brought.party == first)], max_rows))
    return by_owner(job, found)


def masked_delta(job: Job, n_masked: int, protected: Protected) -> float:
    """Return how much of delta the masked openings of comparisons and functions take, so many per row.

    Let H be what t parties see where the openings of one record's rows are those of another record, and all else is
    as it is. Each opening tells two values apart with an advantage of at most 2^-40 (`mpc.protocol.operations.bits`),
    so what they see is within n 2^-40 of H, and H differs from what they see of the neighbour in the released sums
    alone, which cost (epsilon, delta'): delta = delta' + n 2^-40. Twice that is taken: a record that finds or loses a
    match changes which rows there are at two places. Proofs of the bits of masks add to each
    (`mpc.proofs.proven_bits`).
    """
    each = 2.0**-STATISTICAL_BITS + (DISTANCE if job.is_malicious else 0.0)
    return 2 * n_masked * protected.most_rows * each
