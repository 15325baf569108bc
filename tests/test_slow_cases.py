"""The list of slow cases names cases that there are; slow tests that take longest begin first."""

import tomllib

import pytest
from long_tests import SLOW_FILES, dealt
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


def test_each_process_begins_with_long_files_and_every_test_is_run_once_in_the_order_of_its_file() -> None:
    items = [f"{file}{number}" for file in "abcdefg" for number in range(5)]
    order = dealt(items, lambda item: item[0], 4, "gcf")
    assert sorted(order) == items
    assert [order[number * 35 // 4] for number in range(4)] == ["g0", "c0", "f0", "d1"]
    for file in "abcdefg":
        assert [item for item in order if item[0] == file] == [f"{file}{number}" for number in range(5)]


def test_long_files_have_slow_tests() -> None:
    for file in SLOW_FILES:
        text = (TESTS / file).read_text()
        assert "mark.slow" in text or any(test.startswith(f"{file}::") for test in SLOW_CASES), file
