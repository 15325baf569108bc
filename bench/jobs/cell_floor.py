"""The least that a cell of a joint table could cost a party: arithmetic, one key stream, one copy in and one out."""

import time
from collections.abc import Callable
from statistics import median

import numpy as np

from analyses.rows.row_plan import RowPlan
from analyses.second_moments.work import seconds
from entropy import InsecureTestEntropy, KeyStream
from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.gram import GramAccumulator
from mpc.arithmetic.shamir import ShamirScheme

BLOCK_ROWS = 4096


def floor_ns(n_columns: int, n_primes: int, repeats: int) -> dict[str, float]:
    """Return the nanoseconds per cell of each part of the floor."""
    field = ResidueField(n_primes)
    key = InsecureTestEntropy("floor").read(32)
    shares = field.random(KeyStream(key), (BLOCK_ROWS, n_columns))
    accumulator, target = GramAccumulator(field, n_columns), np.empty_like(shares)

    def ns(work: Callable[[], object]) -> float:
        taken = []
        for _ in range(repeats * 5):
            started_s = time.thread_time()
            work()
            taken.append(time.thread_time() - started_s)
        return 1e9 * median(taken) / (BLOCK_ROWS * n_columns)

    return {
        "product": ns(lambda: accumulator.add_rows([shares])),
        "key_stream": ns(lambda: KeyStream(key).fill(target)),
        "copies": 2 * ns(lambda: np.copyto(target, shares)),
    }


def passes_ns(plan: RowPlan) -> dict[str, float]:
    """Return the nanoseconds per cell of the joint table of each pass of a party over rows, by the job's own functions.

    Its own columns are quantised, made residues and shared; of the others' shares some follow from keys, and those that
    are sent are checked. What messages and threads take is not in it.
    """
    field, n, t, owner = ResidueField(plan.n_primes), plan.n_row_columns, plan.job.t, plan.owners[0]
    width, stream = plan.widths[owner], KeyStream(InsecureTestEntropy("passes").read(32))
    columns = plan.schema_of(owner).columns
    lower, upper = (np.array([getattr(column, end) for column in columns]) for end in ("lower", "upper"))
    values = np.random.default_rng(0).uniform(lower, upper, (BLOCK_ROWS, len(columns)))
    integers = plan.quantise(owner, values)[0]
    secret, scheme = field.encode(integers), ShamirScheme(field, plan.n_parties, t)
    derived = {r: field.random(stream, secret.shape[1:]) for r in scheme.derived_receivers(1)}
    shares, accumulator = field.random(stream, (BLOCK_ROWS, n)), GramAccumulator(field, n)
    others, cells = (n - width) / width, BLOCK_ROWS * n
    sent = (plan.n_parties - 1 - t) / (plan.n_parties - 1)  # of a dealer's shares, beside those that keys give

    def ns(step: Callable[[], object]) -> float:
        return 1e9 * seconds(step, 20) / cells

    return {
        "quantise own values": ns(lambda: plan.quantise(owner, values)),
        "own residues": ns(lambda: field.encode(integers)),
        "own shares from keys": t * ns(lambda: field.random(stream, integers.shape)),
        "others' shares from keys": others * (1 - sent) * ns(lambda: field.random(stream, integers.shape)),
        "share own residues": ns(lambda: scheme.deal(1, secret, derived)),
        "check others' shares": others * sent * ns(lambda: field.check(secret)),
        "multiply": ns(lambda: accumulator.add_rows([shares])),
    }
