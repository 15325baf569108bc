"""`moiety demo clustering`: what it prints."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from analyses.clustering import protocol as clustering
from analyses.clustering.baseline import central_clustering
from analyses.clustering.text import certainty_lines
from analyses.clustering.weighted_clustering import Choices, cluster, loss
from analyses.job.job import PrivacyTarget
from demo.job import DemoRun
from demo.text import epsilon_against, job_line, next_line, privacy_lines
from entropy import InsecureTestEntropy, SystemEntropy

COMPARISON_RUNS = 5
COMPARISON_SEED = "demo clustering"
COMPARISON_ROWS = 10_000
"""Number of rows, spread evenly, on which k-means without privacy is run in place of all rows."""


@dataclass(frozen=True)
class ClusteringOutcome:
    """What the demo shows.

    Attributes:
        job_id: of the job.
        n_rows, n_columns: of the joint table.
        k, k_local: clusters of the joint table and of each party's own columns.
        counting: how memberships were counted.
        weights: estimated rows of each cluster with their standard errors, largest first.
        certainty: what the result says of the clusters, in lines.
        loss: way of finding the centres to the mean squared distance, columns scaled to [-1, 1].
        privacy: the report.
        seconds: from submission to the result.
        bytes_sent: party to bytes.
    """

    job_id: str
    n_rows: int
    n_columns: int
    k: int
    k_local: int
    counting: str
    weights: Sequence[tuple[float, float]]
    certainty: Sequence[str]
    loss: Mapping[str, float]
    privacy: Mapping[str, Any]
    seconds: float
    bytes_sent: Mapping[str, int]


def compare(run: DemoRun) -> ClusteringOutcome:
    """Compare the result of `examples/clustering.toml` with what somebody who held all columns could do."""
    tables = run.data.in_memory({brought.party: brought.columns for brought in run.job.inputs})
    plan = clustering.plan(run.job, [table.schema for table in tables])
    joint = clustering.scaled_rows(tables, plan)
    k, privacy = plan.params.k, run.result["privacy"]
    some = joint[:: max(1, len(joint) // COMPARISON_ROWS)]
    choices = Choices(InsecureTestEntropy(COMPARISON_SEED))
    target = PrivacyTarget(
        epsilon=privacy["views"]["coordinator"]["epsilon"], delta=run.job.privacy.delta, view="coordinator"
    )
    central = [central_clustering(tables, k, plan.params.p, target, SystemEntropy()) for _ in range(COMPARISON_RUNS)]
    ways = {
        "exact": [cluster(some, np.ones(len(some)), k, plan.params.p, choices).centres],
        "grid": [clustering.reference(tables, plan, choices).centres],
        "central": [clustering.in_scaled_units(found, plan) for found in central],
        "moiety": [clustering.in_scaled_units(np.array(run.result["centres"]), plan)],
    }
    return ClusteringOutcome(
        job_id=run.view.job_id,
        n_rows=run.n_rows,
        n_columns=joint.shape[1],
        k=k,
        k_local=plan.k_local,
        counting=plan.params.counting,
        weights=sorted(zip(run.result["weights"], run.result["standard_errors"], strict=True), reverse=True),
        certainty=certainty_lines(run.result),
        loss={name: float(np.mean([loss(joint, c, plan.params.p) for c in found])) for name, found in ways.items()},
        privacy=privacy,
        seconds=run.seconds,
        bytes_sent=run.bytes_sent,
    )


def text_of(outcome: ClusteringOutcome) -> str:
    """Return what the demo prints."""
    grid = f"grid of {outcome.k_local}, no privacy"
    lost, epsilon = outcome.loss, epsilon_against(outcome.privacy, "coordinator")
    numbered = enumerate(outcome.weights, start=1)
    sizes = ", ".join(f"cluster {at} {weight:,.0f} +- {error:,.0f}" for at, (weight, error) in numbered)
    said = "\n".join(f"  {line}" for line in outcome.certainty)
    return f"""
Private clustering of {outcome.n_rows:,} rows x {outcome.n_columns} columns in {outcome.k} clusters

  estimated rows of each, with standard errors: {sizes}
{said}

  mean squared distance to the nearest centre, columns scaled to [-1, 1]
    k-means, no privacy      {lost["exact"]:7.4f}   needs somebody who holds everything
    {grid:24} {lost["grid"]:7.4f}   each party clusters its own columns; exact counts
    central DP               {lost["central"]:7.4f}   needs somebody who holds everything; epsilon {epsilon}
    Moiety, {outcome.counting:16} {lost["moiety"]:7.4f}   nobody holds everything

{privacy_lines(outcome.privacy)}

{job_line(outcome.seconds, outcome.bytes_sent)}
{next_line("clustering --epsilon 0.1", "ten times more private: what does it cost?")}
"""
