import os

import numpy as np
import pytest
from workers import Setting

from analyses.job.job import JobInput
from party.engine.order import TableOrder, declaration_of, packed, unpacked
from party.engine.row_stream import RowStream, can_be_read_in_parts, version_of
from party.tables.config import TableConfig
from party.tables.sources.source import SourceError
from party.tables.table import load_table


class Owner:
    """As much of a party's configuration as a table needs."""

    def __init__(self, table, folder):
        self.name, self.tables, self.data_dir, self.table_memory_mib = "bank", (table,), folder, 8


def written(folder, ending="parquet", n_rows=40_000):
    """Return the declaration of a table with numbers and a category, and the whole table as its party reads it."""
    import polars as pl

    rng = np.random.default_rng(5)
    region = np.array(["north", "south", "west"])[rng.integers(0, 3, n_rows)]
    frame = pl.DataFrame({"x": rng.random(n_rows).round(6), "region": region, "y": rng.integers(0, 9, n_rows)})
    path = folder / f"rows.{ending}"
    frame.write_parquet(path, row_group_size=7000) if ending == "parquet" else frame.write_csv(path)
    table = TableConfig.model_validate(
        {
            "name": "people",
            "path": path,
            "bounds": {"y": (0, 9), "x": (0, 1)},
            "columns": {"region": {"kind": "category", "values": ["north", "south"], "others": "other"}},
        }
    )
    return table, load_table(Owner(table, folder), JobInput(party="bank", table="people"))


def read(stream, height=4096):
    blocks = [stream.block(slice(at, min(at + height, stream.n_rows))) for at in range(0, stream.n_rows, height)]
    return np.concatenate(blocks)


@pytest.mark.parametrize("ending", ["parquet", "csv"])
@pytest.mark.parametrize(
    ("start", "stop"), [(0, 40_000), (0, 4096), (8192, 30_001), (39_999, 40_000), (16_384, 32_768)]
)
def test_a_range_of_rows_is_what_the_party_has_read(tmp_path, ending, start, stop):
    table, whole = written(tmp_path, ending)
    stream = RowStream(table, whole.schema, start, stop, version_of(table))
    assert np.array_equal(read(stream), whole.values[start:stop])


def test_a_range_of_rows_of_a_folder_of_files_goes_over_their_ends(tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    table, whole = written(tmp_path)
    for number, start in enumerate(range(0, 40_000, 9000)):
        import polars as pl

        pl.read_parquet(table.path).slice(start, 9000).write_parquet(folder / f"{number}.parquet")
    parts = TableConfig.model_validate(
        table.model_dump(exclude={"path", "source"}) | {"source": {"kind": "parquet", "path": folder}}
    )
    stream = RowStream(parts, whole.schema, 8192, 28_672, version_of(parts))
    assert np.array_equal(read(stream), whole.values[8192:28_672])


def test_what_a_worker_is_told_of_a_table_reads_the_same_rows(tmp_path):
    table, whole = written(tmp_path)
    order = TableOrder(table=declaration_of(table), version=version_of(table))
    told = TableConfig.model_validate(TableOrder.model_validate_json(order.model_dump_json()).table)
    assert np.array_equal(read(RowStream(told, whole.schema, 5, 5000, order.version)), whole.values[5:5000])


def test_a_worker_is_told_nothing_of_ids_persons_and_budgets(tmp_path):
    setting = Setting(tmp_path)
    table = setting.tables["bank"].model_copy(update={"id_column": "patient", "person_column": "person"})
    assert set(declaration_of(table)) == {"name", "source", "bounds", "columns"}


def test_a_file_that_changes_is_refused_at_the_beginning_and_at_the_end(tmp_path):
    table, whole = written(tmp_path)
    version = version_of(table)
    stream = RowStream(table, whole.schema, 0, 8192, version)
    stream.block(slice(0, 4096))
    status = table.path.stat()
    os.utime(table.path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    with pytest.raises(SourceError, match="changed"):
        stream.block(slice(4096, 8192))
    with pytest.raises(SourceError, match="changed"):
        RowStream(table, whole.schema, 0, 8192, version)


def test_a_file_with_fewer_rows_is_refused(tmp_path):
    table, whole = written(tmp_path)
    stream = RowStream(table, whole.schema, 39_000, 41_000, version_of(table))
    with pytest.raises(SourceError, match="changed"):
        stream.block(slice(0, 2000))


def test_rows_are_taken_once_and_in_order(tmp_path):
    table, whole = written(tmp_path)
    stream = RowStream(table, whole.schema, 0, 8192, version_of(table))
    with pytest.raises(ValueError, match="row 0 is the next one"):
        stream.block(slice(10, 20))


def test_only_rows_in_the_order_of_files_can_be_read_in_parts(tmp_path):
    table, _ = written(tmp_path)
    assert can_be_read_in_parts(table)
    query = {"kind": "query", "files": {"t": table.path}, "query": "select * from t"}
    postgres = {"kind": "postgres", "url": "postgresql://ada@db:5432/rows", "table": "people"}
    for source in (query, postgres):
        fields = table.model_dump(exclude={"path", "source"}) | {"source": source}
        assert not can_be_read_in_parts(TableConfig.model_validate(fields))
    matching = {"columns": ["id"]}
    assert not can_be_read_in_parts(TableConfig.model_validate(table.model_dump() | {"matching": matching}))


@pytest.mark.parametrize("n_rows", [1, 8, 4097])
def test_which_rows_count_survives_packing(n_rows):
    counting = np.random.default_rng(n_rows).random(n_rows) < 0.5
    assert np.array_equal(unpacked(packed(counting), n_rows), counting)
    assert unpacked(packed(None), n_rows) is None
