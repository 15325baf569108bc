"""Results of each kind of job, as an analyst gets them from a coordinator: computed in one process."""

import asyncio
import json
from dataclasses import replace
from functools import cache

import polars
from registry_jobs import VARIANTS, values_of

from analyses.run_locally import run_locally
from analyst.client import result_of
from transport.calls.coordinator_client import JobView

NAMES = ("bank.x0", "bank.x1", "hospital.x0", "hospital.x1", "telco.x0", "telco.x1")
"""Columns of the jobs of `VARIANTS`, with their labels."""


@cache
def view_of(name):
    """Return the job of `VARIANTS` of this name, done."""
    variant = VARIANTS[name]
    job = variant.job(title=f"{name} <b>")
    return done_view(job, asyncio.run(run_locally(job, variant.tables())))


def done_view(job, done):
    """Return what an analyst gets of a job that has run in one process."""
    return JobView(
        job_id="0" * 32,
        analysis=job.analysis,
        state="DONE",
        reason="",
        culprit="",
        stage="",
        submitted_by="ana",
        submitted_at_s=1.0,
        ended_at_s=2.0,
        title=job.title,
        waits_for_owners_of=(),
        job_json=job.canonical_json(),
        plan_json=done.plan.canonical_json(),
        result_json=json.dumps(done.result),
    )


def found(name, **changes):
    """Return the result of a job, some of its fields replaced."""
    view = view_of(name)
    return result_of(replace(view, result_json=json.dumps(json.loads(view.result_json) | changes)))


def own_rows(n=5):
    """Return rows of the joint table, as a data frame with one column more than is needed."""
    columns = {}
    for owner in ("bank", "hospital", "telco"):
        for at, name in enumerate(("x0", "x1")):
            columns[f"{owner}.{name}"] = values_of(owner)[:n, at]
    return polars.DataFrame({"name": ["somebody"] * n, **columns})
