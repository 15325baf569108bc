"""Questions in Python become the same jobs as job files; wrong ones are refused with the field."""

import inspect
import json
import tomllib
from pathlib import Path

import pytest

import moiety
from analyses.job.job import Job, JobError
from analyses.registry import ANALYSES
from analyst.question import QUESTIONS, job_of

EXAMPLES = Path(__file__).parents[3] / "examples"
KIND = {kind.analysis: kind for kind in QUESTIONS}


def test_there_is_a_question_for_every_analysis_and_moiety_has_them_all():
    assert set(KIND) == set(ANALYSES)
    assert len(QUESTIONS) == len(KIND)
    assert {kind.__name__ for kind in QUESTIONS} <= set(moiety.__all__)


@pytest.mark.parametrize("name", KIND)
def test_a_question_is_the_job_of_the_example(name):
    job = Job.from_toml((EXAMPLES / f"{name}.toml").read_text())
    fields = tomllib.loads((EXAMPLES / f"{name}.toml").read_text())
    asked = KIND[name](
        {one.party: (one.table, one.columns) for one in job.inputs},
        **fields.get("privacy", {}),
        compute=job.compute,
        colluding=job.colluding,
        deadline_s=job.deadline_s,
        title=job.title,
        **fields.get("parameters", {}),
    )
    assert asked.job == job
    assert job_of(asked) == job_of(job) == job_of(EXAMPLES / f"{name}.toml") == job
    assert json.loads(repr(asked).partition("(")[2][:-1])["analysis"] == name


def ask(**changes):
    given = {"inputs": {"a": "t", "b": "t", "c": "t"}, "epsilon": 1.0, "delta": 1e-6, "components": 2}
    return moiety.PCA(**{**given, **changes})


def test_a_question_says_how_rows_are_matched_by_a_kind_or_by_all_fields():
    for given, matching in (
        ("secret", {"kind": "secret"}),
        ({"kind": "revealed", "keep": True}, {"kind": "revealed", "keep": True}),
        ({"kind": "revealed", "match": "job-1"}, {"kind": "revealed", "match": "job-1"}),
    ):
        assert ask(matching=given).job.matching.model_dump(exclude_defaults=True) == matching
    with pytest.raises(JobError, match="matching"):
        ask(matching={"kind": "secret", "keep": True})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"componnents": 2}, r"parameters\.componnents"),
        ({"components": 0}, r"parameters\.components"),
        ({"components": object()}, "parameters: must be finite numbers"),
        ({"components": float("nan")}, "parameters: must be finite numbers"),
        ({"delta": None}, "epsilon, delta: give both or neither"),
        ({"epsilon": None, "delta": None}, "privacy: missing"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"inputs": {}}, "inputs"),
        ({"inputs": {"A b": "t"}}, "party"),
        ({"view": "nobody"}, "view"),
    ],
)
def test_a_wrong_question_is_refused_with_the_field(changes, words):
    with pytest.raises(JobError, match=words):
        ask(**changes)


def test_columns_are_named_beside_the_table():
    job = ask(inputs={"a": ("t", ["x", "y"]), "b": "t", "c": "t"}).job
    assert [one.columns for one in job.inputs] == [("x", "y"), (), ()]


def test_a_job_file_that_is_not_there_is_said(tmp_path):
    with pytest.raises(JobError, match="there is no such file"):
        job_of(tmp_path / "absent.toml")
    (tmp_path / "job.toml").write_text('analysis = "pca"')
    with pytest.raises(JobError, match=r"job\.toml: inputs"):
        job_of(tmp_path / "job.toml")


def test_every_name_of_moiety_can_be_imported_and_no_other_is_there():
    for name in moiety.__all__:
        assert inspect.isclass(getattr(moiety, name)) or callable(getattr(moiety, name))
    assert dir(moiety) == sorted(moiety.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'Klient'"):
        moiety.Klient  # noqa: B018 -- the access fails
