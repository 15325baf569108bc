import asyncio
import json
import threading
import time
import unicodedata

import pytest
from deadlines import GENEROUS_S
from typer.testing import CliRunner

from analyses.job.forecast import Forecast, Quantity
from analyses.job.job import Matching
from analyses.job.schema import LocalReport
from cli.main import app
from dp.mechanism.gram import NoisyGram
from party.consent import PRODUCTS, ConsentBox
from party.outcome.report import write_report

QUESTION = {
    "job_id": "job-1",
    "analyst": "ada",
    "analysis": "pca",
    "title": "Trends",
    "parameters": {"components": 2},
    "members": ["north", "south", "west"],
    "colluding": 1,
    "table": "visits",
    "columns": ["age", "stay"],
    "delta": 1e-6,
    "epsilon": {"coordinator": 0.55, "coalition": 1.0},
    "budget": {
        "epsilon": 4.0,
        "delta": 1e-6,
        "period": "2026",
        "held_epsilon": 1.5,
        "held_after": 2.25,
        "part_after": 0.3,
    },
    "anyway": False,
    "forecast": Forecast((Quantity("variance along a component", "squared scaled units", 0.25),)).as_dict(),
    "why_asked": ["epsilon 1 of the job is above 0.5"],
    "asked_at_s": 1e9,
    "deadline_s": 60.0,
}


def moiety(config, *arguments, **options):
    return CliRunner().invoke(app, ["party", *arguments, "--config", str(config)], **options)


@pytest.fixture
def waiting(party_config, request):
    """A job that waits as in a service; the answer ends up in `answers`."""
    box, answers, question = ConsentBox(party_config.parent / "state"), [], getattr(request, "param", QUESTION)
    thread = threading.Thread(target=lambda: answers.append(asyncio.run(box.ask("job-1", question))))
    thread.start()
    while not box.waiting():
        assert thread.is_alive(), "the question was not put"
        time.sleep(0.01)
    yield answers, thread
    if thread.is_alive():
        box.answer("job-1", "the test has ended")
    thread.join()


def test_the_owner_sees_who_asks_what_both_epsilons_and_what_would_be_left(party_config, waiting):
    text = moiety(party_config, "jobs").stdout
    assert text.startswith('job job-1: pca\n  title      "Trends"\n')
    shown = " ".join(text.split())  # lines are broken between words
    for words in (
        "asked by ada",
        "north, south, west; withstands 1 colluding",
        "table visits: age, stay",
        "0.55 against the coordinator alone",
        "1 against the worst coalition",
        "1.5 spent or held, 2.25 with this job; 70 % left",
        "figures of the moment when the job asked",
        "epsilon 1 of the job is above 0.5",
        "forecast variance along a component: standard error 0.25, 95 % within 0.49",
    ):
        assert words in shown
    assert json.loads(moiety(party_config, "jobs", "--format", "json").stdout) == [QUESTION]


@pytest.mark.parametrize(
    "waiting", [QUESTION | {"colluding": 0, "epsilon": {"coordinator": 0.55, "coalition": None}}], indirect=True
)
def test_the_owner_sees_that_nothing_protects_from_a_coalition(party_config, waiting):
    shown = moiety(party_config, "jobs").stdout
    assert "withstands 0 colluding" in shown
    assert "0.55 against the coordinator alone" in shown
    assert "NONE against a coalition" in shown


@pytest.mark.parametrize("waiting", [{**QUESTION, "helpers": ["east", "far"], "products": PRODUCTS}], indirect=True)
def test_the_owner_sees_who_only_computes_and_what_a_deviating_party_could_do(party_config, waiting):
    shown = "".join(moiety(party_config, "jobs").output.split())
    for words in ("helpers east, far: compute, and bring no table", f"products {PRODUCTS}"):
        assert words.replace(" ", "") in shown


@pytest.mark.parametrize(
    "waiting",
    [{**QUESTION, "matching": {"kind": "revealed", "reveals": Matching(kind="revealed").reveals}}],
    indirect=True,
)
def test_the_owner_sees_that_owners_learn_which_rows_all_have(party_config, waiting):
    shown = "".join(moiety(party_config, "jobs").output.split())  # lines are broken within words
    said = "matching revealed: each owner learns which of its rows all owners have; epsilon does not cover that"
    assert said.replace(" ", "") in shown


def test_an_approval_shows_the_job_and_lets_it_run(party_config, waiting):
    answers, thread = waiting
    done = moiety(party_config, "approve", "job-1", "--yes")
    assert done.exit_code == 0
    assert "asked by   ada" in done.stdout
    thread.join(GENEROUS_S)
    assert answers == [None]


def test_an_approval_that_is_not_confirmed_changes_nothing(party_config, waiting):
    _, thread = waiting
    assert moiety(party_config, "approve", "job-1", input="n\n").exit_code == 1
    time.sleep(0.5)
    assert thread.is_alive()
    assert moiety(party_config, "approve", "job-1", input="y\n").exit_code == 0
    thread.join(GENEROUS_S)
    assert not thread.is_alive()


def test_a_refusal_carries_its_reason(party_config, waiting):
    answers, thread = waiting
    assert moiety(party_config, "refuse", "job-1", "--reason", "not these columns").exit_code == 0
    thread.join(GENEROUS_S)
    assert answers == ["not these columns"]


@pytest.mark.parametrize(
    "waiting",
    [
        QUESTION
        | {
            "epsilon": {"coordinator": 0.55001, "coalition": 1.00004},
            "budget": QUESTION["budget"] | {"held_epsilon": 1.50001, "held_after": 2.25004, "part_after": 0.3333333},
        }
    ],
    indirect=True,
)
def test_no_epsilon_that_the_owner_sees_is_rounded_down_nor_what_is_left_up(party_config, waiting):
    shown = " ".join(moiety(party_config, "jobs").stdout.split())  # lines are broken between words
    assert "0.5501 against the coordinator alone" in shown
    assert "1.001 against the worst coalition" in shown
    assert "1.501 spent or held, 2.251 with this job; 66.66 % left" in shown


@pytest.mark.parametrize("command", [("approve", "job-9", "--yes"), ("refuse", "job-9", "--reason", "no")])
def test_a_job_that_does_not_wait_is_not_found(party_config, command):
    shown = moiety(party_config, *command)
    assert (shown.exit_code, shown.stderr) == (
        4,
        "error: there is no job job-9 that waits for approval [approval-unknown]\n",
    )
    assert moiety(party_config, "jobs").stderr == "no job waits\n"


def test_the_report_of_a_job_says_what_was_promised_clipped_and_what_remains(party_config):
    mechanism = NoisyGram(n_columns=2, squared_norm_bound=100, n_parties=3, colluding=1, party_mu=10**6)
    budget = {
        "dataset": "visits",
        "period": "2026",
        "epsilon": 4.0,
        "delta": 1e-6,
        "spent_epsilon": 1.25,
        "remaining_part": 0.62345,
        "adjacency": {"coordinator": "add_or_remove_one", "coalition": "replace_one"},
        "least_colluding": 1,
    }
    local = LocalReport(100, {"age": 3, "stay": 0}, clipped_rows=7, mapped_values={"stay": 0, "code": 2})
    state = party_config.parent / "state"
    write_report(state, "job-1", local, traffic={}, privacy=mechanism.report(1e-6), budget=budget, elapsed_s=2.5)
    shown = moiety(party_config, "report", "job-1").stdout
    assert "clipped: 7 rows by the norm bound; values outside their bounds: 3 of age\n" in shown
    assert "mapped by the analysis's public rule: 2 of code\n" in shown
    assert (
        "epsilon 4 at delta 1e-06, of which 1.25 is spent and 62.34 % remains, against the coordinator and at" in shown
    )
    assert "Against the coordinator and 1 of 3 parties together: epsilon = " in shown
    assert json.loads(moiety(party_config, "report", "job-1", "--format", "json").stdout)["budget"] == budget
    assert moiety(party_config, "report", "job-2").exit_code == 4
    assert moiety(party_config, "report", "../job").exit_code == 4


LONG = {
    **QUESTION,
    "title": "Wie häufig 長い題名の仕事 " + "x" * 300,
    "columns": [f"column_number_{n}" for n in range(20)],
    "forecast": Forecast((Quantity("variance along a component", "squared scaled units", 0.0019123),)).as_dict(),
    "order": "trusted",
}


def cells(text):
    return sum(2 if unicodedata.east_asian_width(one) in "WFA" else 1 for one in text)


@pytest.mark.parametrize("columns", [40, 60, 80, 200])
@pytest.mark.parametrize("waiting", [LONG], indirect=True)
def test_no_number_and_no_word_is_cut_at_any_width_of_a_terminal(party_config, waiting, columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    text = moiety(party_config, "jobs").stdout
    lines = text.splitlines()
    assert max(map(cells, lines[1:])) < columns
    assert all(line.startswith("  ") for line in lines[1:])  # nothing of others begins a line
    words = text.split()
    for word in ("0.55", "1.5", "2.25", *(f"column_number_{n}" for n in range(20)), "colluding"):
        assert any(found.strip(",;") == word for found in words), word
    assert "nobody checked" in " ".join(words)
