"""How many parties of a job may drop out or send corrupted shares, known before anything runs."""

from analyses.job.job import Job
from analyses.job.plan import check_roster
from analyses.job.survival import Survival


def survival_of(job: Job) -> Survival:
    """Return the table of a job.

    Raises:
        JobError: there is no such analysis, or the roster cannot compute a product in secret.
    """
    from analyses.registry import analysis_of

    check_roster(job)
    return analysis_of(job).survival(job)
