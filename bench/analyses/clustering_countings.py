"""Membership estimators by themselves: the error of the grid's weights at equal true privacy.

Local clusters are exact here, so that all errors are those of the estimator.
"""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from analyses.clustering.estimators.cells import GridWeights
from analyses.clustering.estimators.fm_sketch import SketchEstimator
from analyses.clustering.estimators.membership import MembershipEstimator, MembershipGrid, Memberships
from analyses.clustering.protocol import ESTIMATORS
from analyses.job.job import PrivacyTarget
from bench.analyses.table import Row, Spent
from bench.datasets.clustering_tables import ClusterTable, mixed_gaussian
from bench.utility.moment_runs import QUICK_ROWS, typical
from dp.cost.accounting import Adjacency
from dp.mechanism.cardinality import Levels
from dp.mechanism.scalar import DiscreteGaussianNoise
from dp.mechanism.valid_counts import valid_counts
from entropy import KeyStream, SystemEntropy
from entropy.stream import KEY_BYTES
from mpc.arithmetic.field import ResidueField
from mpc.local.network import LocalNetwork, local_names
from mpc.protocol.exchange import ShareExchange, agree_pairwise_secrets
from mpc.protocol.session import COORDINATOR, Session

EPSILONS = (0.5, 1.0, 2.0, 4.0)
K_LOCAL = 5
COUNTS = "clustering, counts alone"
GRID = "clustering, a grid of 4096 cells"
METRIC = "sum of |weight - count| / rows, less is better"

ACCEPTED = {"accept_no_protection_against_parties": True}
WAYS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "fm-sketch": ("fm-sketch", ACCEPTED),
    "fm-sketch, estimator 2pest": ("fm-sketch", {**ACCEPTED, "estimator": "2pest"}),
    "fm-sketch, estimator basic": ("fm-sketch", {**ACCEPTED, "estimator": "basic"}),
    "independent": ("independent", {}),
    "ldp": ("ldp", {}),
    "pattern": ("pattern", {}),
    "mpc, cells joint": ("mpc", {"cells": "joint"}),
}
"""Estimators other than the default (`mpc` with pairs of owners), each with its options."""


def local_memberships(table: ClusterTable, n_owners: int, k_local: int = K_LOCAL) -> list[Memberships]:
    """Return the memberships in the clusters that k-means without privacy finds in each owner's columns."""
    found = []
    for part in table.split(n_owners):
        bounds = np.array([(c.lower, c.upper) for c in part.schema.columns]).T
        scaled = (part.values - bounds[0]) / (bounds[1] - bounds[0])
        found.append(KMeans(k_local, n_init=3, random_state=0).fit(scaled).labels_.astype(np.int64))
    return found


def exact_counts(memberships: Sequence[Memberships], k_local: int) -> GridWeights:
    """Return the rows of every cell."""
    shape = (k_local,) * len(memberships)
    cells = np.ravel_multi_index(tuple(memberships), shape)
    return np.bincount(cells, minlength=k_local ** len(memberships)).reshape(shape).astype(np.float64)


def plan_estimator(
    name: str, n_owners: int, n_rows: int, epsilon: float, options: Mapping[str, Any], k_local: int = K_LOCAL
) -> MembershipEstimator:
    """Return an estimator whose epsilon holds against the coordinator, delta n^-1.1; at least three parties compute."""
    n_parties = max(3, n_owners)
    grid = MembershipGrid(
        owners=tuple(range(1, n_owners + 1)),
        members=tuple(range(1, n_parties + 1)),
        n_parties=n_parties,
        colluding=(n_parties - 1) // 2,
        k_local=k_local,
        max_rows=n_rows,
    )
    target = PrivacyTarget(epsilon=epsilon, delta=n_rows**-1.1, view="coordinator")
    return ESTIMATORS[name].calibrate(grid, target, options)


def weights_in_process(counting: MembershipEstimator, memberships: Sequence[Memberships]) -> tuple[GridWeights, Spent]:
    """Run an estimator in one process; return valid weights and the resources that it took."""
    grid, field = counting.grid, ResidueField.for_bound(counting.opened_bound)
    network = LocalNetwork(local_names(grid.n_parties), entropy_of=lambda _: SystemEntropy(), deadline_s=120.0)

    async def party(session: Session) -> None:
        secrets = await agree_pairwise_secrets(session, grid.members, grid.n_parties)
        exchange = ShareExchange(session, field, grid.n_parties, grid.colluding, secrets)
        mine = memberships[session.me - 1] if session.me in grid.owners else None
        await counting.party(exchange, mine, len(memberships[0]))

    async def coordinator(session: Session) -> GridWeights:
        return await counting.coordinator(ShareExchange(session, field, grid.n_parties, grid.colluding, {}))

    work: dict[int, Callable[[Session], Awaitable[object]]] = {m: party for m in network.names if m != COORDINATOR}
    work[COORDINATOR] = coordinator
    started_s = time.perf_counter()
    found = asyncio.run(network.run(work))
    seconds = time.perf_counter() - started_s
    for result in found.values():
        if isinstance(result, Exception):
            raise result
    sent = max(size for member, size in network.sent_bytes.items() if member != COORDINATOR)
    return valid_counts(found[COORDINATOR]), Spent(seconds, sent)


def central_weights(counts: GridWeights, epsilon: float, delta: float) -> GridWeights:
    """Return what somebody would publish who holds all memberships."""
    noise = DiscreteGaussianNoise.calibrate(
        length=counts.size,
        squared_l2=1,
        l1=1,
        adjacency=Adjacency.ADD_OR_REMOVE_ONE,
        epsilon=epsilon,
        delta=delta,
    )
    return valid_counts(counts + noise.draw(SystemEntropy()).reshape(counts.shape))


def errors(
    n_owners: int,
    epsilons: Sequence[float],
    runs: int,
    quick: bool,
    make: Callable[[], ClusterTable] = mixed_gaussian,
    ways: Mapping[str, tuple[str, Mapping[str, Any]]] = WAYS,
    analysis: str = COUNTS,
) -> Iterator[Row]:
    """Yield a row for each estimator on a table, the mixture by default."""
    table = make().first(QUICK_ROWS) if quick else make()
    memberships = local_memberships(table, n_owners)
    counts, n_rows = exact_counts(memberships, K_LOCAL), len(memberships[0])

    def error(weights: NDArray[np.float64]) -> float:
        return float(np.abs(weights - counts).sum() / n_rows)

    def of(name: str, options: Mapping[str, Any], epsilon: float) -> tuple[float, Spent]:
        counting = plan_estimator(name, n_owners, n_rows, epsilon, options)
        results = [weights_in_process(counting, memberships) for _ in range(1 if quick else runs)]
        return statistics.median(error(weights) for weights, _ in results), typical([spent for _, spent in results])

    for epsilon in epsilons[:1] if quick else epsilons:
        mpc, mpc_spent = of("mpc", {}, epsilon)
        central = statistics.median(error(central_weights(counts, epsilon, n_rows**-1.1)) for _ in range(runs))
        for way, (name, options) in ways.items():
            private, private_spent = of(name, options, epsilon)
            yield Row(
                analysis=analysis,
                dataset=f"{table.name}, S = {n_owners}",
                epsilon=epsilon,
                metric=METRIC,
                private=private,
                mpc=mpc,
                central=central,
                non_private=0.0,
                private_spent=private_spent,
                mpc_spent=mpc_spent,
                note=f"{way}; k' = {K_LOCAL}; medians of {runs}",
            )


def large_grid(quick: bool) -> Iterator[Row]:
    """Yield the time to publish and to estimate the sketches of a grid of 8^4 cells, M = 4096, on one core."""
    n_rows = QUICK_ROWS if quick else 20_000
    counting = plan_estimator("fm-sketch", 4, n_rows, 1.0, ACCEPTED, k_local=8)
    assert isinstance(counting, SketchEstimator)
    rng = np.random.default_rng(0)
    memberships = [rng.integers(0, 8, n_rows) for _ in range(4)]
    entropy, sketch = SystemEntropy(), counting.sketch
    levels: list[list[Levels]] = []
    started_s = time.process_time()
    for group in counting.groups:
        users, phantoms = entropy.read(KEY_BYTES), entropy.read(KEY_BYTES)
        levels.append([])
        for axis, owner in enumerate(group):
            streams = KeyStream(users), KeyStream(phantoms)
            levels[-1].append(sketch.publish(memberships[owner], axis, *streams, sketch.draw(entropy)))
    published_s = (time.process_time() - started_s) / 4
    started_s = time.process_time()
    counting.estimate(levels)
    estimated_s = time.process_time() - started_s
    yield Row(
        analysis=GRID,
        dataset=f"{n_rows} made-up rows, S = 4",
        epsilon=1.0,
        metric="CPU seconds to estimate all weights",
        private=estimated_s,
        note=f"fm-sketch, k' = 8: 4096 cells, M = 4096; each owner publishes in {published_s:.2f} s. The paper: 101 s",
    )


def parts() -> dict[str, Callable[[bool], Iterator[Row]]]:
    """Return what is measured, part by part."""
    by_owners = {f"S = {n}": partial(errors, n, EPSILONS, 15 if n == 2 else 3) for n in (2, 4)}
    return {**by_owners, "a large grid": large_grid}
