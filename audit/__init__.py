"""The targets of `moiety audit`: one with an exact claim for each mechanism, whole jobs, published faults.

`table` lists the mechanisms and `whole_jobs.jobs` the jobs; other modules make them, one kind of release each. Noise is
drawn by the functions that jobs call. `less_noise` makes the same mechanism with less noise, which the audit must
catch. `whole_jobs.replay` runs jobs with their randomness fixed, for the audits of jobs and for tests.
"""

from audit.entry import Entry, Published
from audit.table import PUBLISHED, TARGETS
from audit.whole_jobs.jobs import JOBS, JobEntry

__all__ = ["JOBS", "PUBLISHED", "TARGETS", "Entry", "JobEntry", "Published"]
