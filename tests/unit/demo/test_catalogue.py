"""The demos of analyses: each is whole, its options reach the job, and one driver runs them all."""

import importlib
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from enum import EnumMeta

import pytest
from typer.testing import CliRunner

from analyses.registry import ANALYSES, OFFERED
from cli.terminal.output import Format
from demo import job as driver
from demo.catalogue import DEMOS, PCA
from demo.command import demo_app
from demo.job import example_job

ALL = (PCA, *DEMOS)
VALUES = {int: 11, float: 0.125, str: "mpc"}


@pytest.mark.parametrize("demo", ALL, ids=lambda demo: demo.name)
def test_a_demo_runs_the_example_of_an_analysis_and_has_what_the_driver_calls(demo):
    assert ANALYSES[example_job(demo.name).analysis].demo == demo.name
    module = importlib.import_module(demo.module)
    assert callable(module.compare)
    assert callable(module.text_of)


def test_every_analysis_that_is_no_sum_has_a_demo_in_the_catalogue():
    assert {analysis.demo for analysis in OFFERED} == {"sum"} | {demo.name for demo in ALL}


@pytest.mark.parametrize("demo", ALL, ids=lambda demo: demo.name)
def test_every_option_changes_the_field_of_the_job_that_it_names(demo):
    for option in demo.options:
        if option.field:
            value = next(iter(option.kind)).value if isinstance(option.kind, EnumMeta) else VALUES[option.kind]
            section, name = option.field.split(".")
            changed = example_job(demo.name, {option.field: value}).model_dump(by_alias=True)
            assert changed[section][name] == value


@dataclass(frozen=True)
class Shown:
    found: float


class Module:
    """A demo's module that notes what it is asked."""

    @staticmethod
    def compare(run, **others):
        asked.append((run, others))
        return Shown(0.5)

    @staticmethod
    def text_of(outcome):
        return f"found {outcome.found}"


asked = []


@pytest.fixture
def quick(monkeypatch):
    """Let a demo run without a federation; what is asked of it is in `asked`."""
    asked.clear()
    monkeypatch.setattr(driver.importlib, "import_module", lambda name: asked.append(name) or Module)
    monkeypatch.setattr(driver, "run_example", lambda stack, keep, rows, name, changes: (keep, rows, name, changes))


def test_the_driver_hands_fields_to_the_job_and_the_rest_to_the_comparison(quick, tmp_path):
    given = {"components": 3, "epsilon": 0.5, "delta": 1e-7, "out": tmp_path}
    with ExitStack() as stack:
        outcome, text = driver.run_demo(stack, PCA, None, 500, given)
    changes = {"parameters.components": 3, "privacy.epsilon": 0.5, "privacy.delta": 1e-7}
    assert asked == ["demo.analyses.pca", ((None, 500, "pca", changes), {"out": tmp_path})]
    assert (asdict(outcome), text) == ({"found": 0.5}, "found 0.5")


@pytest.mark.parametrize(("output", "printed"), [(Format.TEXT, "found 0.5\n"), (Format.JSON, '{\n  "found": 0.5\n}\n')])
def test_the_command_line_reaches_the_driver(quick, output, printed):
    arguments = ["low-rank", "--rows", "200", "--rank", "4", "--method", "sketch", "--format", output]
    done = CliRunner().invoke(demo_app, arguments)
    assert done.exit_code == 0, done.output
    changes = {"parameters.rank": 4, "parameters.method": "sketch", "privacy.epsilon": None}
    assert asked[1:] == [((None, 200, "low-rank", changes), {})]
    assert done.stdout == printed


@pytest.mark.parametrize("arguments", [["--rank", "0"], ["--rank", "many"], ["--method", "dice"], ["--rows", "5"]])
def test_values_out_of_range_are_refused_before_anything_runs(quick, arguments):
    assert CliRunner().invoke(demo_app, ["low-rank", *arguments]).exit_code == 2
    assert asked == []
