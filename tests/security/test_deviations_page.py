"""The table of docs/threat-model.md, deviation by deviation: each cell names a test; tests that it alone needs."""

import json
import re
from functools import cache, partial
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from deviations import CASES, plan_of, run_once, with_another_row
from lying_dealers import with_another_residue

from analyses.job.job import Job, JobError
from analyses.job.norm_bounds import projections_of
from analyses.registry import analysis_of
from analyses.run_locally import local_network, run_plan
from analyst.question import PCA
from dp.cost.composition import composed_epsilon
from dp.cost.views import RECORD
from entropy import InsecureTestEntropy
from mpc.arithmetic.field import ResidueField
from mpc.local.network import Message
from mpc.proofs.norm_bound import LEAST_MASK, MOST_MASK, NormBound
from mpc.proofs.norm_proof import PROJECTIONS_STAGE
from mpc.protocol.session import COORDINATOR
from party.gate import COMMIT_STAGE, GatedSession

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "threat-model.md"


@cache
def names_in_the_suite():
    text = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    return set(re.findall(r"def (test_\w+)", text))


def rows_of_the_page(heading):
    section = PAGE.read_text().partition(f"### {heading}\n")[2].partition("\n#")[0]
    return [line.split(" | ") for line in section.splitlines() if line.startswith("| ") and "---" not in line][1:]


ROWS, OF_BATCHES = map(rows_of_the_page, ("Deviation by deviation", "Devices and parties of a batch with proofs"))


def test_there_are_tables():
    assert (len(ROWS), len(OF_BATCHES)) >= (14, 11)


@pytest.mark.parametrize("row", OF_BATCHES, ids=[row[0].removeprefix("| ") for row in OF_BATCHES])
def test_each_deviation_in_a_batch_names_a_test(row):
    _, _, what_happens = row
    (named,) = re.findall(r"`(test_\w+)`", what_happens)
    assert named in names_in_the_suite()


@pytest.mark.parametrize("row", ROWS, ids=[row[0].removeprefix("| ") for row in ROWS])
def test_each_cell_names_a_test(row):
    _, _, *modes = row
    assert len(modes) == 2
    for cell in modes:
        (named,) = re.findall(r"`(test_\w+)`", cell)
        assert named in names_in_the_suite()


CASE = CASES["principal components"]


async def transcript_of(security, fault=None, gated=False):
    tables = CASE.tables()
    plan = plan_of(CASE, tables, security=security)
    options = {"fault": fault} if fault else {}
    network = local_network(plan, entropy_of=lambda m: InsecureTestEntropy(f"page {m}"), **options)
    return await run_plan(plan, tables, network), plan


async def test_the_page_names_what_semi_honest_jobs_open_of_proofs():
    """Nothing: no stage of a proof is in their transcript, and all are in the other's."""
    for security, has_proofs in (("semi-honest", False), ("malicious", True)):
        ended, _ = await transcript_of(security)
        stages = {message.stage for message in ended.network.transcript}
        for stage in (PROJECTIONS_STAGE, "norms/coin seeds", "norms/proof opened"):
            assert (stage in stages) == has_proofs


def test_the_mode_is_part_of_what_parties_compare():
    one, other = (plan_of(CASE, CASE.tables(), security=security) for security in ("semi-honest", "malicious"))
    assert one.digest() != other.digest()
    assert "security" not in one.canonical_json()


async def test_projections_wait_for_the_commit_of_all_owners():
    tables = CASE.tables()
    plan = plan_of(CASE, tables, security="malicious")
    committed, sent = [], []

    def noted(message: Message):
        if message.stage == PROJECTIONS_STAGE:
            sent.append(len(set(committed)))
        return (message,)

    network = local_network(plan, entropy_of=lambda m: InsecureTestEntropy(f"gate {m}"), fault=noted)

    def part(member):
        async def run(session):
            gated = GatedSession.of_plan(session, plan, commit=lambda: committed.append(member))
            table = tables.get(plan.job.members[member - 1])
            report = await analysis_of(plan.job).party(gated, plan, table)
            await gated.open()
            return report

        return run

    parts = {member: part(member) for member in network.names if member != COORDINATOR}
    ended = await run_plan(plan, tables, network, parts=parts)
    assert not ended.failures
    assert any(message.stage == COMMIT_STAGE for message in network.transcript)
    assert sent
    assert min(sent) >= len(plan.owners)


async def test_a_wrong_share_at_the_opening_shifts_the_answer_by_a_constant():
    """The constant follows from the lie alone, whatever the tables hold."""

    def shifted(message: Message):
        if message.stage != "opening" or message.sender != 1:
            return (message,)
        return (message.altered(with_another_residue(message.array)),)

    constants = []
    for tables in (CASE.tables(), with_another_row(CASE.tables(), CASE)):
        plan = plan_of(CASE, tables)
        honest = await run_once(plan, tables)
        with mock.patch("deviations.local_network", partial(local_network, fault=shifted)):
            lied = await run_once(plan, tables)
        assert lied.error is None
        constants.append((lied.opened - honest.opened) % ResidueField(plan.n_primes).order)
    assert constants[0].any()
    assert np.array_equal(*constants)


def test_what_projections_cost_is_what_the_page_says():
    text = (ROOT / "docs" / "protocols" / "malicious.md").read_text()
    said = re.search(
        r"rows of 34 columns cost ([\d.]+) of zCDP with the smallest masks, and ([\d.e-]+) with the largest", text
    )
    for mask, written in zip((LEAST_MASK, MOST_MASK), said.groups(), strict=True):
        (event,) = projections_of(NormBound(34, 1 << 26, 10_000, mask), RECORD).events("coalition")
        assert float(event.squares) / 2 == pytest.approx(float(written), rel=0.06)


def test_projections_beside_a_matrix_cost_hardly_any_noise():
    """Both are charged as Gaussian releases: before, Renyi curves cost 8 % of the deviation, 16 % of the variance."""
    trusted, proven = (plan_of(CASE, CASE.tables(), security=security) for security in ("semi-honest", "malicious"))
    assert 1 < proven.party_mu / trusted.party_mu < 1.004
    bound = composed_epsilon(proven.privacy_events("coalition"), proven.job.privacy.delta)
    assert bound.order is None
    assert bound.epsilon <= proven.job.privacy.epsilon


@pytest.mark.parametrize("case", ["principal components", "logistic regression by gradients, order 1"])
def test_proofs_of_noise_take_their_part_of_delta(case):
    """2^-40 for each party and release; the epsilon that is stated is that of the delta which is left."""
    tables = CASES[case].tables()
    trusted, proven = (plan_of(CASES[case], tables, security=security) for security in ("semi-honest", "malicious"))
    n_steps = proven.sampling.n_steps if case.startswith("logistic") else 1
    report, besides = proven.privacy_report(), n_steps * proven.n_parties * 2.0**-40
    assert n_steps > 1 or case == CASE.name
    assert report["delta_of_noise_proofs"] == besides
    assert "delta_of_noise_proofs" not in trusted.privacy_report()
    assert proven.delta_of_releases == proven.job.privacy.delta - besides
    for view, stated in report["views"].items():
        assert stated["epsilon"] == composed_epsilon(proven.privacy_events(view), proven.delta_of_releases).epsilon
    assert report["views"][proven.job.privacy.view]["epsilon"] <= proven.job.privacy.epsilon
    asked = json.loads(proven.job.canonical_json())
    job = Job.model_validate(asked | {"privacy": asked["privacy"] | {"delta": besides}})
    with pytest.raises(JobError, match="that proofs take of it"):
        analysis_of(job).plan(job, proven.schemas)


def test_a_question_in_python_and_a_job_file_ask_for_the_mode_alike():
    asked = PCA({"bank": "people", "telco": "people"}, epsilon=1.0, delta=1e-6, components=1, security="malicious")
    assert asked.job.is_malicious
    written = Job.from_toml('analysis = "pca"\nsecurity = "malicious"\n[[inputs]]\nparty = "bank"\ntable = "people"\n')
    assert written.is_malicious
    assert "security" not in PCA({"bank": "people"}, epsilon=1.0, delta=1e-6, components=1).job.canonical_json()
