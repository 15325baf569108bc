"""The list of cases that repeat, for other parameters, what quick ones show (`slow_cases.toml`)."""

import fnmatch
import tomllib
from collections.abc import Iterable
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
SLOW_CASES = {case["test"]: case for case in tomllib.loads((TESTS / "slow_cases.toml").read_text())["cases"]}
MISFITS = pytest.StashKey[list[str]]()
"""Names of the list that fitted none of the cases collected."""


def fits(parameters: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(parameters, pattern) for pattern in patterns)
