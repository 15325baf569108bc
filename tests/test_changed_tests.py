"""`make quick` runs the tests of what changed, and of what may import it."""

import pytest
from changed_tests import ALWAYS, changed_files, chosen_tests, rooms_above, sub_rooms_of

from tests.test_layers import MAY_IMPORT, REPOSITORY


def unit(*rooms):
    return {f"tests/unit/{room}" for room in rooms}


def test_of_a_room_its_own_tests_and_those_of_the_rooms_above_are_run():
    assert set(chosen_tests(["cli/job.py"])) == unit("cli", "demo") | set(ALWAYS)
    above = rooms_above("entropy")
    with_tests = [room for room in MAY_IMPORT if room in above and (REPOSITORY / "tests/unit" / room).exists()]
    assert "verify" not in above
    assert set(chosen_tests(["entropy/source.py"])) >= unit(*with_tests)
    assert not set(chosen_tests(["party/gate.py"])) & unit("coordinator", "analyst", "analyses")


def test_of_a_sub_room_only_those_that_may_import_it_are_run():
    found = set(chosen_tests(["analyses/pca/plan.py"]))
    assert unit("analyses/pca", "analyses/low_rank", "party", "coordinator", "page") <= found
    assert "tests/unit/analyses/test_registry.py" in found
    assert not found & unit("analyses", "analyses/clustering", "analyses/rows")
    assert sub_rooms_of("coordinator", "stores") == {"stores", "questions"}
    assert sub_rooms_of("coordinator", "leading") == {"leading"}
    assert rooms_above("transport") >= {"party", "coordinator", "analyst"}


@pytest.mark.parametrize("path", ["tests/services/test_pca_job.py", "tests/unit/party/test_gate.py"])
def test_a_test_that_changed_is_run(path):
    assert set(chosen_tests([path])) == {path, *ALWAYS}


def test_of_what_tests_share_all_that_import_it_are_run():
    found = chosen_tests(["tests/support/circuits.py"])
    assert {"tests/protocols/test_survival.py", "tests/protocols/test_faults_at_every_message.py"} <= set(found)
    assert "tests/protocols/test_many_owners.py" not in found
    assert "tests/test_changed_tests.py" in chosen_tests(["tests/support/changed_tests.py"])


def test_nothing_is_run_twice_and_nothing_where_nothing_changed():
    assert chosen_tests([]) == []
    found = chosen_tests(["party/gate.py", "tests/unit/party/test_gate.py"])
    assert "tests/unit/party/test_gate.py" not in found


def test_what_differs_from_a_commit_is_found():
    assert changed_files("HEAD") == changed_files("HEAD")
    assert set(changed_files("HEAD")) <= set(changed_files("HEAD~3"))
