"""`moiety demo pca`: principal components, with a plot, beside what a holder of everything could do."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from analyses.pca import protocol as pca
from analyses.pca.baseline import captured_variance, central_components, local_noise_components
from cli.terminal.plot import plot_pca
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
        privacy=run.result["privacy"],
        seconds=run.seconds,
        bytes_sent=run.bytes_sent,
        clipped_rows={p: r["clipped_rows"] for p, r in reports.items()},
        files={name: str(path) for name, path in files.items()},
    )
    out.mkdir(parents=True, exist_ok=True)
    plot_pca(run.result, files["plot"], exact_eigenvalues=compared.exact_eigenvalues)
    files["json"].write_text(json.dumps({"demo": asdict(outcome), "result": run.result}, indent=2) + "\n")
    return outcome


@dataclass(frozen=True)
class Comparison:
    """What somebody who held all columns could do.

    Attributes:
        captured_variance: share of the variance captured by k components found in four ways.
        exact_eigenvalues: of the clipped table's second-moment matrix, largest first.
    """

    captured_variance: Mapping[str, float]
    exact_eigenvalues: Sequence[float]


def _compare(run: DemoRun) -> Comparison:
    result, job = run.result, run.job
    tables = run.data.in_memory()
    plan = pca.plan(job, [table.schema for table in tables])
    rows = pca.clipped_rows(tables, plan)
    moment = rows.T @ rows
    k = len(result["components"])
    rows /= plan.row_norm
    rng = np.random.default_rng(COMPARISON_SEED)
    budget = {"epsilon": result["privacy"]["views"]["coordinator"]["epsilon"], "delta": job.privacy.delta}
    central = [central_components(moment / plan.row_norm**2, k, **budget, rng=rng) for _ in range(COMPARISON_RUNS)]
    local = local_noise_components(rows, k, **budget, rng=rng)
    eigenvalues, exact = pca.leading_components(moment, k)
    captured = {
        "exact": captured_variance(moment, exact),
        "central": float(np.mean([captured_variance(moment, found) for found in central])),
        "moiety": captured_variance(moment, np.array(result["components"])),
        "local_noise": captured_variance(moment, local),
    }
    return Comparison(captured, eigenvalues.tolist())


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

{privacy_lines(outcome.privacy)}

{job_line(outcome.seconds, outcome.bytes_sent)}
  plot      {outcome.files["plot"]}
  numbers   {outcome.files["json"]}
{next_line("pca --epsilon 0.05", "twenty times more private: what does it cost?")}
"""
