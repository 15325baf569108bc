"""Every example job, and each choice of method beside them, over gRPC and in one process: with the same entropy the
same result, bit for bit. Methods of pattern counts and moments, ways to count memberships, and settings of matrix
factorization are compared in `test_counting_methods`, `test_countings` and `test_factor_job`.
"""

import re
import tomllib
from pathlib import Path

import pytest
import pytest_asyncio
from both_ways import in_one_process, over_sessions
from mailbox_federation import running_federation

from analyses.job.declared_rows import JointRowsParams
from analyses.job.job import Job
from analyses.registry import ANALYSES
from demo.data_sets import ages, kdd
from demo.data_sets.ages import write_age_parties
from demo.data_sets.kdd import write_kdd_parties
from demo.job import DATA_SETS, example_job

EXAMPLES = Path(__file__).parents[2] / "examples"
JOBS = {path.stem: text for path in sorted(EXAMPLES.glob("*.toml")) if "[[inputs]]" in (text := path.read_text())}
WITH_DATA = [name for name, text in JOBS.items() if Job.from_toml(text).inputs[0].table in DATA_SETS]
"""Those whose tables demos have. People by bins have tables of different people: `test_matched_jobs`."""
ROWS = 600

FEW = {"k": 3, "k_local": 2}
SKETCHED = {"counting": "fm-sketch"}
OPTIONS = {"accept_no_protection_against_parties": True, "sketches": 256}
STEPS = {"method": "gradient", "iterations": 4, "sampling_rate": 0.2, "most_participations": 4}
VARIANTS = {
    "low-rank, sketch": ("low-rank", {"method": "sketch"}),
    "low-rank, sketch of signs": ("low-rank", {"method": "sketch", "sketch_entries": "signs"}),
    "least-squares, sketch": ("least-squares", {"method": "sketch"}),
    "logistic-regression, order 3": ("logistic-regression", {**STEPS, "order": 3, "weight_norm": 3.0}),
    "logistic-regression, three sums": ("logistic-regression", {**STEPS, "release": "three-sums"}),
    "logistic-regression, sgd": ("logistic-regression", {**STEPS, "optimiser": "sgd"}),
    "distribution, masked": ("distribution", {"method": "masked"}),
    "distribution, triangle": ("distribution", {"method": "triangle"}),
    "distribution, finer grid": ("distribution", {"fine": 320, "buckets": 80}),
    "distribution, bins": ("distribution", {"method": "bins", "bins": 16}),
    "distribution, tree": ("distribution", {"method": "tree", "estimate": "admm"}),
    "distribution, piecewise": ("distribution", {"method": "piecewise", "estimate": "em"}),
    "distribution, sign": ("distribution", {"method": "sign", "queries": []}),
    "distribution, prefixes": ("distribution", {"method": "prefixes", "queries": []}),
    "distribution, haar": ("distribution", {"method": "haar"}),
    "clustering, joint cells": ("clustering", {**FEW, "counting_options": {"cells": "joint"}}),
    "clustering, k-median": ("clustering", {**FEW, "p": 1}),
    "clustering, lloyd": ("clustering", {**FEW, "local_method": "lloyd"}),
    "clustering, 2pest": ("clustering", {**FEW, **SKETCHED, "counting_options": {**OPTIONS, "estimator": "2pest"}}),
    "clustering, basic": ("clustering", {**FEW, **SKETCHED, "counting_options": {**OPTIONS, "estimator": "basic"}}),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Return name of a table to the parties that an example about it runs with."""
    return {name: write(tmp_path_factory.mktemp("tables"), rows=ROWS) for name, (_, write) in DATA_SETS.items()}


def test_there_is_an_example_of_every_analysis():
    assert {tomllib.loads(text)["analysis"] for text in JOBS.values()} == set(ANALYSES)


@pytest.fixture(scope="module")
def small_data(tmp_path_factory):
    connections = write_kdd_parties(tmp_path_factory.mktemp("small"), rows=200, most_rows=250)
    return {
        kdd.TABLE_NAME: connections,
        ages.TABLE_NAME: write_age_parties(tmp_path_factory.mktemp("ages"), rows=200),
    }


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def federation(tmp_path_factory):
    """A federation of three parties; each test opens its own job."""
    async with running_federation(tmp_path_factory.mktemp("federation"), 3) as running:
        yield running


async def assert_same_result(federation, name, job, data):
    job_id = re.sub(r"[^A-Za-z0-9]+", "-", name)
    data = data[job.inputs[0].table]
    wanted = {i.party: i.columns or list(data.tables[i.party].usual_bounds) for i in job.inputs}
    tables = data.in_memory(wanted)
    federation.open_job(job_id)
    over_grpc = await over_sessions(job, tables, lambda number: federation.session(number, deadline_s=60.0))
    assert await in_one_process(job, tables, federation.names, job_id) == over_grpc


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", WITH_DATA)
async def test_services_and_one_process_find_the_same(name, data, federation):
    await assert_same_result(federation, f"example {name}", Job.from_toml(JOBS[name]), data)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", VARIANTS)
async def test_so_they_do_with_every_choice_that_an_example_leaves_out(name, small_data, federation):
    example, parameters = VARIANTS[name]
    budget = {"privacy.epsilon": 1e4, "privacy.view": "coordinator", "parameters.max_rows": 250}
    if not issubclass(ANALYSES[example_job(example).analysis].parameters, JointRowsParams):
        budget = {}
    job = example_job(example, budget | {f"parameters.{key}": value for key, value in parameters.items()})
    await assert_same_result(federation, name, job, small_data)
