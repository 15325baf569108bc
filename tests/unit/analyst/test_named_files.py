"""Files that a job or question about ratings names: items, features, and an earlier result."""

import json

import numpy as np
import pytest
from factor_devices import FEATURES, N_ITEMS, factor_question

from analyses.job.job import JobError
from analyses.job.ratings import digest_of_items
from analyses.matrix_factorization.devices.planned import rounds_of
from analyses.matrix_factorization.jobs.earlier import start_of
from analyst.asking import read_question
from analyst.question import job_of
from questions.factors import AskedFactors

NAMES = [f"film {item}" for item in range(N_ITEMS)]
QUESTION = """
analysis = "matrix-factorization"
record = "films"
items = { file = "films.txt" }
features = { file = "genres.csv" }
start = { file = "answer.json" }
ratings_per_user = 6
lower = -3
upper = 3
rank = 2
rounds = 2
[privacy]
epsilon = 8.0
delta = 1e-6
"""
JOB = """
analysis = "matrix-factorization"
[privacy]
epsilon = 8.0
delta = 1e-6
[[inputs]]
party = "bank"
table = "ratings"
[[inputs]]
party = "shop"
table = "ratings"
[parameters]
rank = 2
features = { file = "genres.csv" }
start = { file = "answer.json" }
"""


def answer_about(names):
    """What devices answered about a list of items: noise alone, which is a result like any other."""
    asked = factor_question(rank=2, rounds=2, items_digest=digest_of_items(names))
    progress = AskedFactors(asked, "s", {f"device {i}": bytes([i]) * 32 for i in range(5)})
    rounds = rounds_of(asked, 5)
    for number in range(rounds.n_rounds):
        progress._progress.improve(np.full(rounds.noise(number).length, 7 * number, dtype=np.int64))
    return progress.answer()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "films.txt").write_text("\n".join(NAMES) + "\n")
    (tmp_path / "genres.csv").write_text("".join(f"{a:g},{b:g}\n" for a, b in FEATURES))
    (tmp_path / "answer.json").write_text(json.dumps(answer_about(NAMES)))
    (tmp_path / "question.toml").write_text(QUESTION)
    (tmp_path / "job.toml").write_text(JOB)
    return tmp_path


def test_a_question_and_a_job_take_items_features_and_a_start_from_files_beside_them(folder):
    question, answer = read_question(folder / "question.toml"), json.loads((folder / "answer.json").read_text())
    assert (question.items, question.items_digest) == (N_ITEMS, answer["items_digest"])
    assert question.features == FEATURES
    assert question.start.digest == answer["model_digest"]
    rounds_of(question, 5)
    assert type(question).from_json(question.canonical_json()) == question
    parameters = job_of(folder / "job.toml").parameters
    assert parameters["features"] == [list(row) for row in FEATURES]
    assert parameters["start"] == start_of(answer)
    (folder / "answer.json").write_text(json.dumps({"result": answer}))
    assert job_of(folder / "job.toml").parameters["start"] == start_of(answer)


@pytest.mark.parametrize("read", [read_question, job_of], ids=["question", "job"])
@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("genres.csv", "1,x\n" * N_ITEMS, "features: genres.csv: line 1 is not made of numbers"),
        ("genres.csv", None, "genres.csv"),
        ("answer.json", "{}", "start: this is no public result"),
        ("answer.json", "[]", "start: answer.json holds no result"),
        ("answer.json", "{", "start: answer.json holds no result"),
    ],
)
def test_a_file_that_does_not_hold_what_it_should_is_refused_by_the_field(folder, read, name, text, words):
    (folder / name).unlink() if text is None else (folder / name).write_text(text)
    with pytest.raises(JobError) as refused:
        read(folder / ("question.toml" if read is read_question else "job.toml"))
    assert words in str(refused.value)
