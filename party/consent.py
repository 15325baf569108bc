"""Jobs that wait for the owner's approval: files by which the service asks and a command answers.

`consent/<job_id>.json` is what the owner is asked; `consent/<job_id>.answer` is what the owner says. Both are in
the party's own folder, readable by the owner only, and whoever can write there can also change the configuration.
"""

import asyncio
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from service.job_id import is_job_id

POLL_S = 0.2


class RefusalError(Exception):
    """The party refuses the job; the text is public and goes to the analyst."""

    code: str = "job-refused"


class BusyError(RefusalError):
    """There are too many jobs here already."""

    code = "party-busy"


class StrangersError(RefusalError):
    """Members of the job are not among those that the owner computes with."""

    code = "strangers-in-job"


class TableChangedError(RefusalError):
    """The owner has declared the job's table otherwise since the job was proposed."""

    code = "table-changed"


class PlansDifferError(RefusalError):
    """The coordinator computes a different plan than this party."""

    code = "plans-differ"


class OwnerRefusalError(RefusalError):
    """The owner was asked and said no."""

    code = "job-refused-owner"


class OwnerSilentError(RefusalError):
    """The owner was asked and did not answer in time."""

    code = "job-not-approved"


PRODUCTS = "it computes further with products under shares: a compute party that deviates could read rows through them"
"""What an owner is told of a job with intermediate products."""


class ConsentError(ValueError):
    """No such job waits, or its id is not one."""

    code: str = "approval-unknown"


class ConsentBox:
    """Questions to the owner and answers.

    Args:
        data_dir: the party's own folder.
    """

    def __init__(self, data_dir: Path) -> None:
        self._folder = data_dir / "consent"

    async def ask(self, job_id: str, question: Mapping[str, Any]) -> str | None:
        """Wait for the owner's decision on a job, for as long as the caller waits.

        Args:
            job_id: id of the job.
            question: what the owner is shown; a JSON object.

        Returns:
            None if the owner approves, else the reason of the refusal; it is public.
        """
        asked, answer = self._paths(job_id)
        answer.unlink(missing_ok=True)
        _write(asked, question)
        try:
            while not answer.exists():  # noqa: ASYNC110 - another process makes the file
                await asyncio.sleep(POLL_S)
            said = json.loads(answer.read_text(encoding="utf-8"))
            return None if said["approved"] is True else str(said["reason"])
        finally:
            asked.unlink(missing_ok=True)
            answer.unlink(missing_ok=True)

    def waiting(self) -> list[dict[str, Any]]:
        """Return the questions that wait, by job id."""
        return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(self._folder.glob("*.json"))]

    def question(self, job_id: str) -> dict[str, Any]:
        """Return the question about one job.

        Raises:
            ConsentError: it does not wait.
        """
        asked, _ = self._paths(job_id)
        try:
            found: dict[str, Any] = json.loads(asked.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise ConsentError(f"there is no job {job_id} that waits for approval") from error
        return found

    def answer(self, job_id: str, refusal: str | None) -> None:
        """Approve a job, or refuse it with a reason that the analyst sees.

        Raises:
            ConsentError: no such job waits.
        """
        self.question(job_id)
        _, answer = self._paths(job_id)
        _write(answer, {"approved": refusal is None, "reason": refusal or ""})

    def clear(self) -> None:
        """Delete all questions and answers, which were left by a service that has stopped."""
        for path in (*self._folder.glob("*.json"), *self._folder.glob("*.answer")):
            path.unlink(missing_ok=True)

    def _paths(self, job_id: str) -> tuple[Path, Path]:
        if not is_job_id(job_id):
            raise ConsentError("a job id must consist of letters, digits, '_' and '-'")
        return self._folder / f"{job_id}.json", self._folder / f"{job_id}.answer"


def _write(path: Path, content: Mapping[str, Any]) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, unfinished = tempfile.mkstemp(dir=path.parent, prefix=".unfinished-")  # mode 0600
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(json.dumps(content, indent=2, allow_nan=False) + "\n")
    Path(unfinished).replace(path)
