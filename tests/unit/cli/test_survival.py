import json
from pathlib import Path

import pytest
from job_builders import PARTIES, make_job
from typer.testing import CliRunner

from analyses.job.job import JobError
from analyses.registry import ANALYSES, survival_of
from analyses.sums import protocol as sums
from cli.main import app

EXAMPLES = Path(__file__).parents[3] / "examples"


def inputs(n):
    return [{"party": f"p{i}", "table": "people"} for i in range(n)]


@pytest.mark.parametrize(
    ("n_parties", "t", "product"), [(3, 1, (3, 0, 0)), (5, 1, (3, 2, 1)), (5, 2, (5, 0, 0)), (7, 2, (5, 2, 1))]
)
def test_the_table_says_how_many_may_drop_out_and_how_many_may_lie(n_parties, t, product):
    survival = survival_of(make_job(inputs=inputs(n_parties), colluding=t))
    rows = [(o.n_required, o.may_drop_out, o.may_lie) for o in survival.openings]
    assert rows == [product]


@pytest.mark.parametrize(("n_parties", "t", "row"), [(3, 1, (3, 0)), (4, 1, (3, 1)), (7, 1, (5, 2)), (7, 3, (6, 1))])
def test_of_a_masked_sum_it_says_how_many_may_drop_out_once_all_have_committed(n_parties, t, row):
    survival = survival_of(make_job(analysis="secure-sum", inputs=inputs(n_parties), colluding=t))
    (opening,) = survival.openings
    assert (opening.n_required, opening.may_drop_out) == row
    assert "once every party has committed the cost" in survival.as_text()


@pytest.mark.parametrize("analysis", ["matrix-factorization", "distribution"])
def test_two_owners_suffice_where_nothing_is_multiplied_and_both_must_stay(analysis):
    parameters = {"method": "masked"} if analysis == "distribution" else {}
    survival = survival_of(make_job(analysis=analysis, inputs=inputs(2), parameters=parameters))
    assert (survival.colluding, survival.openings[0].n_required, survival.openings[0].may_drop_out) == (1, 2, 0)


WAYS = {
    **{(name, ""): True for name in ("pca", "low-rank", "least-squares", "moments", "pattern-count", "clustering")},
    **{
        (name, ""): True
        for name in ("joint-count", "joint-mean", "joint-sum", "cross-table", "second-moments", "circuit")
    },
    ("low-rank", "sketch"): False,
    ("distribution", "wave"): False,
    ("least-squares", "sketch"): False,
    ("moments", "laplace"): False,
    ("pattern-count", "randomized-response"): False,
    ("clustering", "independent"): False,
    ("logistic-regression", ""): True,
    ("logistic-regression", "gradient"): False,
    ("matrix-factorization", "horizontal"): True,
    ("matrix-factorization", "vertical"): True,
}
CHOICES = {"clustering": "counting", "matrix-factorization": "setting"}
"""The parameter that says which way, where it is not `method`."""


@pytest.mark.parametrize(("analysis", "way"), WAYS)
def test_of_every_analysis_the_words_say_what_the_table_says(analysis, way):
    chosen = {CHOICES.get(analysis, "method"): way} if way else {}
    job = make_job(analysis=analysis, inputs=inputs(5), colluding=1, parameters=chosen)
    (opening,) = survival_of(job).openings
    told = survival_of(job).in_words
    may_drop_out = WAYS[analysis, way]
    assert (opening.may_drop_out > 0) is may_drop_out
    from_when = "once all have committed the cost" if "matrix" in analysis else "after input"
    assert (f"so {opening.may_drop_out} may drop out {from_when}" if may_drop_out else "so none may drop out") in told
    assert may_drop_out or told.capitalize() in survival_of(job).as_text()


def test_every_analysis_that_is_no_sum_is_among_them():
    assert {analysis for analysis, _ in WAYS} == ANALYSES.keys() - set(sums.ANALYSIS.names)


def test_input_only_members_are_counted_apart():
    survival = survival_of(make_job(compute=["one", "two", "three"]))
    assert (survival.n_parties, survival.input_only) == (3, len(PARTIES))
    assert "and 3 that only bring columns" in survival.as_text()


def test_a_roster_too_small_is_refused():
    with pytest.raises(JobError, match="at least 3"):
        survival_of(make_job(inputs=inputs(2)))


def test_the_command_prints_the_table_without_asking_anybody(tmp_path):
    job = tmp_path / "job.toml"
    job.write_text(
        'analysis = "pca"\n'
        'inputs = [{party = "a", table = "t"}, {party = "b", table = "t"}, {party = "c", table = "t"}]\n'
        "[privacy]\nepsilon = 1.0\ndelta = 1e-5\n[parameters]\ncomponents = 2\n"
    )
    text = CliRunner().invoke(app, ["job", "plan", str(job)])
    assert text.exit_code == 0
    assert "3 compute parties; 1 may collude" in text.stdout
    assert "corrupted share would not be detected" in text.stdout
    table = CliRunner().invoke(app, ["job", "plan", str(job), "--format", "json"])
    assert json.loads(table.stdout)["openings"][0]["n_required"] == 3
    assert CliRunner().invoke(app, ["job", "plan", str(tmp_path / "none.toml")]).exit_code == 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("components = 2", "component = 2"), "parameters.component: there is no such field"),
        (("components = 2", "components = 0"), "parameters.components: must be at least 1"),
        (('"pca"', '"pcaa"'), "analysis: there is no analysis 'pcaa'; available"),
    ],
)
def test_a_plan_is_refused_where_no_table_could_make_the_job_right(tmp_path, change, words):
    job = tmp_path / "job.toml"
    job.write_text((EXAMPLES / "pca.toml").read_text().replace("components = 5", "components = 2").replace(*change))
    done = CliRunner().invoke(app, ["job", "plan", str(job)])
    assert (done.exit_code, words in done.output) == (2, True), done.output


@pytest.mark.parametrize(
    "job", [p for p in sorted(EXAMPLES.glob("*.toml")) if "[[inputs]]" in p.read_text()], ids=lambda p: p.stem
)
def test_every_example_of_a_job_has_a_plan(job):
    assert CliRunner().invoke(app, ["job", "plan", str(job)]).exit_code == 0
