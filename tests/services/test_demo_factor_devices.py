"""`moiety demo factor-devices`, `moiety sum` and `moiety device recommend` as a user runs them: real processes."""

import json
import subprocess

import pytest
from commands import moiety


@pytest.mark.slow
def test_a_second_question_starts_from_the_first_answer_and_a_film_that_nobody_rated_is_among_the_recommended(tmp_path):
    options = ("--devices", 5, "--killed", 0, "--again", "--seed", 5, "--keep", tmp_path / "kept", "--format", "json")
    done = moiety("demo", "factor-devices", *options)
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    answer, later = outcome["answer"], outcome["later"]
    assert outcome["is_consistent"]
    assert answer["regression"]
    assert later["model_digest"] != answer["model_digest"]
    assert [len(one["survivors"]) for one in later["rounds"]] == [5, 5, 5]
    refused = moiety("demo", "factor-devices", "--again", "--form", "sgd")
    assert "--again: a question of the form sgd starts from no earlier answer" in refused.stderr
    config = tmp_path / "kept" / "services" / f"{outcome['recommending']}.toml"
    (tmp_path / "new.csv").write_text("film-new, 1\n")
    shown = moiety("device", "recommend", "--config", config, "--top", 31, "--new", tmp_path / "new.csv")
    assert "film-new" in shown.stdout


@pytest.mark.slow
def test_killed_devices_leave_one_model_for_all_and_nothing_running(tmp_path):
    """In the form sgd, whose rounds are sampled; `tests/services/test_factor_device_crashes.py` kills in both forms."""
    folder, form = tmp_path / "kept", "sgd"
    options = ("--devices", 6, "--killed", 2, "--form", form, "--seed", 5, "--keep", folder, "--format", "json")
    done = moiety("demo", "factor-devices", *options)
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    assert outcome["is_consistent"]
    assert outcome["answer"]["form"] == form
    assert len(outcome["killed_after_s"]) == 2
    answer = outcome["answer"]
    assert len(answer["rounds"]) == answer["rounds_planned"] == 3
    assert all(len(one["survivors"]) >= 4 for one in answer["rounds"])
    assert outcome["n_kept"] >= 1
    assert str(folder) not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    config = folder / "services" / f"{outcome['recommending']}.toml"
    path = tmp_path / "answer.json"
    path.write_text(json.dumps(answer))
    options = ("--config", config, "--top", 3, "--format", "json")
    kept = moiety("device", "recommend", *options)
    brought = moiety("device", "recommend", *options, "--model", path)
    found = [(one["item"], one["rating"]) for one in json.loads(kept.stdout)]
    assert found == [tuple(one) for one in outcome["recommended"]]
    assert json.loads(brought.stdout) == json.loads(kept.stdout)
    rated = {item for item, _ in json.loads(config.with_suffix(".json").read_text())["ratings"]}
    assert not rated & {item for item, _ in found}
    report = moiety("device", "report", "--config", config)
    assert len(report.stdout.split()) == 3
