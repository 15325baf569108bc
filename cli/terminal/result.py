"""A job and its result as text for people."""

import json
from collections.abc import Iterator

from analyses.job.job import Job
from service.codes.coded_text import coded
from service.codes.printed_time import printed_time
from transport.calls.coordinator_client import JobView


def lines_of(view: JobView) -> Iterator[str]:
    """Yield the lines of `moiety job show`; a result is rendered when it is asked for its lines."""
    yield f"job {view.job_id}: {view.analysis}, {view.state}"
    times = f"submitted {printed_time(view.submitted_at_s)}"
    if view.ended_at_s:
        times += f", ended {printed_time(view.ended_at_s)} after {view.ended_at_s - view.submitted_at_s:.1f} s"
    yield times
    if view.waits_for_owners_of:
        yield f"waits for approval by the owners of: {', '.join(view.waits_for_owners_of)}"
    if view.reason:
        yield f"reason: {coded(view.reason, code=view.code) if view.code else view.reason}"
    if view.culprit:
        is_refusal = view.reason.startswith(f"party {view.culprit} refused: ")
        yield f"{'refused by' if is_refusal else 'at fault'}: {view.culprit}"
    if view.stage:
        yield f"stage: {view.stage}"
    if view.state in ("FAILED", "CANCELLED") and view.plan_json and Job.from_json(view.job_json).target is not None:
        yield "cost: stays charged at each party that had committed it: `moiety budget history` tells its owner"
    if view.result_json:
        from results.registry import result_of

        yield ""
        yield from result_of(Job.from_json(view.job_json), json.loads(view.result_json)).lines
