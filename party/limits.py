"""Limits of a party: which jobs take more memory than it has, by what their plans forecast, and which are too short."""

import os

from analyses.job.distance import MIB
from analyses.job.plan import Plan
from analyses.registry import analysis_of
from party.config import PartyConfig
from party.consent import RefusalError


class MemoryRefusalError(RefusalError):
    """The job would take more memory than this party's machine has, or than its owner allows."""

    code = "job-too-large"


class DeadlineRefusalError(RefusalError):
    """The job's deadline is shorter than the owner allows."""

    code = "deadline-too-short"


def check_memory(plan: Plan, config: PartyConfig) -> None:
    """Refuse what would take too much memory. It follows from public facts alone, so it tells nothing of a table.

    Raises:
        MemoryRefusalError: says how much it would take, how much it may, and what helps.
    """
    work, allowed = analysis_of(plan.job).work(plan), config.job_memory_mib or machine_mib()
    if work is not None and work.party_bytes > allowed * MIB:
        raise MemoryRefusalError(
            f"inputs: {config.name} would take about {work.party_bytes // MIB:,} MiB of memory for "
            f"{len(plan.column_names):,} columns, and may take {allowed:,} MiB (job_memory_mib): name fewer columns"
        )


def machine_mib() -> int:
    """Return the memory of this machine in MiB."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // MIB
