"""Ids of rows, batch by batch: the digest of all in their order, and whether two are the same."""

import os

import numpy as np
import polars as pl
import pytest

from analyses.job.row_ids import digest_of_ids
from party.tables import id_column
from party.tables.id_column import IdColumn
from party.tables.kept_values import KeptValues
from party.tables.rows_of_source import read_rows
from party.tables.sources.columnar_file import ParquetFile
from party.tables.sources.source import SourceError

IDS = [f"row {number}" for number in range(20)]


def collected(path, ids, passes=None):
    """Write a file of ids and collect them in batches of 6."""
    pl.DataFrame({"id": ids}).write_parquet(path)
    column = IdColumn("id", ParquetFile(path=path))
    for start in range(0, len(ids), 6):
        part = slice(start, start + 6)
        column.add(pl.Series("id", ids[part]), None if passes is None else passes[part])
    return column


def test_the_digest_is_that_of_the_rows_that_pass_in_their_order(tmp_path):
    passes = np.arange(20) % 3 > 0
    for mask, of_them in [(None, IDS), (passes, [one for one, is_in in zip(IDS, passes, strict=True) if is_in])]:
        column = collected(tmp_path / "ids.parquet", IDS, mask)
        column.check()
        assert column.digest() == digest_of_ids(of_them)


@pytest.mark.parametrize(
    "ids", [["ä", "a\x00b", "\U0001f600" * 100, " "], [7, -12, 10**15], ["x" * n for n in range(1, 300)]]
)
def test_the_digest_is_that_of_any_texts_and_of_whole_numbers_as_their_digits(tmp_path, ids):
    assert collected(tmp_path / "ids.parquet", ids).digest() == digest_of_ids(map(str, ids))


def test_the_digest_is_that_of_no_ids_where_no_row_passes(tmp_path):
    assert collected(tmp_path / "ids.parquet", IDS, np.zeros(20, dtype=bool)).digest() == digest_of_ids([])


@pytest.mark.parametrize("hashes", ["their own", "all alike"])
def test_repeated_ids_are_refused_and_equal_hashes_are_not(tmp_path, monkeypatch, hashes):
    if hashes == "all alike":
        monkeypatch.setattr(id_column, "hashes_of", lambda ids, seed: np.full(len(ids), 7, dtype=np.uint64))
    collected(tmp_path / "ids.parquet", IDS).check()
    for first, second in [(0, 1), (0, 19), (5, 6)]:
        ids = list(IDS)
        ids[second] = ids[first]
        for passes in (None, np.arange(20) != first):  # a filter hides nothing of what rules a table out
            with pytest.raises(SourceError, match="names a row twice"):
                collected(tmp_path / "ids.parquet", ids, passes).check()


def test_a_source_that_changes_before_equal_hashes_are_looked_at_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(id_column, "hashes_of", lambda ids, seed: np.full(len(ids), 7, dtype=np.uint64))
    column = collected(tmp_path / "ids.parquet", IDS)
    os.utime(tmp_path / "ids.parquet", ns=(1, 1))
    with pytest.raises(SourceError, match="changed"):
        column.check()


def test_a_source_without_versions_is_not_read_again(tmp_path, monkeypatch):
    monkeypatch.setattr(id_column, "hashes_of", lambda ids, seed: np.full(len(ids), 7, dtype=np.uint64))
    monkeypatch.setattr(ParquetFile, "version", lambda self: None)
    with pytest.raises(SourceError, match="names a row twice"):
        collected(tmp_path / "ids.parquet", IDS).check()


@pytest.mark.parametrize(("ids", "what"), [(["a", ""], "empty"), (["a", None], "empty"), ([1.5, 2.0], "neither text")])
def test_what_is_wrong_with_ids_is_told_at_the_end(tmp_path, ids, what):
    column = collected(tmp_path / "ids.parquet", ids)
    with pytest.raises(SourceError, match=what):
        column.check()


def test_ids_that_are_only_compared_are_not_kept(make_config, tmp_path):
    n_rows = 50_000
    frame = pl.DataFrame(
        {"visit": [f"a visit with a long name, number {i}" for i in range(n_rows)], "age": range(n_rows)}
    )
    frame.write_parquet(tmp_path / "visits.parquet")
    config = make_config(path="visits.parquet", bounds={"age": [0, 120]}, id_column="visit")
    (table,) = config.tables
    column = IdColumn("visit", table.make_source())
    read = read_rows(table, table.encoded, (), KeptValues(1, 1 << 20, tmp_path), None, ids=column)
    assert not read.keys
    column.check()
    assert column.n_bytes == 8 * n_rows
