"""`moiety demo matching`: what it runs, and what it prints."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analyses.job.job import Job
from analyses.job.plan import Plan
from analyses.job.schema import Table
from analyses.registry import analysis_of
from cli.terminal.output import say
from demo.comparison import Found, Score, scores_of
from demo.data_sets.customers import LABEL, PARTIES, TABLE_NAME, Customers, write_customers
from demo.job import run_on
from demo.local_deployment import LocalDeployment
from demo.text import job_line
from dp.cost.report import describe
from party.config import load_party_config
from party.tables.table import describe_table

KINDS = ("revealed", "secret")
POLICY = {"policy.automatic": {"max_epsilon_per_job": 1e6, "matching": list(KINDS)}}


@dataclass(frozen=True)
class MatchedRun:
    """One job.

    Attributes:
        scores: scores of its answer, on the customers that all have.
        matched_rows: party to what its report says of how many of its rows matched; None where nobody learns it.
        seconds: from submission to the result.
        bytes_sent: party to bytes.
        privacy: the report.
    """

    scores: list[Score]
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
        runs: kind of matching to the job.
    """

    sources: Mapping[str, str]
    n_customers: Mapping[str, int]
    n_common: int
    runs: Mapping[str, MatchedRun]


def run_demo(stack: ExitStack, folder: Path, n_customers: int, epsilon: float) -> MatchingOutcome:
    """Run a logistic regression with both kinds of matching; says on the terminal what it does.

    Args:
        stack: on leaving it, all processes end.
        folder: for tables and services.
        n_customers: customers of each party.
        epsilon: epsilon of each of the two jobs.
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
    runs = {}
    for kind in KINDS:
        say(f"     matching of rows: {kind}")
        runs[kind] = run_on(deployment, _job(kind, epsilon), data)
    say("4/4  comparing with what somebody who held all tables would find (only a demo can)")
    tables, plan = _pooled(deployment, data, runs["revealed"].job)
    return MatchingOutcome(
        sources=data.sources,
        n_customers=data.n_customers,
        n_common=data.n_common,
        runs={
            kind: MatchedRun(
                scores=scores_of(Found(run.result, run.reports, data, tables, plan)),
                matched_rows={party: report.get("matched_rows") for party, report in run.reports.items()},
                seconds=run.seconds,
                bytes_sent=run.bytes_sent,
                privacy=run.result["privacy"],
            )
            for kind, run in runs.items()
        },
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


def _pooled(deployment: LocalDeployment, data: Customers, job: Job) -> tuple[list[Table], Plan]:
    """Return the rows that match, in one place, and the plan of the job."""
    schemas = [describe_table(load_party_config(deployment.config_path(i.party)), i) for i in job.inputs]
    plain = [schema.model_copy(update={"matching": None, "rows": None}) for schema in schemas]
    return [Table(schema, data.common[schema.party]) for schema in plain], analysis_of(job).plan(job, schemas)


def text_of(outcome: MatchingOutcome) -> str:
    """Return what the demo prints."""
    tables = "\n".join(f"    {p:8} {n:6,} customers   {outcome.sources[p]}" for p, n in outcome.n_customers.items())
    revealed, secret = outcome.runs["revealed"], outcome.runs["secret"]
    right, always = revealed.scores
    privacy = "\n".join(f"    {line}" for line in describe(revealed.privacy))
    return f"""
Private logistic regression of {LABEL} on the customers that all three parties have

  tables
{tables}
    in common {outcome.n_common:,}

  common customers with the right label
    pooled tables, no privacy{right.no_privacy:8.2%}   needs somebody who holds everything
    matching revealed        {right.moiety:8.2%}   owners learn which of their customers all have
    matching secret          {secret.scores[0].moiety:8.2%}   nobody learns which, nor how many
    always the same label    {always.no_privacy:8.2%}

  privacy of each of the two answers; what revealed matching tells owners is not covered
{privacy}

  revealed
{job_line(revealed.seconds, revealed.bytes_sent)}
  secret
{job_line(secret.seconds, secret.bytes_sent)}
"""
