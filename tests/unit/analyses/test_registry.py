"""Whatever the registry holds is complete: a page, an example with a plan, a demo, text; it runs in one process."""

import ast
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest
from registry_jobs import OWNERS, VARIANTS
from syntax import nodes

from analyses.job.analysis import Analysis
from analyses.job.job import Job
from analyses.names import NAMES
from analyses.registry import ANALYSES, OFFERED, survival_of
from analyses.run_locally import run_locally
from demo.command import demo_app
from demo.job import DATA_SETS
from dp.cost.report import describe
from entropy import InsecureTestEntropy
from results.registry import lines_of

REPOSITORY = Path(__file__).parents[3]
ROOMS = (
    "analyses", "analyst", "bench", "cli", "coordinator", "demo", "device", "dp", "mpc", "party", "results", "service",
    "transport",
)  # fmt: skip

REMEMBERS = {"ledger/spending.py", "cli/main.py", "analyses/pattern_count/questions.py"}
"""What an earlier version of the ledger has charged stays true under the name that it had, and one command is called
`distribution`, as it asks devices for one, as is one question to counts.
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Return name of a table to the parties that an example about it runs with."""
    return {name: write(tmp_path_factory.mktemp("tables"), rows=2000) for name, (_, write) in DATA_SETS.items()}


def test_no_two_analyses_have_a_name_in_common():
    assert len(ANALYSES) == sum(len(analysis.names) for analysis in OFFERED)
    assert all(ANALYSES[name] is analysis for analysis in OFFERED for name in analysis.names)


def test_the_names_that_configurations_may_state_are_those_of_the_registry():
    assert tuple(sorted(ANALYSES)) == NAMES


@pytest.mark.parametrize("analysis", OFFERED, ids=lambda analysis: analysis.names[0])
def test_every_analysis_has_a_page_and_a_demo(analysis):
    page = REPOSITORY / "docs" / analysis.page
    assert page.exists()
    assert analysis.demo in {command.name or command.callback.__name__ for command in demo_app.registered_commands}


@pytest.mark.parametrize("name", ANALYSES)
def test_every_analysis_has_an_example_that_can_be_planned(name, data):
    job = Job.from_toml((REPOSITORY / "examples" / f"{name}.toml").read_text(encoding="utf-8"))
    assert job.analysis == name
    ANALYSES[name].check_parameters(job)
    parties = data[job.inputs[0].table]
    schemas = [t.schema for t in parties.in_memory({i.party: i.columns or usual(parties, i.party) for i in job.inputs})]
    plan = ANALYSES[name].plan(job, schemas)
    assert plan.privacy_report()["delta"] == job.privacy.delta
    assert survival_of(job).in_words


def usual(parties, party):
    return list(parties.tables[party].usual_bounds)


@pytest.mark.parametrize("name", ANALYSES)
async def test_every_analysis_runs_in_one_process_and_its_result_can_be_read(name):
    variant = VARIANTS[name]
    job = variant.job()
    run = await run_locally(job, variant.tables(), entropy_of=lambda m: InsecureTestEntropy(f"{name} {m}"))
    assert run.failures == ()
    assert set(run.reports) == set(job.members)
    assert {run.reports[owner].n_rows for owner in OWNERS} == {300}
    assert run.result["analysis"] == name
    lines = lines_of(name, run.result)
    assert lines[-1] == f"  {describe(run.result['privacy'])[-1]}"
    assert "privacy" in lines[1:]


def names_told_apart(source):
    """Lines of a source text that compare something with the name of an analysis, or look something up by it."""
    found: list[int] = []
    if not any(f'"{name}"' in source for name in ANALYSES):
        return found
    for node in nodes(ast.parse(source)):
        values = []
        if isinstance(node, ast.Compare):
            values = [node.left, *node.comparators]
            values += [inner for value in values if isinstance(value, ast.Tuple | ast.List) for inner in value.elts]
        elif isinstance(node, ast.Dict):
            values = node.keys
        elif isinstance(node, ast.Set):
            values = node.elts
        elif isinstance(node, ast.MatchValue):
            values = [node.value]
        found += [v.lineno for v in values if isinstance(v, ast.Constant) and v.value in ANALYSES]
    return found


def test_no_code_branches_on_the_name_of_an_analysis():
    """Only an analysis itself may tell its own names apart; measurements name what they measure."""
    found = {}
    for room in ROOMS:
        for path in sorted((REPOSITORY / room).rglob("*.py")):
            name = path.relative_to(REPOSITORY).as_posix()
            if name.startswith(("analyses/sums/", "bench/")) or name in REMEMBERS:
                continue
            if lines := names_told_apart(path.read_text(encoding="utf-8")):
                found[name] = lines
    assert found == {}


@pytest.mark.parametrize(
    "line",
    [
        'if job.analysis == "pca": pass',
        'if job.analysis in ("pca", "low-rank"): pass',
        'key = {"secure-sum": "sum"}[name]',
        'match name:\n    case "clustering": pass',
        'if name in {"moments"}: pass',
    ],
)
def test_a_branch_on_the_name_of_an_analysis_is_found(line):
    assert names_told_apart(line)


def test_every_field_of_an_analysis_is_explained():
    assert all(f"    {field.name}: " in (Analysis.__doc__ or "") for field in fields(Analysis))


def test_the_jobs_of_the_registry_are_jobs_of_examples_too():
    found = {tomllib.loads(path.read_text())["analysis"] for path in examples_of_jobs()}
    assert found == set(ANALYSES)


def examples_of_jobs():
    return [path for path in (REPOSITORY / "examples").glob("*.toml") if "[[inputs]]" in path.read_text()]


@pytest.mark.parametrize("path", examples_of_jobs(), ids=lambda path: path.stem)
def test_every_example_of_a_job_has_parameters_that_its_analysis_takes(path):
    job = Job.from_toml(path.read_text(encoding="utf-8"))
    ANALYSES[job.analysis].check_parameters(job)
