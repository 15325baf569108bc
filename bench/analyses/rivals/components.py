"""Principal components beside central privacy: the share of the real variance about the mean that they capture.

Ours is the released distribution itself without the shares, as in `bench.utility.pca_utility`. Analyze Gauss
[AnalyzeGauss14] gets the same shortened rows and centres through the same constant column; diffprivlib, whose epsilon
is pure, gets them too, with a mean of its own. Where ours captures more than Analyze Gauss, it is because of the
diagonal: an entry off it is there twice, so with the same sensitivity in the Frobenius norm half the variance suffices
for it, which the published mechanism does not use. OpenDP's components took minutes of processor time for one release
of 64 columns, and are left out. Nobody is told anything of a table but bounds of its columns, and for
the example of the connections norm bounds.
"""

import statistics
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyses.job.job import Job
from analyses.job.schema import Table
from analyses.pca.protocol import PcaPlan, clipped_rows, leading_components, plan, reference
from analyses.pca.reference import captured_variance
from bench.analyses.rivals import tables
from bench.analyses.table import Row
from bench.baselines.components import central_components, moment_with_constant
from bench.datasets.order import trusted_order
from bench.datasets.tables import kdd_tables
from bench.peers.environment import PROGRAMS, ensure_environment, run_to_its_end
from bench.utility.logistic_rivals import REQUIREMENTS
from bench.utility.moment_runs import QUICK_ROWS
from bench.utility.pca_utility import EXAMPLE, quantised_moment, released_components, with_privacy, without_norm_bounds

EPSILONS = (0.5, 1.0, 4.0)
DELTA = 1e-6
RUNS = 20
ANALYSIS = "beside rivals, principal components"
METRIC = "share of the variance captured, more is better"
CENTRAL, LIBRARY = "Analyze Gauss", "diffprivlib"
MAX_LIBRARY_COLUMNS = 30
"""With more, its rejection sampling of directions takes minutes for one release."""

TIMEOUT_S = 900.0

Floats = NDArray[np.float64]


def captured(quick: bool) -> Iterator[Row]:
    """Yield the rows of the example and of four tables."""
    with tempfile.TemporaryDirectory(prefix="moiety-bench-") as folder:
        connections = [table for _, table in kdd_tables(Path(folder), rows=QUICK_ROWS if quick else None)]
    example = Job.from_toml(EXAMPLE.read_text())
    jobs: dict[str, tuple[Job, Sequence[Table]]] = {"KDD Cup 99": (example, connections)}
    for name, (held, k) in tables.rows().items():
        jobs[name] = (_job(held, k), held)
    for name, (job, parties) in jobs.items():
        yield from _of(name, job, parties, quick)


def _job(parties: Sequence[Table], k: int) -> Job:
    return Job.model_validate(
        {
            "analysis": "pca",
            "inputs": [{"party": t.schema.party, "table": "table"} for t in parties],
            **trusted_order(t.schema for t in parties),
            "privacy": {"epsilon": 1.0, "delta": DELTA, "view": "coordinator"},
            "parameters": {"components": k, "max_rows": 2 * parties[0].n_rows},
        }
    )


def _of(name: str, job: Job, parties: Sequence[Table], quick: bool) -> Iterator[Row]:
    schemas = [table.schema for table in parties]
    truth = reference(parties, plan(without_norm_bounds(job), schemas))
    rng, runs = np.random.default_rng(0), 1 if quick else RUNS
    for epsilon in EPSILONS[1:2] if quick else EPSILONS:
        planned = plan(with_privacy(job, epsilon, DELTA), schemas)
        k, moment_q = planned.params.components, quantised_moment(parties, planned)
        longest = planned.unit * planned.total_squared_norm**0.5
        unit_rows, constant = clipped_rows(parties, planned) / longest, planned.constant * planned.unit / longest
        unit_moment = moment_with_constant(unit_rows, constant)
        target: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA, "rng": rng, "constant": constant}
        ours = _median(truth, [released_components(moment_q, planned) for _ in range(runs)])
        rivals = {CENTRAL: _median(truth, [central_components(unit_moment, k, **target) for _ in range(runs)])}
        if unit_rows.shape[1] <= MAX_LIBRARY_COLUMNS:
            rivals[LIBRARY] = _median(truth, _by_library(unit_rows, planned, epsilon, runs))
        best = max(rivals.values())
        yield Row(
            analysis=ANALYSIS,
            dataset=f"{name} ({len(unit_rows):,} rows, {unit_rows.shape[1]} columns), {k} components",
            epsilon=epsilon,
            metric=METRIC,
            mpc=ours,
            central=best,
            non_private=captured_variance(truth, leading_components(truth, k)[1]),
            others=rivals,
            note=f"ours is {ours / best - 1:+.2%} of the best; medians of {runs}; add or remove one record, "
            f"coordinator's view, delta {DELTA:g}; diffprivlib replaces one",
        )


def _median(truth: Floats, found: Sequence[Floats]) -> float:
    return statistics.median(captured_variance(truth, components) for components in found)


def _by_library(unit_rows: Floats, planned: PcaPlan, epsilon: float, runs: int) -> list[Floats]:
    """Return the components of each run.

    Raises:
        PeerUnavailableError: it cannot be installed here.
        PeerRunError: it failed, or did not end in time.
    """
    python = ensure_environment("diffprivlib", REQUIREMENTS) / "bin" / "python"
    least, most = (bound / (planned.unit * planned.total_squared_norm**0.5) for bound in planned.reach)
    n = unit_rows.shape[1]
    with tempfile.TemporaryDirectory(prefix="diffprivlib-") as folder:
        np.savez(Path(folder) / "rows.npz", rows=unit_rows, lower=np.full(n, least), upper=np.full(n, most), norm=1.0)
        command = [str(python), str(PROGRAMS / "diffprivlib_pca.py"), folder, str(epsilon)]
        run_to_its_end([*command, str(planned.params.components), str(runs)], TIMEOUT_S)
        return list(np.load(Path(folder) / "components.npy"))
