"""A job and its result as text for people."""

import json
import time

from service.codes.coded_text import coded
from transport.calls.coordinator_client import JobView


def summary_of(view: JobView) -> str:
    """Return the lines of `moiety job show`."""
    lines = [f"job {view.job_id}: {view.analysis}, {view.state}"]
    lines.append(f"submitted {_clock(view.submitted_at_s)}")
    if view.ended_at_s:
        lines[-1] += f", ended {_clock(view.ended_at_s)} after {view.ended_at_s - view.submitted_at_s:.1f} s"
    if view.waits_for_owners_of:
        lines.append(f"waits for approval by the owners of: {', '.join(view.waits_for_owners_of)}")
    if view.reason:
        lines.append(f"reason: {coded(view.reason, code=view.code) if view.code else view.reason}")
    if view.culprit:
        lines.append(f"at fault: {view.culprit}")
    if view.stage:
        lines.append(f"stage: {view.stage}")
    if view.result_json:
        from analyses.registry import lines_of

        lines += ["", *lines_of(view.analysis)(json.loads(view.result_json))]
    return "\n".join(lines)


def _clock(at_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at_s))
