"""The analyses on offer, by name."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from algorithms import clustering, least_squares, logistic_regression, low_rank, moments, pattern_count, pca, table_sum
from algorithms.clustering_plan import ClusteringParams
from algorithms.declared_rows import MOST_ROWS, JointRowsParams
from algorithms.job import Job, JobError, PublicModel, explain
from algorithms.logistic_plan import LogisticRegressionParams
from algorithms.moment_plan import MomentsParams
from algorithms.plan import Plan
from algorithms.schema import BlockSchema, LocalReport, Table
from mpc.session import Session


@dataclass(frozen=True)
class Analysis:
    """What each participant does for one analysis; see `algorithms.pca` for the meaning of each part.

    Attributes:
        parameters: what a job's parameters must be, apart from what follows from owners' tables.
        may_be_exact: whether a job may leave out its privacy target and get an answer without noise.
    """

    plan: Callable[[Job, Sequence[BlockSchema]], Plan]
    party: Callable[[Session, Any, Table | None], Awaitable[LocalReport]]
    coordinator: Callable[[Session, Any], Awaitable[dict[str, Any]]]
    parameters: type[PublicModel]
    may_be_exact: bool = False


ANALYSES = {
    "clustering": Analysis(clustering.plan, clustering.party, clustering.coordinator, ClusteringParams),
    "least-squares": Analysis(
        least_squares.plan, least_squares.party, least_squares.coordinator, least_squares.LeastSquaresParams
    ),
    "logistic-regression": Analysis(
        logistic_regression.plan,
        logistic_regression.party,
        logistic_regression.coordinator,
        LogisticRegressionParams,
    ),
    "low-rank": Analysis(low_rank.plan, low_rank.party, low_rank.coordinator, low_rank.LowRankParams),
    "moments": Analysis(moments.plan, moments.party, moments.coordinator, MomentsParams),
    "pattern-count": Analysis(
        pattern_count.plan, pattern_count.party, pattern_count.coordinator, pattern_count.PatternCountParams
    ),
    "pca": Analysis(pca.plan, pca.party, pca.coordinator, pca.PcaParams),
    **dict.fromkeys(
        table_sum.ANALYSES,
        Analysis(table_sum.plan, table_sum.party, table_sum.coordinator, table_sum.TableSumParams, may_be_exact=True),
    ),
}


def analysis_of(job: Job) -> Analysis:
    """Return the analysis that a job names.

    Raises:
        JobError: there is none of this name, or its answer is noisy and the job has no privacy target.
    """
    if job.analysis not in ANALYSES:
        raise JobError(f"analysis: unknown analysis {job.analysis!r}; on offer: {', '.join(sorted(ANALYSES))}")
    analysis = ANALYSES[job.analysis]
    if job.target is None and not analysis.may_be_exact:
        raise JobError(f"privacy: missing; the answer of {job.analysis} is noisy, so say epsilon and delta")
    return analysis


def check_parameters(job: Job) -> None:
    """Refuse what no tables could make right: an unknown analysis, a parameter that is unknown or out of range.

    Raises:
        JobError: names each field.
    """
    model = analysis_of(job).parameters
    unstated = {"max_rows": MOST_ROWS} if issubclass(model, JointRowsParams) else {}
    try:
        model.model_validate(unstated | job.parameters)
    except ValidationError as error:
        raise JobError("\n".join(f"parameters.{line}" for line in explain(error).splitlines())) from error
