"""A saved result: the JSON that `moiety job show --format json` prints, with its job, its plan and its receipts."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from service.trust.receipts import FIELD, canonical_json


class DocumentError(ValueError):
    """A file that holds no result of a job; the text says why."""

    code: str = "result-unreadable"


@dataclass(frozen=True)
class Document:
    """A result to be checked. Nothing of it is trusted.

    Attributes:
        job_id: identifier of the job.
        analyst: name of the analyst who submitted it; None where the file does not say.
        plan: JSON of the plan, its job in it.
        result: fields of the result, its receipts in them.
        job: JSON of the job beside the plan, which has to be that in the plan; None where there is none.
    """

    job_id: str
    analyst: str | None
    plan: Mapping[str, Any]
    result: Mapping[str, Any]
    job: Any = None

    @classmethod
    def of_json(cls, text: str) -> "Document":
        """Read the JSON of a job that is done.

        Raises:
            DocumentError: it is not that, or its result carries no receipts.
        """
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            what = "it is not JSON; `moiety job show JOB --format json` writes what can be checked"
            raise DocumentError(what) from error
        if not isinstance(found, dict):
            raise DocumentError("it is not the JSON of a job")
        whole = cls.of_parts(found.get("job_id"), found.get("submitted_by"), found.get("plan"), found.get("result"))
        return replace(whole, job=found.get("job"))

    @classmethod
    def of_parts(cls, job_id: Any, analyst: Any, plan: Any, result: Any) -> "Document":
        """Return a result of its parts; raises as `of_json`."""
        if not isinstance(plan, Mapping) or not isinstance(result, Mapping) or not isinstance(job_id, str):
            raise DocumentError("it has no plan and no result: the job is not done")
        if not isinstance(result.get(FIELD), list):
            raise DocumentError("its result carries no receipts: it is of an earlier version, or was changed")
        if not _has_job(plan):
            raise DocumentError("its plan is not the plan of a job")
        return cls(job_id, analyst if isinstance(analyst, str) else None, plan, result)


def digest_of(data: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the canonical JSON of data, hexadecimal."""
    return hashlib.sha256(canonical_json(data).encode()).hexdigest()


def _has_job(plan: Mapping[str, Any]) -> bool:
    """Return whether a plan has what every check reads of its job."""
    job = plan.get("job")
    if not isinstance(job, dict) or not isinstance(plan.get("schemas"), list) or not job.get("inputs"):
        return False
    named = all(isinstance(one, dict) and isinstance(one.get("party"), str) for one in job["inputs"])
    return named and {"analysis", "compute", "colluding", "privacy", "parameters"} <= set(job)
