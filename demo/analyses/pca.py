"""`moiety demo pca`: principal components, with a plot, beside what a holder of everything could do."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from analyses.drawing.file import write
from analyses.pca import protocol as pca
from analyses.pca.baseline import captured_variance, central_components, local_noise_components, moment_with_constant
from analyses.pictures.pca import picture_beside
from demo.job import DemoRun
from demo.text import epsilon_against, job_line, next_line, privacy_lines

COMPARISON_RUNS = 10
COMPARISON_SEED = 20260101


@dataclass(frozen=True)
class PcaOutcome:
    """What the demo shows.

    Attributes:
        job_id: of the job.
        n_rows, columns: of the joint table; party to number of columns.
        components: k.
        captured_variance: share of the variance captured by k components found in four ways.
        explained: what the result itself says of the same share.
        intervals: of each component's variance, in which the exact one lies in 19 of 20 cases.
        variance: along each component, exactly.
        n_above_noise: how many eigenvalues are larger than any that the noise alone has.
        privacy: the report of the job.
        seconds: from submission to the result.
        bytes_sent: party to the bytes that it sent.
        clipped_rows: party to how many of its rows were longer than its public bound; known only to each party.
        files: of the plot and of all numbers.
    """

    job_id: str
    n_rows: int
    columns: Mapping[str, int]
    components: int
    captured_variance: Mapping[str, float]
    explained: float
    intervals: Sequence[Sequence[float]]
    variance: Sequence[float]
    n_above_noise: int
    privacy: Mapping[str, Any]
    seconds: float
    bytes_sent: Mapping[str, int]
    clipped_rows: Mapping[str, int]
    files: Mapping[str, str]


def compare(run: DemoRun, out: Path) -> PcaOutcome:
    """Compare the result with what a holder of all columns could do; write plot and numbers to the folder `out`."""
    compared = _compare(run)
    reports = {party: run.deployment.report(party, run.view.job_id) for party in run.data.tables}
    files = {"plot": out / "pca.png", "json": out / "pca.json"}
    outcome = PcaOutcome(
        job_id=run.view.job_id,
        n_rows=run.n_rows,
        columns={party: len(table.usual_bounds) for party, table in run.data.tables.items()},
        components=len(run.result["components"]),
        captured_variance=compared.captured_variance,
        explained=sum(run.result["explained_variance_ratio"]),
        intervals=run.result["explained_variance_interval"],
        variance=compared.variance,
        n_above_noise=run.result["n_above_noise"],
        privacy=run.result["privacy"],
        seconds=run.seconds,
        bytes_sent=run.bytes_sent,
        clipped_rows={p: r["clipped_rows"] for p, r in reports.items()},
        files={name: str(path) for name, path in files.items()},
    )
    out.mkdir(parents=True, exist_ok=True)
    write(picture_beside(run.result, compared.exact_variances), files["plot"])
    files["json"].write_text(json.dumps({"demo": asdict(outcome), "result": run.result}, indent=2) + "\n")
    return outcome


@dataclass(frozen=True)
class Comparison:
    """What somebody who held all columns could do.

    Attributes:
        captured_variance: share of the variance captured by k components found in four ways.
        variance: of the clipped table along each released component.
        exact_variances: along the best directions, largest first.
    """

    captured_variance: Mapping[str, float]
    variance: Sequence[float]
    exact_variances: Sequence[float]


def _compare(run: DemoRun) -> Comparison:
    result, job = run.result, run.job
    tables = run.data.in_memory()
    plan = pca.plan(job, [table.schema for table in tables])
    rows, scatter = pca.clipped_rows(tables, plan), pca.reference(tables, plan)
    released, k = np.array(result["components"]), len(result["components"])
    longest = plan.unit * plan.total_squared_norm**0.5
    rows /= longest
    rng = np.random.default_rng(COMPARISON_SEED)
    budget = {"epsilon": result["privacy"]["views"]["coordinator"]["epsilon"], "delta": job.privacy.delta}
    constant = plan.constant * plan.unit / longest
    moment = moment_with_constant(rows, constant)
    central = [central_components(moment, k, **budget, rng=rng, constant=constant) for _ in range(COMPARISON_RUNS)]
    local = local_noise_components(rows, k, **budget, rng=rng, center=True)
    eigenvalues, exact = pca.leading_components(scatter, k)
    captured = {
        "exact": captured_variance(scatter, exact),
        "central": float(np.mean([captured_variance(scatter, found) for found in central])),
        "moiety": captured_variance(scatter, released),
        "local_noise": captured_variance(scatter, local),
    }
    along = np.einsum("ki,ij,kj->k", released, scatter, released) / len(rows)
    return Comparison(captured, along.tolist(), (eigenvalues / len(rows)).tolist())


def text_of(outcome: PcaOutcome) -> str:
    """Return what people read."""
    captured = outcome.captured_variance
    split = ", ".join(f"{party} {n}" for party, n in outcome.columns.items())
    epsilon = epsilon_against(outcome.privacy, "coordinator")
    return f"""
Private PCA of {outcome.n_rows:,} rows x {sum(outcome.columns.values())} columns ({split})

  variance captured by {outcome.components} components
    exact, no privacy        {captured["exact"]:7.2%}   needs somebody who holds everything
    central DP               {captured["central"]:7.2%}   likewise; epsilon {epsilon}
    Moiety                   {captured["moiety"]:7.2%}   nobody holds everything
    local noise              {captured["local_noise"]:7.2%}   each party noises its own rows; same epsilon

  what Moiety says itself: {outcome.explained:.2%}; {outcome.n_above_noise} directions vary more than noise would
  component   its variance   95 % interval
{_variances(outcome)}

{privacy_lines(outcome.privacy)}

{job_line(outcome.seconds, outcome.bytes_sent)}
  plot      {outcome.files["plot"]}
  numbers   {outcome.files["json"]}
{next_line("pca --epsilon 0.05", "twenty times more private: what does it cost?")}
"""


def _variances(outcome: PcaOutcome) -> str:
    pairs = zip(outcome.variance, outcome.intervals, strict=True)
    return "\n".join(
        f"  {at:9}   {exact:12.4f}   {low:.4f} to {high:.4f}" for at, (exact, (low, high)) in enumerate(pairs, 1)
    )
