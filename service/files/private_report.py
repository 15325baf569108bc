"""Reports that a party or a device keeps for its owner: JSON files that only the owner may read."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from service.files.private_file import write_private
from service.job_id import is_job_id


def report_path(data_dir: Path, job_id: str) -> Path:
    """Return the path of the report of a job.

    Raises:
        ValueError: the job id does not fit a file name; the coordinator is at fault.
    """
    if not is_job_id(job_id):
        raise ValueError("the job id must consist of letters, digits, '_' and '-'")
    return data_dir / "reports" / f"{job_id}.json"


def keep_report(data_dir: Path, job_id: str, report: Mapping[str, Any]) -> Path:
    """Write a report where `report_path` says, readable by its owner only; it is there completely or not at all.

    Raises:
        ValueError: a number is not finite, or the job id does not fit a file name.
        OSError: it cannot be written.
    """
    return keep_private(report_path(data_dir, job_id), report)


def keep_private(path: Path, tree: Mapping[str, Any]) -> Path:
    """Write JSON data to a file that only its owner may read; it is there completely or not at all.

    Raises:
        ValueError: a number is not finite.
        OSError: it cannot be written.
    """
    text = json.dumps(tree, allow_nan=False) + "\n"  # lines and indents would take a millisecond
    return write_private(path, [text.encode()])
