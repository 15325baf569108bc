"""How much variance the private components of the KDD table capture, beside central privacy and local noise.

    python -m bench.utility.pca_utility --epsilons 0.25,0.5,1,2,4,8,16 --runs 10

Ours is the released distribution itself without the shares: the plan of the job, each party's quantiser on its block,
the exact product of the integers, and the sum of one draw of each party's noise from the mechanism of the plan. A job
opens exactly these integers (the tests of the analysis show it), so nothing but time is saved. The noise is calibrated
to the view `coordinator`, adjacency add_or_remove_one, as that of central privacy [AnalyzeGauss14]. The local-noise
baseline [SPCA24, algorithm 3] shows the number of rows to everybody: its adjacency is replace_one.

All three get the same rows, scaled and shortened by the public bounds of the job file. All are scored on the exact
table before any row was shortened: captured variance is ||X V||_F^2 / ||X||_F^2, X centred where the job centres.
Central privacy noises the mean with the rest, by the same constant column as ours.
"""

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyses.job.job import Job, PrivacyTarget
from analyses.job.schema import Table
from analyses.pca.protocol import PcaPlan, clipped_rows, leading_components, plan, reference
from analyses.pca.reference import captured_variance
from analyses.pca.spectrum import spectrum
from bench.baselines.components import (
    central_components,
    local_noise_components,
    moment_with_constant,
)
from bench.datasets.tables import kdd_tables
from entropy import SystemEntropy
from mpc.arithmetic.gram import expand_triangle

EXAMPLE = Path(__file__).parents[2] / "examples" / "pca.toml"
EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)


def quantised_moment(tables: Sequence[Table], plan: PcaPlan) -> NDArray[np.float64]:
    """Return X^T X of the quantised joint table, shape (n, n): whole numbers, exact in float64 below 2^53.

    Above it they are off by 2^-53 of their size, and noise by far more.
    """
    blocks = [
        plan.quantise(owner, table.values)[0].astype(np.float64)
        for owner, table in zip(plan.owners, tables, strict=True)
    ]
    rows = np.hstack(blocks)
    return rows.T @ rows


def released_components(moment_q: NDArray[np.float64], plan: PcaPlan) -> NDArray[np.float64]:
    """Return the components of one release, shape (k, n)."""
    return spectrum(released_moment(moment_q, plan), plan).components


def released_moment(moment_q: NDArray[np.float64], plan: PcaPlan) -> NDArray[np.float64]:
    """Return what one release opens, in units of scaled rows: every party's noise on the quantised moment."""
    draws = [plan.mechanism.draw(SystemEntropy()) for _ in range(plan.n_parties)]
    noise = expand_triangle(np.sum(draws, axis=0).astype(np.float64), moment_q.shape[0])
    return np.asarray((moment_q + noise) * plan.unit**2, dtype=np.float64)


def measure(
    job: Job, tables: Sequence[Table], *, delta: float, epsilons: Sequence[float], runs: int, seed: int
) -> dict[str, Any]:
    """Return the captured variance of the three methods at each epsilon, mean and standard deviation over the runs."""
    schemas = [table.schema for table in tables]
    planned = plan(job, schemas)
    truth = reference(tables, plan(without_norm_bounds(job), schemas))
    longest = planned.unit * planned.total_squared_norm**0.5
    unit_rows, constant = clipped_rows(tables, planned) / longest, planned.constant * planned.unit / longest
    unit_moment = moment_with_constant(unit_rows, constant)
    rng = np.random.default_rng(seed)
    results, gammas = [], []
    for epsilon in epsilons:
        planned = plan(with_privacy(job, epsilon, delta), schemas)
        moment_q = quantised_moment(tables, planned)  # the units of a plan depend on epsilon
        k, ours, central, local_noise = planned.params.components, [], [], []
        for _ in range(runs):
            ours.append(released_components(moment_q, planned))
            target = {"epsilon": epsilon, "delta": delta}
            central.append(central_components(unit_moment, k, **target, rng=rng, constant=constant))
            local_noise.append(local_noise_components(unit_rows, k, **target, rng=rng, center=constant > 0))
        gammas.append(planned.gamma)
        captured = {
            name: [captured_variance(truth, components) for components in drawn]
            for name, drawn in (("ours", ours), ("central", central), ("local_noise", local_noise))
        }
        means = {name: statistics.fmean(values) for name, values in captured.items()}
        deviations = {f"{name}_deviation": statistics.pstdev(values) for name, values in captured.items()}
        difference = means["ours"] / means["central"] - 1
        results.append({"epsilon": epsilon, **means, **deviations, "ours_to_central": difference})
    return {
        "bench": "pca_utility",
        "components": planned.params.components,
        "gamma": ", ".join(map(str, sorted(set(gammas)))),
        "row_norm": planned.row_norm,
        "delta": delta,
        "runs": runs,
        "exact": captured_variance(truth, leading_components(truth, planned.params.components)[1]),
        "epsilons": results,
    }


def with_privacy(job: Job, epsilon: float, delta: float) -> Job:
    """Return the job with another target, in the view of the coordinator."""
    return job.model_copy(update={"target": PrivacyTarget(epsilon=epsilon, delta=delta, view="coordinator")})


def without_norm_bounds(job: Job) -> Job:
    """Return the job that clips no rows: what the others are scored on."""
    kept = {name: value for name, value in job.parameters.items() if name not in ("row_norm", "norm_bounds")}
    return job.model_copy(update={"parameters": kept})


def as_text(report: dict[str, Any]) -> str:
    """Return the table that people read."""
    setting = f"gamma {report['gamma']}, row norm {report['row_norm']:g}, delta {report['delta']:g}"
    lines = [
        f"variance captured by {report['components']} components, mean of {report['runs']} runs, {setting}:",
        f"without privacy {report['exact']:.4f}",
        f"{'epsilon':>8} {'ours':>8} {'central':>8} {'difference':>11} {'local noise':>12}",
    ]
    for row in report["epsilons"]:
        captured = (
            f"{row['ours']:8.4f} {row['central']:8.4f} {row['ours_to_central']:+11.3%} {row['local_noise']:12.4f}"
        )
        lines.append(f"{row['epsilon']:8g} {captured}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilons", default=",".join(f"{e:g}" for e in EPSILONS), help="separated by commas")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--job", type=Path, default=EXAMPLE, help="job file; its privacy section is not used")
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--rows", type=int, help="how many of the table's rows; all 145,586 where absent")
    parser.add_argument("--seed", type=int, default=0, help="of the two baselines; our noise has none")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="moiety-bench-") as folder:
        tables = [table for _, table in kdd_tables(Path(folder), rows=options.rows)]
    report = measure(
        Job.from_toml(options.job.read_text()),
        tables,
        delta=options.delta,
        epsilons=[float(text) for text in options.epsilons.split(",")],
        runs=options.runs,
        seed=options.seed,
    )
    sys.stdout.write((json.dumps(report, indent=2) if options.format == "json" else as_text(report)) + "\n")


if __name__ == "__main__":
    main()
