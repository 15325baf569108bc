"""A release over real services: asked by its job, by its file, in Python; and files that were altered."""

import json

import polars
import pytest
from deadlines import GENEROUS_S
from federation import Analyst, pca_job, random_values, result_of, tables_of
from forked_services import ForkedDeployment
from typer.testing import CliRunner

import moiety
from cli.main import app
from results.generic.result import SavedResultError

PARTIES = ("bank", "hospital", "telco")
COLUMNS = [f"{party}.x{i}" for party in PARTIES for i in range(2)]
VALUES = {name: random_values((400, 2), seed) for seed, name in enumerate(PARTIES)}


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("release")
    (folder / "run").mkdir()
    with ForkedDeployment(folder / "run", tables_of(VALUES, folder)) as running:
        yield running


@pytest.fixture(scope="module")
def view(deployment):
    asked = pca_job(PARTIES, analysis="second-moments", parameters={"max_rows": 1000}, deadline_s=GENEROUS_S)
    found = Analyst(deployment).run(asked)
    result_of(found)
    return found


@pytest.fixture(scope="module")
def other(deployment):
    return Analyst(deployment).run(pca_job(PARTIES, deadline_s=GENEROUS_S))


def command(deployment, *arguments):
    done = CliRunner().invoke(app, [*arguments, "--client", str(deployment.client_config)])
    return done.exit_code, done.output


@pytest.fixture
def file(deployment, view, tmp_path):
    """What `moiety job show --format json` prints."""
    code, shown = command(deployment, "job", "show", view.job_id, "--format", "json")
    assert code == 0
    path = tmp_path / "release.json"
    path.write_text(shown)
    return path


def test_a_job_is_asked_again_by_its_identifier_and_by_its_file_and_nothing_is_paid(deployment, view, file):
    spent = deployment.report("bank", view.job_id)["budget"]
    code, by_job = command(deployment, "answer", view.job_id, "means", "--format", "json")
    assert code == 0
    alone = CliRunner().invoke(app, ["answer", str(file), "means", "--format", "json"])  # no coordinator, no client
    assert (alone.exit_code, alone.output) == (0, by_job)
    means = json.loads(by_job)["table"]
    assert means["column"] == COLUMNS
    true = [VALUES[name].clip(-1, 3).mean(axis=0)[i] for name in PARTIES for i in range(2)]
    for mean, error, exact in zip(means["mean"], means["noise_error"], true, strict=True):
        assert abs(mean - exact) < 6 * error + 1e-3
    code, text = command(deployment, "answer", view.job_id, "correlation", "--columns", "bank.x0,telco.x1")
    assert code == 0
    assert all(part in text for part in ("bank.x0", "privacy", "+- noise"))
    assert deployment.report("bank", view.job_id)["budget"] == spent


def test_in_python_a_release_is_saved_loaded_and_asked(file, tmp_path):
    release = moiety.load(file)
    release.save(tmp_path / "again.json")
    again = moiety.load(tmp_path / "again.json")
    for one in (release, again):
        answer = one.regress("bank.x0", on=["hospital.x1", "telco.x0"])
        assert answer.to_polars().columns[:2] == ["column", "per_unit"]
        assert answer.to_dict() == release.regress("bank.x0", on=["hospital.x1", "telco.x0"]).to_dict()
        assert "+- is half of a 95 % interval" in repr(answer)
        assert answer._repr_html_().startswith("<div>")
    assert again.privacy == release.privacy


def test_a_synthetic_table_is_drawn_from_a_job_and_from_its_file_and_nothing_is_paid(deployment, view, file, tmp_path):
    spent = deployment.report("bank", view.job_id)["budget"]
    asked = ("synthetic", "--rows", "500", "--seed", "3", "--format", "json")
    code, by_job = command(deployment, "answer", view.job_id, *asked, "--out", str(tmp_path / "job.csv"))
    assert code == 0
    alone = CliRunner().invoke(app, ["answer", str(file), *asked, "--out", str(tmp_path / "file.parquet")])
    assert (alone.exit_code, alone.output) == (0, by_job)
    assert deployment.report("bank", view.job_id)["budget"] == spent
    rows = polars.read_parquet(tmp_path / "file.parquet")
    assert (rows.columns, rows.height) == (COLUMNS, 500)
    assert polars.read_csv(tmp_path / "job.csv").equals(rows)
    assert moiety.load(file).synthetic(500, seed=3).rows.equals(rows)
    means = moiety.load(file).means()
    for name, mean, error in zip(COLUMNS, means.mean, means.noise_error, strict=True):
        assert abs(rows[name].mean() - mean) < 6 * error + 0.1
    code, text = command(deployment, "answer", view.job_id, "synthetic", "--out", str(tmp_path / "rows.xlsx"))
    assert (code, "must end in .csv or .parquet" in text) == (2, True)
    code, text = command(deployment, "answer", view.job_id, "means", "--out", str(tmp_path / "rows.csv"))
    assert (code, "only the question synthetic has rows" in text) == (2, True)


def test_what_is_no_release_or_no_question_is_refused_in_words(deployment, view, other, tmp_path):
    code, text = command(deployment, "answer", other.job_id, "means")
    assert (code, "only second-moments and counts are asked again, and this job is of pca" in text) == (2, True)
    code, text = command(deployment, "answer", view.job_id, "mode")
    assert (code, "there is no question 'mode'" in text, "[answer-impossible]" in text) == (2, True, True)
    code, text = command(deployment, "answer", view.job_id, "means", "--columns", "bank.x7")
    assert (code, "the release has no column 'bank.x7'" in text) == (2, True)
    code, text = command(deployment, "answer", view.job_id, "means", "--normal")
    assert (code, "the question means takes no normal" in text) == (2, True)
    code, text = command(deployment, "answer", "0123456789abcdef", "means")
    assert code == 4
    (tmp_path / "notes.txt").write_text("notes")
    code, text = command(deployment, "answer", str(tmp_path / "notes.txt"), "means")
    assert (code, "[result-file-unusable]" in text) == (2, True)


def column_more(fields):
    fields["result"]["columns"].append("bank.x2")


def lopsided(fields):
    fields["result"]["matrix"][0][1] += 1


def of_other_size(fields):
    fields["result"]["matrix"].pop()


def not_a_number(fields):
    fields["result"]["matrix"][0][0] = float("nan")


def of_other_job(fields):
    fields["job"]["inputs"][0]["table"] = "clients"


def without_plan(fields):
    fields["plan"] = None


def less_noise(fields):
    fields["plan"]["party_mu"] = "few"


def of_other_analysis(fields):
    fields["result"]["analysis"] = "pca"


def of_later_version(fields):
    fields["version"] = 2


def without_result(fields):
    fields["result"], fields["state"] = None, "FAILED"


@pytest.mark.parametrize(
    "change",
    [
        column_more,
        lopsided,
        of_other_size,
        not_a_number,
        of_other_job,
        without_plan,
        less_noise,
        of_other_analysis,
        of_later_version,
        without_result,
    ],
)
def test_a_file_whose_parts_do_not_fit_together_is_refused(file, change):
    fields = json.loads(file.read_text())
    change(fields)
    file.write_text(json.dumps(fields))
    with pytest.raises(SavedResultError):
        moiety.load(file).means()
    alone = CliRunner().invoke(app, ["answer", str(file), "means"])
    assert (alone.exit_code, "[result-file-unusable]" in alone.output) == (2, True)
