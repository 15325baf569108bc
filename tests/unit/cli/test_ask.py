"""`moiety sum --plan`, `moiety distribution plan`: errors and cost before anybody is asked; pictures of answers."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from cli.main import app
from questions.shares import BatchQuestion
from questions.shares_answer import answer_of
from results.registry import device_text as text_of

EXAMPLES = Path(__file__).parents[3] / "examples"
HISTOGRAM = """
analysis = "secure-histogram"
record = "steps"
largest = 1
edges = [0, 10, 20]
[privacy]
epsilon = 1.0
delta = 1e-6
"""


@pytest.fixture
def question(tmp_path):
    path = tmp_path / "question.toml"
    path.write_text(HISTOGRAM)
    return path


def moiety(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_a_sum_is_planned_without_a_coordinator(question):
    shown = json.loads(moiety("sum", question, "--plan", "--members", 500, "--format", "json").stdout)
    (count,) = shown["forecast"]["quantities"]
    assert (shown["members"], count["largest"]) == (500, 500)
    assert 0.9 <= shown["privacy"]["views"]["coalition"]["epsilon"] <= 1.0
    text = moiety("sum", question, "--plan", "--members", 500).stdout
    assert f"standard error {count['standard_error']:.3g}" in text
    assert "Against the coordinator" in text


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("matrix-factorization-devices", "weighted count"),
        ("matrix-factorization-devices-sgd", "form sgd, local"),
    ],
)
def test_the_examples_of_factorizations_are_planned_for_a_thousand_devices(name, words):
    shown = moiety("sum", EXAMPLES / f"{name}.toml", "--plan", "--members", 1000)
    assert shown.exit_code == 0, shown.output
    assert words in shown.stdout


def test_a_batch_is_planned_for_as_many_as_close_it():
    shown = json.loads(moiety("sum", EXAMPLES / "batch.toml", "--plan", "--format", "json").stdout)
    assert (shown["members"], shown["privacy"]["n_parties"], shown["privacy"]["colluding"]) == (100_000, 3, 1)
    assert 0.9 <= shown["privacy"]["views"]["coalition"]["epsilon"] <= 1.0


@pytest.mark.parametrize(
    "arguments",
    [[], ["--batch", "00" * 16, str(EXAMPLES / "batch.toml")], ["--batch", "no id"], ["--batch", "00", "--plan"]],
)
def test_a_question_or_an_identifier_is_needed(arguments):
    shown = moiety("sum", *arguments)
    assert shown.exit_code == 2
    assert "follow" in shown.output or "identifier" in shown.output


def test_an_answer_of_a_batch_says_who_is_in_it_and_what_it_costs():
    question = BatchQuestion.from_toml((EXAMPLES / "batch.toml").read_text())
    integers = np.zeros(question.n_elements, dtype=np.int64)
    answer = answer_of(question, integers + 10**6, 1234, ["ann", "ben"])
    text = text_of(answer)
    assert "mean of steps over 1234 devices" in text
    assert "not in it, because not every party could open their answers: ann, ben" in text
    assert "Against the coordinator" in text
    assert "not in it" not in text_of(answer | {"left_out": []})
    rejected = answer_of(question, integers + 10**6, 1234, [], ["dan", "eve"])
    assert "2 not in it, because they did not prove that they keep the bounds: dan, eve" in text_of(rejected)


def test_the_plan_of_a_batch_with_proofs_says_so():
    assert (
        "each device proves that its vector keeps the bounds, and seals"
        in moiety("ask", EXAMPLES / "batch.toml", "--plan").stdout
    )


def test_a_plan_names_the_epsilon_and_the_members_that_a_wanted_error_takes():
    arguments = ("ask", EXAMPLES / "survey-grid.toml", "--plan", "--within", 0.01, "--of", "share of 40")
    enough = json.loads(moiety(*arguments, "--format", "json").stdout)["enough"]
    assert enough["wanted"] == 0.01 < enough["now"]
    said = f"needs epsilon {enough['epsilon']:g} or {enough['members']:,} members that answer"
    assert said in moiety(*arguments).stdout
    for wrong, words in (
        (["--plan", "--within", "0"], "--within: 0 is no error"),
        (["--plan", "--of", "share"], "it needs --within"),
        (["--within", "0.1"], "it needs --plan"),
        (["--plan", "--within", "0.1", "--of", "median"], "of: the forecast has no median"),
    ):
        shown = moiety("ask", EXAMPLES / "survey-grid.toml", *wrong)
        assert shown.exit_code == 2
        assert words in shown.output


def test_a_survey_is_planned_for_as_many_as_end_it():
    shown = moiety("distribution", "plan", EXAMPLES / "survey.toml")
    assert shown.exit_code == 0, shown.output
    assert "forecast for 1000 members" in shown.stdout
    more = moiety("distribution", "plan", EXAMPLES / "survey.toml", "--members", 4000, "--format", "json")
    few = moiety("distribution", "plan", EXAMPLES / "survey.toml", "--format", "json")
    errors = [json.loads(one.stdout)["forecast"]["quantities"][0]["standard_error"] for one in (few, more)]
    assert errors[0] == pytest.approx(2 * errors[1], rel=0.01)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--plan"], "--members"),
        (["--plan", "--members", "1"], "members, colluding"),
        (["--members", "5"], "it needs --plan"),
        (["--plot", "plot.gif"], "[plot-impossible]"),
    ],
)
def test_a_question_that_cannot_be_planned_or_drawn_says_why_before_anybody_is_asked(question, arguments, words):
    shown = moiety("sum", question, *arguments)
    assert shown.exit_code == 2
    assert words in shown.stderr
