"""The demos of analyses: each is whole, its options reach the job, and one driver runs them all."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from analyses.registry import ANALYSES, OFFERED
from cli.terminal.output import Format
from demo import job as driver
from demo.catalogue import COMMON, DEMOS
from demo.command import demo_app
from demo.comparison import Score
from demo.job import Outcome, example_job

VALUES = {int: 11, float: 0.125, str: "mpc"}


@pytest.mark.parametrize("demo", DEMOS, ids=lambda demo: demo.name)
def test_a_demo_runs_the_example_of_its_analysis(demo):
    assert ANALYSES[example_job(demo.name).analysis].demo == demo.name


def test_every_analysis_that_is_no_sum_has_a_demo_in_the_catalogue():
    assert {analysis.demo for analysis in OFFERED} == {"sum"} | {demo.name for demo in DEMOS}


@pytest.mark.parametrize("demo", DEMOS, ids=lambda demo: demo.name)
def test_every_option_changes_the_field_of_the_job_that_it_names(demo):
    for option in (*COMMON, *demo.options):
        value = VALUES[option.kind]
        changed = example_job(*demo.example({option.name: value})).model_dump(by_alias=True)
        section, name = option.field.split(".")
        assert changed[section][name] == value


def test_an_option_that_is_given_counts_more_than_what_its_method_needs():
    (moments,) = [demo for demo in DEMOS if demo.name == "moments"]
    assert example_job(*moments.example({"method": "laplace"})).parameters["order"] == 1
    assert moments.example({"method": "laplace", "order": 3})[1]["parameters.order"] == 3


def test_the_title_follows_the_order_of_the_moment():
    (moments,) = [demo for demo in DEMOS if demo.name == "moments"]
    assert example_job(*moments.example({})).title == "Second moment of incidents per connection"
    assert example_job(*moments.example({"order": 3})).title == "Moment of order 3 of incidents per connection"
    assert "order 1 " in example_job(*moments.example({"method": "laplace"})).title
    assert "order 3 " in example_job(*moments.example({"method": "laplace", "order": 3})).title


def test_a_method_whose_answer_its_noise_would_hide_has_an_epsilon_of_its_own():
    (squares,) = [demo for demo in DEMOS if demo.name == "least-squares"]
    assert example_job(*squares.example({})).privacy.epsilon == 1
    assert example_job(*squares.example({"method": "sketch"})).privacy.epsilon == 32
    assert example_job(*squares.example({"method": "sketch", "epsilon": 2.0})).privacy.epsilon == 2
    (clusters,) = [demo for demo in DEMOS if demo.name == "clustering"]
    assert example_job(*clusters.example({"method": "pattern"})).privacy.epsilon == 4


SHOWN = Outcome(
    job_id="job-1",
    title="A subspace",
    n_rows=1500,
    lines=["component 1", "", "privacy"],
    scores=[Score("fraction lost", 0.253456, 0.25), Score("rows", 123456.0, None)],
    privacy={},
    seconds=1.5,
    bytes_sent={"carrier": 3_500_000, "host": 2000},
    clipped={"carrier": 0, "host": 17},
    files={"numbers": "out/low-rank.json"},
)


@pytest.fixture
def asked(monkeypatch):
    """Let a demo run without a federation; return what is asked of it."""
    found = []

    def run_demo(stack, demo, keep, rows, out, given):
        found.append((demo.example(given), rows, out))
        return SHOWN

    monkeypatch.setattr(driver, "run_demo", run_demo)
    return found


def test_the_command_line_reaches_the_driver_and_its_outcome_is_printed(asked):
    arguments = ["low-rank", "--rows", "200", "--rank", "4", "--method", "sketch"]
    done = CliRunner().invoke(demo_app, arguments)
    assert done.exit_code == 0, done.output
    changes = {"parameters.method": "sketch", "parameters.rank": 4, "privacy.epsilon": 8.0}
    assert asked == [(("low-rank", changes), 200, Path("demo-results"))]
    lines = [line.strip() for line in done.stdout.splitlines()]
    assert "A subspace: 1,500 rows" in lines
    assert {"component 1", "privacy"} <= set(lines)
    assert "fraction lost 0.25346 0.25" in [" ".join(line.split()) for line in lines]
    assert "rows 123,456 none" in [" ".join(line.split()) for line in lines]
    assert "job       1.5 s; sent: carrier 3.5 MB, host 2 kB" in lines
    assert any(line.endswith("carrier 0, host 17") for line in lines)
    assert lines[-2].endswith("demo low-rank     by mpc, with its defaults: how much closer is it?")


def test_as_json_it_is_one_object(asked):
    done = CliRunner().invoke(demo_app, ["low-rank", "--format", Format.JSON])
    assert done.stdout.startswith('{\n  "job_id": "job-1",')
    assert '"no_privacy": 0.25' in done.stdout


@pytest.mark.parametrize("arguments", [["--rank", "0"], ["--rank", "many"], ["--method", "dice"], ["--rows", "5"]])
def test_values_out_of_range_are_refused_before_anything_runs(asked, arguments):
    assert CliRunner().invoke(demo_app, ["low-rank", *arguments]).exit_code == 2
    assert asked == []
