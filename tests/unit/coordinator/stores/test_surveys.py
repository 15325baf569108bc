"""Responses on disk: the promises of a file."""

import stat

import pytest
from stores import surveys_in

from coordinator.stores.surveys import SurveyStoreError


def test_the_file_is_for_its_owner_and_one_process(tmp_path):
    store = surveys_in(tmp_path / "surveys.sqlite")
    assert stat.S_IMODE((tmp_path / "surveys.sqlite").stat().st_mode) == 0o600
    with pytest.raises(SurveyStoreError, match="cannot be used"):
        surveys_in(tmp_path / "surveys.sqlite")
    store.close()
