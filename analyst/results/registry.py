"""The class of each analysis' results. It names the analyses itself: nothing here tells them apart."""

from analyst.results.clusters import ClusteringResult
from analyst.results.components import ComponentsResult
from analyst.results.counts import (
    DistributionResult,
    HistogramResult,
    MeanResult,
    MomentsResult,
    PatternCountResult,
    SumResult,
)
from analyst.results.factors import MatrixFactorizationResult
from analyst.results.linear import LeastSquaresResult, LogisticRegressionResult
from analyst.results.result import Result
from transport.calls.coordinator_client import JobView

KINDS: tuple[type[Result], ...] = (
    ClusteringResult,
    ComponentsResult,
    DistributionResult,
    HistogramResult,
    LeastSquaresResult,
    LogisticRegressionResult,
    MatrixFactorizationResult,
    MeanResult,
    MomentsResult,
    PatternCountResult,
    SumResult,
)

RESULTS: dict[str, type[Result]] = {name: kind for kind in KINDS for name in kind.analyses}
"""Name of an analysis to the class; results of analyses that are not here are plain `Result`s."""


def result_of(view: JobView) -> Result:
    """Return the result of a job that is DONE.

    Raises:
        ValueError: it has no result.
    """
    return RESULTS.get(view.analysis, Result)(view)
