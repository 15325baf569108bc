import pytest
from job_builders import PARTIES, make_job

from analyses.job.distance import MIB, Work
from analyses.job.schema import BlockSchema, ColumnSchema
from analyses.registry import analysis_of
from party.consent import RefusalError
from party.limits import check_memory


def work_of(plan, **options):
    return analysis_of(plan.job).work(plan, **options)


def planned(n_columns, rows=(10, 2110), **fields):
    columns = tuple(ColumnSchema(name=f"x{i}", lower=0, upper=1) for i in range(n_columns // 3))
    schemas = [BlockSchema(party=party, columns=columns, rows=rows) for party in PARTIES]
    job = make_job(**{"parameters": {"components": 1, "max_rows": 4096}, "anyway": True, "order": "trusted"} | fields)
    return analysis_of(job).plan(job, schemas)


def test_memory_of_a_wide_job_is_about_what_was_measured():
    """`python -m bench.jobs.work`, 2,110 x 3,703: 516 to 535 MB of a party, 576 MB of the coordinator."""
    work = work_of(planned(3702))
    assert work.party_bytes == pytest.approx(535e6, rel=0.2)
    assert work.coordinator_bytes == pytest.approx(576e6, rel=0.2)


def test_memory_grows_with_rows_to_a_few_blocks_and_with_the_table_beyond():
    parameters = {"components": 1, "max_rows": 10**6}
    few, many = (work_of(planned(300, (10, rows), parameters=parameters)) for rows in (20_000, 100_000))
    assert many.party_bytes - few.party_bytes == 8 * 101 * 80_000  # the last owner brings the constant besides


def test_processor_time_is_said_where_this_machine_is_measured():
    plan = planned(30)
    assert work_of(plan).party_s is None
    work = work_of(plan, measured=True)
    assert 0.045 < work.party_s < 5
    assert 0.08 < work.coordinator_s < 5
    assert "processor seconds on a machine like this one" in work.lines()[0]


def test_what_is_not_forecast_is_said_to_be_so():
    assert Work(10, MIB).lines() == [
        "a party takes 1 MiB of memory with 10 rows, the most that are declared",
        "the coordinator takes what is not forecast",
    ]


class Config:
    name, job_memory_mib = "bank", None


def test_a_party_refuses_what_takes_more_memory_than_it_may():
    plan, config = planned(300), Config()
    check_memory(plan, config)
    config.job_memory_mib = 5
    with pytest.raises(RefusalError, match=r"about \d+ MiB of memory for 300 columns, and may take 5 MiB"):
        check_memory(plan, config)


def test_what_a_coordinator_takes_is_said_for_the_other_analyses_of_second_moments_too():
    parameters = {"label": "bank.x0", "max_rows": 4096}
    work = work_of(planned(1500, analysis="least-squares", parameters=parameters))
    assert work.coordinator_bytes == pytest.approx(226e6, rel=0.2)  # `bench.jobs.work --analysis second-moments`
