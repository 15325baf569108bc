"""Responses on disk: the promises of every store of surveys, and those of a file."""

import stat

import pytest
from device_store_contracts import SurveyStoreContract

from coordinator.surveys.sqlite_store import SqliteSurveyStore
from coordinator.surveys.store import SurveyStoreError


class TestSqliteSurveyStore(SurveyStoreContract):
    def open(self, folder):
        return SqliteSurveyStore(folder / "surveys.sqlite")

    def test_nobody_else_may_read_the_file(self, store, tmp_path):
        assert stat.S_IMODE((tmp_path / "surveys.sqlite").stat().st_mode) == 0o600

    def test_a_second_process_is_refused(self, store, tmp_path):
        with pytest.raises(SurveyStoreError, match="cannot be used"):
            self.open(tmp_path)
