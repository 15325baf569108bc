"""The seam for places where rows lie: any `TableSource` that a configuration names is checked like a file."""

import traceback
from collections.abc import Iterator, Sequence
from typing import ClassVar

import polars as pl
import pytest
from pydantic import SecretStr, ValidationError

from analyses.job.job import JobInput
from party.tables.sources.registry import SOURCES
from party.tables.sources.source import SourceError, TableSource
from party.tables.table import TableReader, UnusableTableError, count_rows, describe_table, is_there, load_table
from service.settings import explain_fields

AGE = pl.Series("age", [31, 4])
STAY = pl.Series("stay", [2.5, 1.0])
PATIENT = pl.Series("patient", ["007", "8"])


class Shelf(TableSource):
    """Columns from a test's own list; every call is noted."""

    url: SecretStr
    calls: ClassVar = []
    columns: ClassVar = []
    version_now: ClassVar = None

    def is_there(self) -> bool:
        return bool(self.columns)

    def version(self) -> int | None:
        return self.version_now

    def batches(self, numbers: Sequence[str], texts: Sequence[str]) -> Iterator[pl.DataFrame]:
        self.calls.append((tuple(numbers), tuple(texts)))
        for start in range(0, len(self.columns[0]), 1):
            yield pl.DataFrame([column[start : start + 1] for column in self.columns])

    def count_rows(self) -> int:
        return len(self.columns[0])


@pytest.fixture
def shelf(monkeypatch):
    monkeypatch.setitem(SOURCES, "shelf", Shelf)
    monkeypatch.setattr(Shelf, "calls", [])
    monkeypatch.setattr(Shelf, "version_now", None)
    monkeypatch.setattr(Shelf, "columns", [AGE, STAY, PATIENT])
    return Shelf


@pytest.fixture
def config(make_config, shelf):
    return make_config(path=None, source={"kind": "shelf", "url": "db://me:secret-1@host"}, id_column="patient")


def asks_for(*columns):
    return JobInput(party="north", table="visits", columns=columns)


def test_a_table_is_described_without_its_source_and_read_from_it_once(config, shelf):
    describe_table(config, asks_for("age", "stay"))
    assert shelf.calls == []
    table = load_table(config, asks_for("age", "stay"))
    assert table.values.tolist() == [[31.0, 2.5], [4.0, 1.0]]
    assert shelf.calls == [(("age", "stay"), ("patient",))]
    assert count_rows(config, "visits") == 2


def test_a_source_that_cannot_tell_versions_is_read_for_every_job(config, shelf):
    reader = TableReader()
    for _ in range(2):
        reader.load(config, asks_for("age", "stay"))
    assert len(shelf.calls) == 2
    shelf.version_now = 7
    for _ in range(2):
        reader.load(config, asks_for("age", "stay"))
    assert len(shelf.calls) == 3
    shelf.version_now = 8
    reader.load(config, asks_for("age", "stay"))
    assert len(shelf.calls) == 4


BROKEN = {
    "column 'age' was asked for, and another one came": [STAY, AGE, PATIENT],
    "column 'stay' was asked for, and another one came": [AGE],
    "column 'more' was read, but was not requested": [AGE, STAY, PATIENT, AGE.alias("more")],
    "column 'stay' is not numeric": [AGE, pl.Series("stay", ["secret-7", "1"]), PATIENT],
    "column 'stay' has an empty value": [AGE, pl.Series("stay", [None, 1.0]), PATIENT],
    "column 'age' has a value that is not a number": [pl.Series("age", [float("nan"), 1.0]), STAY, PATIENT],
    "it has no rows": [AGE.head(0), STAY.head(0), PATIENT.head(0)],
    "id column 'patient' names a row twice": [AGE, STAY, pl.Series("patient", ["secret-7"] * 2)],
    "id column 'patient' holds neither text nor whole numbers": [AGE, STAY, pl.Series("patient", [0.5, 1.5])],
}


@pytest.mark.parametrize("complaint", BROKEN)
def test_what_must_hold_for_every_table_is_checked_for_every_source(config, shelf, complaint):
    shelf.columns = BROKEN[complaint]
    with pytest.raises(UnusableTableError) as caught:
        load_table(config, asks_for("age", "stay"))
    assert complaint in caught.value.detail
    assert "secret" not in "".join(traceback.format_exception(caught.value)) + caught.value.detail


def test_an_error_of_a_source_reaches_the_owner_and_not_the_public(config, shelf, monkeypatch):
    def batches(self, numbers, texts):
        raise SourceError("the database does not answer")

    monkeypatch.setattr(shelf, "batches", batches)
    with pytest.raises(UnusableTableError) as caught:
        load_table(config, asks_for("age"))
    assert "database" not in str(caught.value)
    assert caught.value.detail == "the database does not answer"


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"path": None}, "give exactly one of the two"),
        ({"source": {"kind": "csv", "path": "visits.csv"}}, "give exactly one of the two"),
        ({"path": None, "source": {"kind": "punched cards"}}, "kind: must be one of 'csv', 'parquet'"),
        ({"path": None, "source": {"url": "db://"}}, "kind: must be one of"),
        ({"path": None, "source": {"kind": "csv"}}, "path: missing"),
        ({"path": None, "source": {"kind": "csv", "path": "a.csv", "table": "secret-1"}}, "there is no such field"),
        ({"path": None, "source": {"kind": "shelf", "url": ["db://me:secret-1@host"]}}, "url: must be text"),
    ],
)
def test_a_section_that_cannot_be_used_is_refused_by_name_and_shows_no_secret(make_config, shelf, table, words):
    with pytest.raises(ValidationError) as caught:
        make_config(**table)
    text = "\n".join(explain_fields(caught.value))
    assert words in text
    assert "secret" not in text


def test_a_file_may_be_named_by_a_section_whatever_the_end_of_its_name(make_config, tmp_path):
    (tmp_path / "visits.txt").write_text("age,stay\n1,2\n")
    config = make_config(path=None, source={"kind": "csv", "path": "visits.txt"})
    assert load_table(config, asks_for("age")).values.tolist() == [[1.0]]


def test_whether_a_source_is_there_can_be_asked_without_reading(config, shelf, make_config, tmp_path):
    assert is_there(config.tables[0])
    assert not is_there(make_config().tables[0])
    assert not is_there(make_config(path="visits.xlsx").tables[0])
    (tmp_path / "visits.csv").touch()
    assert is_there(make_config().tables[0])
    assert shelf.calls == []
    assert "secret" not in repr(config)
