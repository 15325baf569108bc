"""What all participants of a logistic regression agree on, by either method."""

from collections.abc import Sequence

from analyses.job.declared_rows import parameters_of
from analyses.job.job import Job
from analyses.job.plan import check_roster, check_schemas
from analyses.job.schema import BlockSchema
from analyses.logistic_regression.gradient_plan import GradientPlan, plan_gradients
from analyses.logistic_regression.moments_plan import LabelledMomentsPlan, plan_labelled_moments
from analyses.logistic_regression.parameters import LogisticRegressionParams

LogisticRegressionPlan = GradientPlan | LabelledMomentsPlan


def plan(job: Job, schemas: Sequence[BlockSchema]) -> LogisticRegressionPlan:
    """Fix everything public for the method that the job names.

    Raises:
        JobError: names the field of the job that cannot be met.
    """
    check_roster(job)
    check_schemas(job, tuple(schemas))
    params = parameters_of(job, schemas, LogisticRegressionParams)
    if params.method == "gradient":
        return plan_gradients(job, schemas, params)
    return plan_labelled_moments(job, schemas, params)
