"""The analyses on offer, and how to find one by its name."""

from analyses.circuit import protocol as circuit
from analyses.clustering import protocol as clustering
from analyses.distribution import protocol as distribution
from analyses.job.analysis import Analysis
from analyses.job.job import Job, JobError
from analyses.job.plan import check_roster
from analyses.job.survival import Survival
from analyses.joint_sums import protocol as joint_sums
from analyses.kept_moments import protocol as kept_moments
from analyses.least_squares import protocol as least_squares
from analyses.logistic_regression import protocol as logistic_regression
from analyses.low_rank import protocol as low_rank
from analyses.matrix_factorization import protocol as matrix_factorization
from analyses.pattern_count import protocol as pattern_count
from analyses.pca import protocol as pca
from analyses.power_moments import protocol as moments
from analyses.sums import protocol as sums

OFFERED = (
    circuit.ANALYSIS,
    clustering.ANALYSIS,
    distribution.ANALYSIS,
    joint_sums.ANALYSIS,
    kept_moments.ANALYSIS,
    least_squares.ANALYSIS,
    logistic_regression.ANALYSIS,
    low_rank.ANALYSIS,
    matrix_factorization.ANALYSIS,
    moments.ANALYSIS,
    pattern_count.ANALYSIS,
    pca.ANALYSIS,
    sums.ANALYSIS,
)

ANALYSES: dict[str, Analysis] = {name: analysis for analysis in OFFERED for name in analysis.names}
"""All analyses by name."""


def analysis_of(job: Job) -> Analysis:
    """Return the analysis that a job names.

    Raises:
        JobError: there is none of this name, or its answer is noisy and the job has no privacy target.
    """
    if job.analysis not in ANALYSES:
        raise JobError(f"analysis: there is no analysis {job.analysis!r}; available: {', '.join(sorted(ANALYSES))}")
    analysis = ANALYSES[job.analysis]
    if job.target is None and not analysis.may_be_exact:
        raise JobError(f"privacy: missing; the answer of {job.analysis} is noisy, so it needs epsilon and delta")
    return analysis


def survival_of(job: Job) -> Survival:
    """Return how many parties of a job may drop out or send corrupted shares, known before anything runs.

    Raises:
        JobError: there is no such analysis, or the roster cannot compute a product in secret.
    """
    analysis = analysis_of(job)
    check_roster(job, analysis.fewest_parties)
    return analysis.survival(job)
