"""The results of each analysis on offer, found by the name of the analysis."""

from collections.abc import Mapping
from typing import Any

from analyses.job.job import Job
from results.drawing.chart import Picture, PictureError
from results.generic.result import Result
from results.kinds.circuit import CircuitResult
from results.kinds.clustering import ClusteringResult
from results.kinds.cross_table import CrossTableResult
from results.kinds.distribution import DistributionResult
from results.kinds.joint_sums import JointCountResult, JointSumResult
from results.kinds.least_squares import LeastSquaresResult
from results.kinds.logistic_regression import LogisticRegressionResult
from results.kinds.low_rank import LowRankResult
from results.kinds.matrix_factorization import MatrixFactorizationResult
from results.kinds.moments import MomentsResult
from results.kinds.pattern_count import PatternCountResult
from results.kinds.pca import PcaResult
from results.kinds.second_moments import SecondMomentsResult
from results.kinds.sums import HistogramResult, MeanResult, SumResult

KINDS: tuple[type[Result], ...] = (
    CircuitResult,
    ClusteringResult,
    CrossTableResult,
    DistributionResult,
    HistogramResult,
    JointCountResult,
    JointSumResult,
    LeastSquaresResult,
    LogisticRegressionResult,
    LowRankResult,
    MatrixFactorizationResult,
    MeanResult,
    MomentsResult,
    PatternCountResult,
    PcaResult,
    SecondMomentsResult,
    SumResult,
)

RESULTS: dict[str, type[Result]] = {name: kind for kind in KINDS for name in kind.analyses}
"""Name of an analysis to the class of its results; results of analyses that are not here are plain `Result`s."""


def result_of(job: Job, fields: Mapping[str, Any], plan: Mapping[str, Any] | None = None, job_id: str = "") -> Result:
    """Return what a job has found as an object; arguments as of `Result`."""
    return RESULTS.get(job.analysis, Result)(job, fields, plan, job_id)


def lines_of(name: str, fields: Mapping[str, Any]) -> list[str]:
    """Return a result of the analysis of a name as lines of text, with what it costs."""
    return RESULTS.get(name, Result).lines_of(fields)


def device_text(answer: Mapping[str, Any]) -> str:
    """Return an answer of many devices as text, with what it costs whom."""
    return "\n".join(RESULTS.get(str(answer.get("analysis")), Result).device_lines_of(answer))


def picture_of(fields: Mapping[str, Any], heading: str = "") -> Picture:
    """Return what is to be seen of a result of any analysis.

    Args:
        fields: result as the coordinator sent it.
        heading: to stand above it, such as the title of the job.

    Raises:
        PictureError: its analysis has no picture or is not known, or the result has nothing to draw.
    """
    name = str(fields.get("analysis"))
    if name not in RESULTS:
        raise PictureError(f"there is no analysis {name!r} here, so its result cannot be drawn")
    return RESULTS[name].picture_of(fields, heading)
