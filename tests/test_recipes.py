"""The recipes: each is short, its code is that of an example, and the example works."""

import re
import runpy
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from analyses.job.job import Job, JobError
from analyses.job.plan import OPENING_STAGE
from analyses.job.releases import PlannedRelease
from analyses.job.row_ids import Persons, digest_of_ids
from analyses.job.schema import Table
from analyses.registry import ANALYSES, analysis_of, survival_of
from analyses.run_locally import local_network, run_locally, run_plan
from bench.protocols.flights import count
from dp.cost.composition import composed_epsilon
from dp.cost.views import PERSON, RECORD, VIEWS
from entropy import InsecureTestEntropy
from mpc.errors import LocalFaultError
from mpc.protocol.session import COORDINATOR
from party.drawn import DrawnNoise
from party.gate import GatedSession
from results.registry import lines_of

REPOSITORY = Path(__file__).parent.parent
RECIPES = (REPOSITORY / "docs" / "recipes.md").read_text(encoding="utf-8")
ANALYSIS_PATH = REPOSITORY / "examples" / "analysis.py"
MECHANISM_PATH = REPOSITORY / "examples" / "mechanism.py"

SECTIONS = re.split(r"^## ", RECIPES, flags=re.MULTILINE)[1:]
SHOWING = [section for section in SECTIONS if section.startswith("How")]
"""The sections that show code."""

MAX_LINES = 40


@pytest.fixture
def toy(monkeypatch):
    """The analysis of the recipe, registered as the recipe says."""
    found = runpy.run_path(str(ANALYSIS_PATH))
    analysis = found["ANALYSIS"]
    for name in analysis.names:
        monkeypatch.setitem(ANALYSES, name, analysis)
    return found


def test_each_recipe_is_short():
    assert SECTIONS
    assert [section.splitlines()[0] for section in SECTIONS if len(section.splitlines()) > MAX_LINES] == []


@pytest.mark.parametrize("section", SHOWING, ids=[section.splitlines()[0] for section in SHOWING])
def test_the_code_in_a_recipe_is_that_of_the_example_that_it_links_or_of_a_test(section):
    blocks = re.findall(r"^( *)```python\n(.*?)^ *```", section, flags=re.MULTILINE | re.DOTALL)
    shown = [REPOSITORY / "examples" / name for name in re.findall(r"\]\(\.\./examples/(\w+\.py)\)", section)]
    assert blocks
    assert shown
    shown.append(REPOSITORY / "tests" / "test_recipes_of_stores.py")
    texts = [[line.strip() for line in path.read_text(encoding="utf-8").splitlines()] for path in shown]
    for _, block in blocks:
        lines = [line.strip() for line in block.splitlines()]
        found = [
            example[start : start + len(lines)] == lines
            for example in texts
            for start, line in enumerate(example)
            if line == lines[0]
        ]
        assert any(found), block


def test_adding_an_analysis_touches_at_most_six_places():
    (recipe,) = [section for section in SECTIONS if section.startswith("How to add an analysis")]
    (table,) = re.findall(r"^\| place .*?\n\n", recipe, flags=re.MULTILINE | re.DOTALL)
    assert len(table.strip().splitlines()) - 2 <= 6


def test_the_example_runs_as_a_program():
    done = subprocess.run(
        [sys.executable, ANALYSIS_PATH],
        capture_output=True,
        text=True,
        check=True,
        cwd=REPOSITORY,
        env={"PYTHONPATH": str(REPOSITORY)},
    )
    assert re.fullmatch(r"about -?\d+ rows with both flags; exactly 267\n", done.stdout)


@pytest.mark.parametrize("view", VIEWS)
def test_the_mechanism_of_the_recipe_costs_what_was_asked_for_and_less_noise_costs_more(view):
    example = runpy.run_path(str(MECHANISM_PATH))
    release = example["calibrated"](100, epsilon=1.0, delta=1e-6, view=view)
    assert composed_epsilon(release.events(view), 1e-6).epsilon <= 1.0
    assert composed_epsilon(replace(release, scale=release.scale - 1).events(view), 1e-6).epsilon > 1.0
    assert release.draw(InsecureTestEntropy("recipe")).shape == (1,)


def test_the_mechanism_of_the_recipe_is_drawn_as_its_plan_states():
    release = runpy.run_path(str(MECHANISM_PATH))["NoisyNumber"](100, 60)
    books = DrawnNoise([PlannedRelease(release, (1,))], 1)
    books.finish(books.begin(replace(release)))
    books.check_message(COORDINATOR, OPENING_STAGE)
    with pytest.raises(LocalFaultError, match="states no such release"):
        books.begin(replace(release, scale=59))


async def test_the_toy_analysis_runs_and_is_off_by_no_more_than_its_noise(toy):
    job, tables = toy["made_up_job"]()
    run = await run_locally(job, tables, entropy_of=lambda m: InsecureTestEntropy(f"toy {m}"))
    exact = toy["reference"](list(tables.values()), run.plan)
    assert 0 < abs(run.result["both"] - exact) <= run.plan.noise.noise_tail_bound(-40)
    assert run.failures == ()
    assert set(run.reports) == {"bank", "shop", "helper"}
    assert lines_of("both-flagged", run.result)[0] == f"both: {run.result['both']}"
    assert survival_of(job).in_words == "opening a product needs 3, so all must stay to the end"


def test_the_plan_of_the_toy_analysis_states_what_its_members_send(toy):
    job, tables = toy["made_up_job"]()
    counted = count(job, tables)
    said = counted.plan.traffic(next(iter(tables.values())).n_rows)
    assert (said.flights, dict(said.sent)) == (counted.flights, counted.links)


async def test_the_toy_analysis_passes_the_gate_and_each_owner_pays_before_a_share_is_opened(toy):
    job, tables = toy["made_up_job"]()
    schemas = [*(table.schema for table in tables.values()), toy["BlockSchema"](party="helper")]
    plan = analysis_of(job).plan(job, schemas)
    happened = []

    def note(message):
        if message.receiver == COORDINATOR:
            happened.append("sent")
        return (message,)

    async def gated_party(session, plan, table):
        word = "committed" if session.me in plan.owners else "had nothing to pay"
        gated = GatedSession.of_plan(session, plan, commit=lambda: happened.append(word))
        report = await toy["party"](gated, plan, table)
        await gated.open()
        return report

    run = await run_plan(
        plan, tables, local_network(plan, fault=note), analysis=replace(toy["ANALYSIS"], own_party=gated_party)
    )
    assert run.failures == ()
    assert isinstance(run.result["both"], int)
    paid = [place for place, word in enumerate(happened) if word == "committed"]
    assert len(paid) == len(plan.owners) == 2
    assert max(paid) < happened.index("sent")


def test_the_toy_analysis_is_charged_what_it_promises(toy):
    job, tables = toy["made_up_job"]()
    schemas = [*(table.schema for table in tables.values()), toy["BlockSchema"](party="helper")]
    plan = analysis_of(job).plan(job, schemas)
    assert plan.releases is plan.releases
    for view in VIEWS:
        assert plan.privacy_events(view) == plan.noise.events(view)
        assert plan.privacy_report()["views"][view]["epsilon"] <= job.privacy.epsilon
    assert plan.cost()


MAX_ROWS_PER_PERSON = 5


def job_about_persons(toy):
    """Return the toy's job about persons, each with ten rows of which five count."""
    job, tables = toy["made_up_job"]()
    persons = Persons.of(tuple(f"person {row // 10}" for row in range(1000)))
    ids = digest_of_ids(f"row {row}" for row in range(1000))
    owned = {}
    for name, table in tables.items():
        schema = table.schema.model_copy(update={"most_rows_per_person": MAX_ROWS_PER_PERSON})
        owned[name] = Table(schema, table.values, ids, persons)
    return job.model_copy(update={"parameters": {"unit": "person"}}), owned


async def test_the_toy_analysis_protects_persons_and_leaves_out_their_surplus_rows(toy):
    job, tables = job_about_persons(toy)
    full = {name: replace(table, values=np.ones_like(table.values)) for name, table in tables.items()}
    run = await run_locally(job, full, entropy_of=lambda m: InsecureTestEntropy(f"persons {m}"))
    assert run.plan.privacy_unit == run.plan.cost().unit == run.result["privacy"]["unit"] == PERSON
    assert abs(run.result["both"] - 500) <= run.plan.noise.noise_tail_bound(-40) < 500
    assert {run.reports[name].surplus_rows for name in tables} == {500}
    assert np.array_equal(full["bank"].values, np.ones((1000, 1)))
    record, _ = toy["made_up_job"]()
    of_records = analysis_of(record).plan(record, run.plan.schemas)
    assert run.plan.noise.party_mu > MAX_ROWS_PER_PERSON * of_records.noise.party_mu


async def test_an_analysis_that_overlooks_persons_gets_no_plan_for_them(toy, monkeypatch):
    """The plan of an analysis that protects a record, whatever the job asks for."""
    job, tables = job_about_persons(toy)
    run = await run_locally(job, tables)

    class OfRecords(type(run.plan)):
        @property
        def protected(self):
            return RECORD

    def plan(job, schemas):
        return OfRecords(**dict(toy["plan"](job, schemas)))

    monkeypatch.setitem(ANALYSES, "both-flagged", replace(toy["ANALYSIS"], own_plan=plan))
    with pytest.raises(JobError, match=r"unit: both-flagged cannot protect persons; .* 'record of the joint table'"):
        await run_locally(job, tables)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"inputs": [{"party": "bank", "table": "customers"}]}, "at least two parties"),
        ({"parameters": {"rows": 3}}, "parameters.rows: there is no such field"),
        ({"privacy": {"epsilon": 1e-300, "delta": 1e-6}}, "privacy: "),
    ],
)
async def test_the_toy_analysis_refuses_what_it_cannot_do(toy, change, words):
    job, tables = toy["made_up_job"]()
    changed = Job.model_validate({**job.model_dump(by_alias=True), **change})
    wanted = {brought.party for brought in changed.inputs}
    with pytest.raises(JobError, match=words):
        await run_locally(changed, {name: table for name, table in tables.items() if name in wanted})
