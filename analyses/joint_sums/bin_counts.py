"""How many people several owners have together and in common, from the bins that the ids of their tables occupy.

step                                                       function
an id becomes one of B bins by a hash that is the job's    `bins_of`
products of "somebody is in it" under shares, bin by bin   `count_bins`, `count_patterns`
noisy numbers of bins with each pattern are opened, once   `open_bins`
unions and intersections, with errors [WhangVT90]          `people`
"""

import hashlib
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyses.job.forecast import NORMAL_95
from analyses.job.schema import LocalReport, Table
from analyses.joint_sums.bin_estimate import people
from analyses.joint_sums.bin_plan import BinPlan
from analyses.pattern_count.products import count_patterns
from analyses.rows.joint_computation import JointComputation
from analyses.rows.meeting import greet
from analyses.rows.own_values import zeros_if_raised
from dp.mechanism.skellam_parameters import LOG2_WRAP_PROBABILITY
from entropy import KeyStream
from mpc.protocol.session import Session


def bins_of(ids: NDArray[np.uint8], binding: bytes, n_bins: int) -> NDArray[np.int64]:
    """Return the bin of each id, shape (ids,): as good as uniform and independent, and another one in another job.

    The words of an id, a SHA-256, are multiplied by words that follow from the job, and added up modulo 2^64; the bin
    is the upper bits. Privacy does not depend on it: everybody may know the bin of an id.

    Args:
        ids: shape (ids, 32).
        binding: value that belongs to the job, the same at all its members.
        n_bins: a power of two.
    """
    factors = KeyStream(hashlib.sha256(b"moiety bins of ids:" + binding).digest()).words(4) | np.uint64(1)
    hashed = (np.ascontiguousarray(ids).view("<u8") * factors).sum(axis=1, dtype=np.uint64)
    bins: NDArray[np.int64] = (hashed >> np.uint64(65 - n_bins.bit_length())).astype(np.int64)
    return bins


async def count_bins(session: Session, plan: BinPlan, table: Table | None) -> LocalReport:
    """Run a party's part: share which bins my ids occupy, and noise; multiply, add up, open.

    Raises:
        PeerError: a member is silent, drops out or violates the protocol.

    Privacy: any t parties see uniform shares of bits, as many as there are bins; see `BIN_SENSITIVITY` for what is
    opened. Cost: per bin what `count_patterns` takes for columns of two categories.
    """
    async with JointComputation(await greet(session, plan), "") as c:
        rows = None
        if table is not None:
            occupied = await session.compute(_occupied, table, session.binding, plan.n_bins)
            rows = lambda block: occupied[block, None]  # noqa: E731
        n_cells = 1 << len(plan.owners)
        bound = plan.noise.noise_tail_bound(LOG2_WRAP_PROBABILITY)
        noise = await c.shared_noise_of(plan.noise, (n_cells,), bound=bound)
        counts = await count_patterns(c, plan.owners, plan.shape, rows, plan.n_bins, plan.n_bins)
        await c.release(replace(counts + noise, bound=plan.opened_bound))
    return LocalReport(0 if table is None else table.n_rows, {}, 0)


def _occupied(table: Table, binding: bytes, n_bins: int) -> NDArray[np.int64]:
    """Return 1 for each bin in which an id of mine is, else 0, shape (bins,). Private."""
    found = np.zeros(n_bins, dtype=np.int64)
    assert table.ids is not None  # `check_matching` has asked for them
    ids = table.ids
    found[zeros_if_raised(table, lambda: bins_of(ids, binding, n_bins), lambda: np.zeros(0, dtype=np.int64))] = 1
    return found


async def open_bins(session: Session, plan: BinPlan) -> dict[str, Any]:
    """Run the coordinator's part: open the noisy numbers of bins, and estimate how many people there are.

    Returns:
        JSON-able: `bins`, their number; `people`, for each set of owners, small sets first:
        `parties`, `union`, how many are at one of them at least, `common`, how many are at all of them, with
        `union_standard_error` and `common_standard_error`; `n_rows`, how many all owners
        have together, with `n_rows_standard_error` and `n_rows_interval`; `wrong_shares_from`; `privacy`.
    """
    c = JointComputation.of_coordinator(session, plan)
    opened = await c.open(c.outline((1 << len(plan.owners),), c.product_degree, plan.opened_bound))
    assert opened is not None, "the coordinator is the receiver"
    counts = np.asarray(opened.values, dtype=np.float64).reshape(plan.shape)
    found = people(counts, plan.n_bins, plan.noise.standard_deviation("coordinator"))
    names = [plan.schema_of(owner).party for owner in plan.owners]
    union, half = found[-1].union, NORMAL_95 * found[-1].union_error
    return {
        "analysis": plan.job.analysis,
        "n_rows": union,
        "n_rows_standard_error": found[-1].union_error,
        "n_rows_interval": [union - half, union + half],
        "bins": plan.n_bins,
        "people": [one.as_json(names) for one in found],
        "wrong_shares_from": c.names_of(opened.wrong),
        "privacy": plan.privacy_report(),
    }
