"""`moiety demo distribution`: one question asked twice, by responses and by a masked sum, with a plot of both."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from analyses.distribution import protocol as distribution
from analyses.distribution.estimates.metrics import kolmogorov_smirnov, mean_of, quantiles, wasserstein
from analyses.drawing.chart import Picture
from analyses.drawing.file import write
from analyses.pictures.distribution import density_of
from cli.terminal.output import say
from demo.job import DemoRun, example_job, run_on
from demo.text import epsilon_against, job_line, next_line

WAYS = ("wave", "masked")
"""The methods that are compared, both with the target of the example."""


@dataclass(frozen=True)
class DistributionOutcome:
    """What the demo shows. Mappings are from the method, or `exact`, to what it found.

    Attributes:
        job_ids: of the two jobs.
        n_rows: of all tables together.
        edges: of the buckets.
        probabilities: of the buckets.
        w1: mean distance of the cumulative distribution from the exact one, in units of the range.
        ks: the largest such distance.
        mean: and
        median: of the distribution over the buckets, in the units of the column, each with the half-width of its 95 %
            interval; 0 for `exact`.
        privacy: the reports.
        seconds: from submission to the result.
        bytes_sent: party to bytes.
        files: of the plot and of all numbers.
    """

    job_ids: Mapping[str, str]
    n_rows: int
    edges: list[float]
    probabilities: Mapping[str, list[float]]
    w1: Mapping[str, float]
    ks: Mapping[str, float]
    mean: Mapping[str, tuple[float, float]]
    median: Mapping[str, tuple[float, float]]
    privacy: Mapping[str, Mapping[str, Any]]
    seconds: Mapping[str, float]
    bytes_sent: Mapping[str, Mapping[str, int]]
    files: Mapping[str, str]


def compare(run: DemoRun, out: Path) -> DistributionOutcome:
    """Run the other method on the same services and compare both; write plot and numbers to the folder `out`."""
    asked = {"parameters.buckets": len(run.result["probabilities"]), "privacy.epsilon": run.job.privacy.epsilon}
    say("     the same question again, by a masked sum")
    masked = run_on(run.deployment, example_job("distribution", {**asked, "parameters.method": "masked"}), run.data)
    runs = dict(zip(WAYS, (run, masked), strict=True))
    tables = run.data.in_memory()
    exact = distribution.reference(tables, distribution.plan(run.job, [table.schema for table in tables]))
    edges = np.array(run.result["edges"])
    lower, width = edges[0], edges[-1] - edges[0]
    files = {"plot": out / "distribution.png", "json": out / "distribution.json"}
    found = {way: np.array(one.result["probabilities"]) for way, one in runs.items()}
    middle = [level for level, _ in run.result["quantiles"]].index(0.5)
    outcome = DistributionOutcome(
        job_ids={way: one.view.job_id for way, one in runs.items()},
        n_rows=run.n_rows,
        edges=edges.tolist(),
        probabilities={"exact": exact.tolist()} | {way: p.tolist() for way, p in found.items()},
        w1={way: wasserstein(p, exact) for way, p in found.items()},
        ks={way: kolmogorov_smirnov(p, exact) for way, p in found.items()},
        mean={"exact": (float(lower + width * mean_of(exact)), 0.0)}
        | {way: (one.result["mean"], one.result["half_widths"]["mean"]) for way, one in runs.items()},
        median={"exact": (float(lower + width * quantiles(exact, np.array([0.5]))[0]), 0.0)}
        | {
            way: (one.result["quantiles"][middle][1], one.result["half_widths"]["quantiles"][middle])
            for way, one in runs.items()
        },
        privacy={way: one.result["privacy"] for way, one in runs.items()},
        seconds={way: one.seconds for way, one in runs.items()},
        bytes_sent={way: one.bytes_sent for way, one in runs.items()},
        files={name: str(path) for name, path in files.items()},
    )
    out.mkdir(parents=True, exist_ok=True)
    results = {way: one.result for way, one in runs.items()}
    panels = [
        density_of(result, title=way, axis="age in years", exact=exact.tolist()) for way, result in results.items()
    ]
    write(Picture(tuple(panels)), files["plot"])
    files["json"].write_text(json.dumps({"demo": asdict(outcome), "results": results}, indent=2) + "\n")
    return outcome


def text_of(outcome: DistributionOutcome) -> str:
    """Return what a person reads."""

    def row(way: str, label: str) -> str:
        (mean, of_mean), (median, of_median) = outcome.mean[way], outcome.median[way]
        error = f"{outcome.w1[way]:8.5f} {outcome.ks[way]:8.5f}" if way in outcome.w1 else " " * 17
        return f"  {label:24} {mean:7.3f} +- {of_mean:5.3f}   {median:7.3f} +- {of_median:5.3f}   {error}"

    wave, masked = outcome.privacy["wave"], outcome.privacy["masked"]
    third = wave.get("analyst")
    only_counts = (
        ""
        if third is None
        else f"\n    who sees counts alone  {third['epsilon']:.3g}, if the coordinator is honest; {third['never']}"
    )
    return f"""
Distribution of ages over {outcome.n_rows:,} rows of three parties, {len(outcome.edges) - 1} buckets

                              mean              median            W1       KS
{row("exact", "exact, no privacy")}
{row("wave", "randomized responses")}
{row("masked", "masked sum")}

  W1 and KS are in units of the range, from the exact distribution: only a demo knows it. W1 of the masked sum is
  {outcome.w1["wave"] / outcome.w1["masked"]:.0f} times smaller.

  privacy of each row, delta {wave["delta"]:g}: epsilon against the coordinator and colluding parties
    randomized responses   {epsilon_against(wave, "coalition")}; a row trusts nobody but its own party{only_counts}
    masked sum             {epsilon_against(masked, "coalition")}; what a party adds is its own word

{job_line(outcome.seconds["wave"], outcome.bytes_sent["wave"])}
{job_line(outcome.seconds["masked"], outcome.bytes_sent["masked"])}
  plot      {outcome.files["plot"]}
  numbers   {outcome.files["json"]}
{next_line("distribution --epsilon 0.25", "four times more private: which of the two still shows the shape?")}
"""
