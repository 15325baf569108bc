"""A job and its result as text for people."""

import json

from analyses.job.job import Job
from service.codes.coded_text import coded
from service.codes.printed_time import printed_time
from transport.calls.coordinator_client import JobView


def summary_of(view: JobView) -> str:
    """Return the lines of `moiety job show`."""
    lines = [f"job {view.job_id}: {view.analysis}, {view.state}"]
    lines.append(f"submitted {printed_time(view.submitted_at_s)}")
    if view.ended_at_s:
        lines[-1] += f", ended {printed_time(view.ended_at_s)} after {view.ended_at_s - view.submitted_at_s:.1f} s"
    if view.waits_for_owners_of:
        lines.append(f"waits for approval by the owners of: {', '.join(view.waits_for_owners_of)}")
    if view.reason:
        lines.append(f"reason: {coded(view.reason, code=view.code) if view.code else view.reason}")
    if view.culprit:
        lines.append(f"at fault: {view.culprit}")
    if view.stage:
        lines.append(f"stage: {view.stage}")
    if view.result_json:
        from results.registry import result_of

        lines += ["", *result_of(Job.from_json(view.job_json), json.loads(view.result_json)).lines]
    return "\n".join(lines)
