"""The rule for ids of jobs and masked sums, checked at the border of every service and of every client.

An id becomes part of file names (reports, questions to the owner), of ledger entries, of log lines and of the labels
under which keys are derived, so it holds nothing that any of these would read otherwise.
"""

import re

from service.errors import InvalidRequestError

_JOB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")


def is_job_id(text: str) -> bool:
    """Return whether a text may name a job."""
    return _JOB_ID.fullmatch(text) is not None


def check_job_id(text: str) -> str:
    """Return an id that came from outside, or refuse it.

    Raises:
        InvalidRequestError: it is not made of 1 to 128 letters, digits, '_' and '-', the first a letter or a digit.
    """
    if not is_job_id(text):
        raise InvalidRequestError(
            "a job id must consist of 1 to 128 letters, digits, '_' and '-', and must begin with a letter or a digit"
        )
    return text
