import json

import pytest
from typer.testing import CliRunner

from cli.audit_targets import TARGETS
from cli.main import app
from dp.audit import audit
from entropy import InsecureTestEntropy


@pytest.mark.parametrize("name", list(TARGETS))
def test_sound_mechanisms_withstand_and_every_faulty_one_is_caught(name):
    entry = TARGETS[name]
    found = audit(entry.make(), InsecureTestEntropy(f"audit {name}"), n_runs=entry.n_runs)
    assert found.is_beaten is not entry.is_sound


@pytest.mark.parametrize("name", [name for name, entry in TARGETS.items() if entry.is_sound])
def test_the_claims_of_sound_mechanisms_are_not_so_loose_that_nothing_could_beat_them(name):
    entry = TARGETS[name]
    found = audit(entry.make(), InsecureTestEntropy(f"tightness {name}"), n_runs=entry.n_runs // 4)
    assert found.epsilon_bound > 0.5 * found.claim.epsilon


def test_the_finding_is_printed_as_json_and_ends_with_0_if_it_is_as_expected():
    done = CliRunner().invoke(app, ["audit", "faulty-float-laplace", "--format", "json"])
    assert done.exit_code == 0
    (found,) = json.loads(done.stdout)
    assert found["is_beaten"] is True
    assert found["epsilon_at_least"] > found["claimed_epsilon"]


def test_a_faulty_mechanism_that_is_not_caught_ends_with_1():
    done = CliRunner().invoke(app, ["audit", "faulty-laplace", "--runs", "1000"])
    assert done.exit_code == 1
    assert "withstands, NOT AS EXPECTED" in done.stdout


def test_an_unknown_name_is_a_usage_error_that_lists_the_known_ones():
    done = CliRunner().invoke(app, ["audit", "nothing"])
    assert done.exit_code == 2
    assert "faulty-sketch" in done.output
