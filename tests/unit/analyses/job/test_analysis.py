"""The value of an analysis: what it refuses on behalf of all analyses."""

from dataclasses import replace

import pytest
from registry_jobs import VARIANTS

from analyses.job.job import JobError
from analyses.registry import OFFERED
from dp.cost.views import PERSON, UNIT


class PlanOf:
    """All that the check of a plan reads."""

    def __init__(self, privacy_unit):
        self.privacy_unit = privacy_unit


def job_about(unit):
    variant = VARIANTS["pca"]
    return variant.job(parameters={**variant.parameters, "unit": unit})


@pytest.mark.parametrize("offered", OFFERED, ids=lambda analysis: analysis.names[0])
def test_no_analysis_plans_a_job_about_persons_that_protects_records(offered):
    analysis = replace(offered, own_plan=lambda job, schemas: PlanOf(UNIT))
    with pytest.raises(
        JobError,
        match=r"^parameters.unit: pca cannot protect persons; the privacy unit of its plan is 'record of the joint",
    ):
        analysis.plan(job_about("person"), ())


def test_plans_that_protect_what_the_job_asks_for_pass():
    for asked, protected in (("person", PERSON), ("record", UNIT)):
        made = PlanOf(protected)
        analysis = replace(OFFERED[0], own_plan=lambda job, schemas, made=made: made, signal=lambda plan: None)
        assert analysis.plan(job_about(asked), ()) is made
