"""Limits of a party: which jobs take more memory than it has, by what their plans forecast, and which are too short."""

from analyses.job import distance
from analyses.job.plan import Plan
from analyses.registry import analysis_of
from party.config import PartyConfig
from party.consent import RefusalError
from service.codes.coded_text import told


class DeadlineRefusalError(RefusalError):
    """The job's deadline is shorter than the owner allows."""

    code = "deadline-too-short"


def check_memory(plan: Plan, config: PartyConfig) -> None:
    """Refuse a job that would take more memory of this party than its owner allows.

    Raises:
        RefusalError: says how much the job would take, how much it may, and what helps.
    """
    work = analysis_of(plan.job).work(plan)
    try:
        distance.check_memory(
            config.name, None if work is None else work.party_bytes, config.job_memory_mib, len(plan.column_names)
        )
    except distance.JobTooLargeError as error:
        raise RefusalError(told(error)) from error
