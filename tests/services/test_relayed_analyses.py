"""A job of each analysis, and of each way to run it, whose parties only dial out; quick: `test_relayed_federation`."""

from dataclasses import replace

import pytest
from federation import Analyst, jobs_paid, result_of
from forked_services import ForkedDeployment
from registry_jobs import OWNERS, VARIANTS
from registry_tables import tables_of_jobs

from analyses.registry import ANALYSES

pytestmark = pytest.mark.slow


EVENTS = "moments, threshold"
"""It protects events, so it asks for a table with a budget of that unit."""


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("relayed")
    (folder / "run").mkdir()
    tables = tables_of_jobs(folder, [name for name in VARIANTS if name != EVENTS])
    for owner, (people,) in tables_of_jobs(folder, [EVENTS]).items():
        tables[owner].append(replace(people, name="events"))
    with ForkedDeployment(folder / "run", tables, dial_out=OWNERS) as running:
        yield running


def test_every_analysis_has_a_job_here():
    assert {variant.analysis for variant in VARIANTS.values()} == set(ANALYSES)


@pytest.mark.parametrize("name", VARIANTS)
def test_a_job_by_the_relay_gives_its_result_and_is_paid_once(deployment, name):
    before = jobs_paid(deployment, OWNERS)
    variant = replace(VARIANTS[name], table="events") if name == EVENTS else VARIANTS[name]
    assert result_of(Analyst(deployment).run(variant.job(compute=())))
    assert jobs_paid(deployment, OWNERS) == {owner: paid + 1 for owner, paid in before.items()}
