"""The tool of `make mutation`: every module has tests that it is changed against, and samples are what they claim."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def _tool(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "mutation"))
    yield
    for name in ("sample", "tests_of_modules"):
        sys.modules.pop(name, None)


def test_every_module_of_the_rooms_has_test_files_that_exist():
    from tests_of_modules import MAX_FILES, modules, tests_of

    names = modules(ROOT)
    assert {"mpc/secagg/member/machine.py", "dp/cost/events/skellam.py", "ledger/chain.py"} <= set(names)
    for name in names:
        tests = tests_of(name, ROOT)
        assert 1 <= len(tests) <= MAX_FILES, name
        assert len(set(tests)) == len(tests)
        assert all((ROOT / test).is_file() for test in tests)


def test_the_mirror_comes_first_then_what_imports_the_module():
    from tests_of_modules import tests_of

    assert tests_of("mpc/arithmetic/shamir.py", ROOT)[0] == "tests/unit/mpc/arithmetic/test_shamir.py"
    assert tests_of("mpc/secagg/member/machine.py", ROOT)[0] == "tests/unit/mpc/secagg/test_member.py"
    assert tests_of("dp/cost/losses/distribution.py", ROOT)[0] == "tests/accounting/test_loss_distributions.py"


def test_samples_of_one_seed_continue_each_other_and_repeat_nothing():
    from sample import drawn

    changes = list(range(1000))
    whole = drawn(changes, 5, 60)
    assert drawn(changes, 5, 20) + drawn(changes, 5, 40, skip=20) == whole
    assert len(set(whole)) == 60
    assert drawn(changes, 6, 60) != whole
    assert changes == list(range(1000))


def test_the_interval_is_that_of_wilson():
    from sample import interval

    assert interval(81, 100) == pytest.approx((0.7222, 0.8749), abs=1e-4)
    assert interval(10, 10)[1] == pytest.approx(1.0)
    assert interval(0, 10)[0] == pytest.approx(0.0)
