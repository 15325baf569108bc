"""Values of tables: in memory up to a limit, in a file without a name beyond it, and alike for who reads them."""

import os
import tracemalloc
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from analyses.job.job import JobInput
from analyses.job.schema import BlockSchema, ColumnSchema, Table
from party.tables.kept_values import KeptValues, kept_words
from party.tables.sources.source import SourceError
from party.tables.table import UnusableTableError, load_table

BLOCKS = [np.arange(12.0).reshape(4, 3), np.arange(12.0, 27.0).reshape(5, 3), -np.ones((1, 3))]
COLUMNS = tuple(ColumnSchema(name=f"x{i}", lower=-1, upper=30) for i in range(3))


def kept(folder, most_bytes):
    values = KeptValues(3, most_bytes, folder)
    for block in BLOCKS:
        values.append(block)
    return values


@pytest.mark.parametrize("most_bytes", [240, 239, 96, 0])
def test_rows_are_the_same_wherever_they_are_kept_and_the_file_has_no_name(tmp_path, most_bytes):
    values = kept(tmp_path / "data", most_bytes).finish()
    table = Table(BlockSchema(party="north", columns=COLUMNS), values)
    assert np.array_equal(values, np.vstack(BLOCKS))
    assert not values.flags.writeable
    for start in range(0, 10, 4):
        assert np.array_equal(table.block(slice(start, start + 4)), np.vstack(BLOCKS)[start : start + 4])
    assert (tmp_path / "data").is_dir() == (most_bytes < 240)
    assert not (tmp_path / "data").is_dir() or os.listdir(tmp_path / "data") == []


def test_a_file_that_cannot_be_written_rules_the_table_out(tmp_path):
    (tmp_path / "data").write_text("no folder")
    with pytest.raises(SourceError, match="table_memory_mib"):
        kept(tmp_path / "data", 0)


@pytest.mark.parametrize("most_bytes", [240, 239])
def test_words_are_kept_wherever_there_is_room_and_the_file_has_no_name(tmp_path, most_bytes):
    words = kept_words((2, 5, 3), most_bytes, tmp_path / "data")
    words[:] = np.arange(30, dtype=np.uint64).reshape(2, 5, 3)
    words[1, 2] += np.uint64(2**63)
    assert words.sum(dtype=object) == 435 + 3 * 2**63
    assert (tmp_path / "data").is_dir() == (most_bytes < 240)
    assert not (tmp_path / "data").is_dir() or os.listdir(tmp_path / "data") == []


def test_words_without_a_place_are_refused_before_any_is_written(tmp_path):
    (tmp_path / "data").write_text("no folder")
    with pytest.raises(SourceError, match="table_memory_mib"):
        kept_words((1, 5, 3), 0, tmp_path / "data")


def test_rows_are_in_memory_once_also_while_they_are_collected(tmp_path):
    block, n_blocks = np.ones((1 << 12, 8)), 32  # 8 MiB in all
    tracemalloc.start()
    try:
        values = KeptValues(8, n_blocks * block.nbytes, tmp_path)
        for _ in range(n_blocks):
            values.append(block.copy())
        assert values.finish().nbytes == n_blocks * block.nbytes
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < (n_blocks + 3) * block.nbytes


def resident_of(folder):
    """Return how many KiB of files in a folder are mapped, and how many of these are in memory."""
    mapped = resident = 0
    is_there = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split()[0]:
            is_there = str(folder) in line
        elif is_there and line.startswith(("Size:", "Rss:")):
            n_kib = int(line.split()[1])
            mapped, resident = (mapped + n_kib, resident) if line.startswith("Size:") else (mapped, resident + n_kib)
    return mapped, resident


def test_values_beyond_the_limit_are_in_memory_only_as_far_as_they_are_read(make_config, tmp_path):
    n_rows, n_columns = 1 << 16, 32  # 16 MiB
    drawn = np.random.default_rng(7).random(n_rows)
    frame = pl.DataFrame({f"x{i}": drawn + i for i in range(n_columns)})
    frame.write_parquet(tmp_path / "visits.parquet", row_group_size=1 << 14)
    bounds = {f"x{i}": [0, 1] for i in range(n_columns)}
    config = make_config(path="visits.parquet", bounds=bounds).model_copy(update={"table_memory_mib": 1})
    table = load_table(config, JobInput(party="north", table="visits"))
    for start in range(0, n_rows, 4096):
        rows = slice(start, start + 4096)
        assert np.array_equal(table.block(rows)[:, 5], drawn[rows] + 5)
    mapped, resident = resident_of(config.data_dir)
    assert mapped == 16 << 10
    assert resident == 0
    assert np.array_equal(table.values[:, 5], drawn + 5)
    assert resident_of(config.data_dir)[1] > 0


def test_a_table_with_more_rows_than_declared_is_not_read_to_its_end(make_config, tmp_path, monkeypatch):
    pl.DataFrame({"age": np.zeros(100_000)}).write_parquet(tmp_path / "visits.parquet")
    appended = []
    monkeypatch.setattr(KeptValues, "append", lambda self, block: appended.append(len(block)) or _count(self, block))
    config = make_config(path="visits.parquet", bounds={"age": [0, 120]}, rows=[1, 10])
    with pytest.raises(UnusableTableError) as caught:
        load_table(config, JobInput(party="north", table="visits"))
    assert "outside the range" in caught.value.detail
    assert sum(appended) < 100_000


def _count(kept, block):
    kept.n_rows += len(block)
