"""`moiety demo matching`: what it runs, and what it prints."""

import asyncio
import json
import uuid
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from analyses.job.job import Job
from analyses.job.schema import Table
from analyses.logistic_regression import protocol as logistic_regression
from analyst.connection import ClientConfig, connect
from cli.terminal.output import ExitCode, fail, say
from cli.terminal.progress import event_printer
from demo.data_sets.customers import LABEL, PARTIES, TABLE_NAME, Customers, write_customers
from demo.local_deployment import LocalDeployment
from demo.text import job_line, privacy_lines
from party.config import load_party_config
from party.tables.table import describe_table
from transport.calls.coordinator_client import JobView

KINDS = ("revealed", "secret")
POLICY = {"policy.automatic": {"max_epsilon_per_job": 1e6, "matching": list(KINDS)}}


@dataclass(frozen=True)
class MatchedRun:
    """One job.

    Attributes:
        accuracy: the share of the customers that all have with the right label.
        matched_rows: party to what its report says of how many of its rows matched; None where nobody learns it.
        seconds: from submission to the result.
        bytes_sent: party to bytes.
        privacy: the report.
    """

    accuracy: float
    matched_rows: Mapping[str, int | None]
    seconds: float
    bytes_sent: Mapping[str, int]
    privacy: Mapping[str, Any]


@dataclass(frozen=True)
class MatchingOutcome:
    """What the demo shows.

    Attributes:
        sources: party to where its table lies.
        n_customers: party to how many customers it has.
        n_common: how many all have. Only a demo may say it.
        pooled_accuracy: of who holds everything.
        more_frequent_label: share of the more frequent label.
        runs: kind of matching to the job.
    """

    sources: Mapping[str, str]
    n_customers: Mapping[str, int]
    n_common: int
    pooled_accuracy: float
    more_frequent_label: float
    runs: Mapping[str, MatchedRun]


def run_demo(stack: ExitStack, folder: Path, n_customers: int, epsilon: float) -> MatchingOutcome:
    """Run a logistic regression with both kinds of matching; says on the terminal what it does.

    Args:
        stack: on leaving it, all processes end.
        folder: for tables and services.
        n_customers: of each party.
        epsilon: of each of the two jobs.
    """
    say("1/4  writing three tables of other customers, in other orders and spellings")
    data = write_customers(stack, folder, n_customers)
    for party in PARTIES:
        say(f"     {party}: {data.sources[party]}")
    say("2/4  starting 3 parties and a coordinator on loopback, mutual TLS")
    services = folder / "services"
    services.mkdir()
    budget = (3 * epsilon, 1e-6)
    deployment = stack.enter_context(
        LocalDeployment(services, data.tables, federation="demo", budget=budget, policy=dict.fromkeys(PARTIES, POLICY))
    )
    jobs = {kind: _job(kind, epsilon) for kind in KINDS}
    views = {kind: asyncio.run(_submit_and_watch(deployment, job, kind)) for kind, job in jobs.items()}
    say("4/4  comparing with what somebody who held all tables could do (only a demo can)")
    rows = np.hstack([data.common[party] for party in PARTIES])
    features, labels = rows[:, :-1], rows[:, -1]
    weights, intercept = _pooled(deployment, data, jobs["revealed"])
    runs = {}
    for kind, view in views.items():
        result = json.loads(view.result_json)
        reports = {party: deployment.report(party, view.job_id) for party in PARTIES}
        runs[kind] = MatchedRun(
            accuracy=_accuracy(features @ np.array(result["weights"]) + result["intercept"], labels),
            matched_rows={party: report.get("matched_rows") for party, report in reports.items()},
            seconds=view.ended_at_s - view.submitted_at_s,
            bytes_sent={p: sum(s["sent_bytes"] for s in r["traffic"].values()) for p, r in reports.items()},
            privacy=result["privacy"],
        )
    return MatchingOutcome(
        sources=data.sources,
        n_customers=data.n_customers,
        n_common=data.n_common,
        pooled_accuracy=_accuracy(features @ weights + intercept, labels),
        more_frequent_label=max(float(labels.mean()), 1 - float(labels.mean())),
        runs=runs,
    )


def _job(kind: str, epsilon: float) -> Job:
    fields = {
        "analysis": "logistic-regression",
        "inputs": [{"party": party, "table": TABLE_NAME} for party in PARTIES],
        "privacy": {"epsilon": epsilon, "delta": 1e-6},
        "parameters": {"label": LABEL, "method": "moments"},
        "matching": {"kind": kind},
        "deadline_s": 120.0,
    }
    return Job.model_validate(fields)


def _accuracy(log_odds: np.ndarray[Any, Any], labels: np.ndarray[Any, Any]) -> float:
    return float(np.mean((log_odds > 0) == (labels > 0.5)))


def _pooled(deployment: LocalDeployment, data: Customers, job: Job) -> tuple[np.ndarray[Any, Any], float]:
    """Return what the same method finds without privacy, where somebody holds all tables."""
    schemas = [describe_table(load_party_config(deployment.config_path(i.party)), i) for i in job.inputs]
    plan = logistic_regression.plan(job, schemas)
    plain = [schema.model_copy(update={"matching": None, "rows": None}) for schema in schemas]
    tables = [Table(schema, data.common[schema.party]) for schema in plain]
    weights, intercept = logistic_regression.reference(tables, plan)
    return np.asarray(weights), float(intercept)


async def _submit_and_watch(deployment: LocalDeployment, job: Job, kind: str) -> JobView:
    async with connect(ClientConfig.load(deployment.client_config)) as coordinator:
        job_id = await coordinator.submit(job.canonical_json(), uuid.uuid4().hex)
        say(f"3/4  job {job_id}: matching of rows, {kind}; then shares, products and noise among the parties")
        with event_printer() as printer:
            async for event in coordinator.watch(job_id):
                printer.show(event)
        view = await coordinator.show(job_id)
    if view.state != "DONE":
        fail(f"job {view.job_id} {view.state}: {view.reason}", ExitCode.FAILED, code=view.code)
    return view


def text_of(outcome: MatchingOutcome) -> str:
    """Return what the demo prints."""
    tables = "\n".join(f"    {p:8} {n:6,} customers   {outcome.sources[p]}" for p, n in outcome.n_customers.items())
    revealed, secret = outcome.runs["revealed"], outcome.runs["secret"]
    return f"""
Private logistic regression of {LABEL} on the customers that all three parties have

  tables
{tables}
    in common {outcome.n_common:,}

  common customers with the right label
    pooled tables, no privacy{outcome.pooled_accuracy:8.2%}   needs somebody who holds everything
    matching revealed        {revealed.accuracy:8.2%}   owners learn which of their customers all have
    matching secret          {secret.accuracy:8.2%}   nobody learns which, nor how many
    always the same label    {outcome.more_frequent_label:8.2%}

{privacy_lines(revealed.privacy)}
    of each of the two answers; what revealed matching tells owners is not covered

  revealed
{job_line(revealed.seconds, revealed.bytes_sent)}
  secret
{job_line(secret.seconds, secret.bytes_sent)}
"""
