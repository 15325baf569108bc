"""Until when a question to devices may be open, where an analyst says so."""

import datetime

from analyses.job.job import JobError

MOST_OPEN_DAYS = 366
"""Largest number of days for which a survey or a batch is open. Its places are taken for as long."""

DAY_S = 86_400.0


def check_open_until(until: datetime.datetime, now_s: float, *, most_days: float = MOST_OPEN_DAYS) -> None:
    """Refuse an end that is past, or far ahead.

    Args:
        until: when the question is closed.
        now_s: the present, Unix time in seconds.
        most_days: the largest number of days until then.

    Raises:
        JobError: the text names the field.
    """
    left_s = until.timestamp() - now_s
    if left_s <= 0:
        raise JobError("until: the question would be closed before it is open")
    if left_s > most_days * DAY_S:
        raise JobError(f"until: a question is open for {most_days:g} days at most; choose an earlier end")
