"""A job of each analysis whose parties only dial out; quick: `test_relayed_federation`."""

import pytest
from federation import Analyst, jobs_paid, result_of
from forked_services import ForkedDeployment
from registry_jobs import OWNERS, VARIANTS
from registry_tables import tables_of_jobs

from analyses.registry import ANALYSES

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("relayed")
    (folder / "run").mkdir()
    with ForkedDeployment(folder / "run", tables_of_jobs(folder, ANALYSES), dial_out=OWNERS) as running:
        yield running


@pytest.mark.parametrize("name", ANALYSES)
def test_a_job_by_the_relay_gives_its_result_and_is_paid_once(deployment, name):
    before = jobs_paid(deployment, OWNERS)
    assert result_of(Analyst(deployment).run(VARIANTS[name].job(compute=())))
    assert jobs_paid(deployment, OWNERS) == {owner: paid + 1 for owner, paid in before.items()}
