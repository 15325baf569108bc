"""Results as files: the JSON object that `moiety job show --format json` prints, loaded without a federation."""

import json
from collections.abc import Mapping
from pathlib import Path

from analyses.job.job import Job, JobError
from results.generic.result import FILE_VERSION, Result, SavedResultError


def load(path: str | Path) -> Result:
    """Return the result of a file that `Result.save` wrote, or that holds what `moiety job show --format json` prints.

    Raises:
        SavedResultError: the file holds no result, or was written by a later version.
        OSError: the file cannot be read.
    """
    return of_text(Path(path).read_bytes(), str(path))


def of_text(text: bytes, name: str) -> Result:
    """Return the result of a file's bytes; raises as `load`.

    Args:
        text: what the file holds.
        name: name of the file, for errors.
    """
    from results.registry import result_of  # with all kinds of results

    try:
        fields = json.loads(text, parse_constant=_no_constant)
    except ValueError as error:
        raise SavedResultError(f"{name}: no JSON ({error}); moiety job show JOB --format json writes it") from None
    if not isinstance(fields, Mapping) or not isinstance(fields.get("job"), Mapping):
        raise SavedResultError(f"{name}: no job of Moiety; moiety job show JOB --format json writes it")
    if fields.get("version", FILE_VERSION) != FILE_VERSION:
        raise SavedResultError(
            f"{name}: version {fields['version']!r} of the file, and this program reads {FILE_VERSION}"
        )
    if not isinstance(fields.get("result"), Mapping):
        raise SavedResultError(f"{name}: the job has no result, it is {fields.get('state')}")
    if fields["result"].get("analysis") != fields["job"].get("analysis"):
        raise SavedResultError(f"{name}: the result is of another analysis than the job")
    try:
        job = Job.from_json(json.dumps(fields["job"]))
    except JobError as error:
        raise SavedResultError(f"{name}: {error}") from None
    return result_of(job, fields["result"], fields.get("plan") or {}, str(fields.get("job_id") or ""))


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")
