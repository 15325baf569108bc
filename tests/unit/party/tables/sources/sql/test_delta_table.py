"""Tables of Delta Lake, read by the process that reads them for a party."""

import polars as pl
import pytest

from party.tables.sources.file import DELTA_LOG
from party.tables.sources.source import SourceError
from party.tables.sources.sql import selection
from party.tables.sources.sql.delta_table import DeltaTable

FRAME = pl.DataFrame({"id": ["007", "8", "B", "a"], "x": [0.5, None, -1.0, 2.0], "smoker": [True, False, None, True]})


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "lake of a clinic"
    FRAME.reverse().write_delta(str(path))
    return path


def rows(path, numbers=("x", "smoker"), texts=("id",), start=0, order_by=("id",)):
    return pl.concat(DeltaTable(path=path, order_by=order_by).batches_from(start, numbers, texts))


def test_values_come_in_their_types_and_in_the_order_that_is_declared(path):
    assert rows(path).rows() == [(0.5, 1.0, "007"), (None, 0.0, "8"), (-1.0, None, "B"), (2.0, 1.0, "a")]
    assert rows(path, start=3).rows() == [(2.0, 1.0, "a")]
    assert sorted(rows(path, order_by=())["id"]) == sorted(FRAME["id"])


def test_the_newest_version_is_read_and_a_change_is_seen(path):
    before = DeltaTable(path=path).version()
    FRAME.head(1).write_delta(str(path), mode="append")
    assert DeltaTable(path=path).version() != before
    assert DeltaTable(path=path).count_rows() == 5
    FRAME.head(2).write_delta(str(path), mode="overwrite")
    assert rows(path)["id"].to_list() == ["007", "8"]


def test_a_column_by_which_a_table_is_partitioned_is_one_of_its_columns(tmp_path):
    path = tmp_path / "parted"
    FRAME.with_columns(region=pl.Series(["n", "s", "n", "s"])).write_delta(
        str(path), delta_write_options={"partition_by": ["region"]}
    )
    assert rows(path, (), ("region", "id"))["region"].to_list() == ["n", "s", "n", "s"]


@pytest.mark.parametrize("start", [0, 700, 29_990])
def test_batches_have_about_as_many_values_whatever_the_engine_sends_at_once(tmp_path, monkeypatch, start):
    path, n_rows, cells = tmp_path / "many", 30_000, 40_000
    pl.DataFrame({"id": range(n_rows), "x": [0.5] * n_rows}).write_delta(str(path))
    monkeypatch.setattr(selection, "CELLS", cells)
    found = list(DeltaTable(path=path, order_by=("id",)).rows_here(start, ("x",), ("id",)))
    assert pl.concat(found)["id"].to_list() == list(range(start, n_rows))
    sent_at_once = 8192 * 2
    assert all(cells <= batch.height * batch.width < cells + sent_at_once for batch in found[:-1])
    assert len(found) == (2 if start < 1000 else 1)


def test_a_column_that_is_missing_or_no_number_is_named(path):
    with pytest.raises(SourceError, match="'nobody' is missing"):
        rows(path, (), ("nobody",))
    with pytest.raises(SourceError, match="'id' is not numeric"):
        rows(path, ("id",), ())


def test_what_is_no_table_or_damaged_is_refused_in_words_of_our_own(path, tmp_path):
    assert DeltaTable(path=path).is_there()
    assert not DeltaTable(path=tmp_path).is_there()
    with pytest.raises(SourceError, match="missing or unreadable"):
        DeltaTable(path=tmp_path).version()
    for file in path.glob("*.parquet"):
        file.write_bytes(file.read_bytes()[:50])
    with pytest.raises(SourceError, match="cannot be read") as error:
        rows(path)
    assert str(path) not in str(error.value)
    for file in (path / DELTA_LOG).iterdir():
        file.write_bytes(b"{}")
    with pytest.raises(SourceError, match="cannot be read as a table of Delta Lake"):
        DeltaTable(path=path).count_rows()
