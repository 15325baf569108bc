"""The list of slow cases names cases that there are."""

import tomllib

import pytest
from slow_cases import MISFITS, SLOW_CASES, TESTS


def test_every_name_of_slow_cases_fits_a_case(request: pytest.FixtureRequest) -> None:
    assert request.config.stash[MISFITS] == []


def test_every_entry_names_a_test_and_says_why() -> None:
    for test, case in SLOW_CASES.items():
        file, _, name = test.partition("::")
        assert f"def {name}(" in (TESTS / file).read_text(), test
        assert set(case) in ({"test", "why", "quick"}, {"test", "why", "slow"}), test


def test_no_test_has_two_entries() -> None:
    tests = [case["test"] for case in tomllib.loads((TESTS / "slow_cases.toml").read_text())["cases"]]
    assert len(tests) == len(set(tests)) == len(SLOW_CASES)
