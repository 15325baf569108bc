import numpy as np
import pytest

from analyses.job.schema import BlockSchema, ColumnSchema, Table
from analyses.rows.integer_column import IntegerColumn, JoinedColumns
from analyses.rows.integer_rows import CountRows, IndicatorRows

COLUMN = IntegerColumn("bank.code", -1, 2)
VALUES = [-1.0, 0.4, 7.0, 2.0, -3.5, 1.0, 1.0]


@pytest.fixture
def table():
    schema = BlockSchema(party="bank", columns=(ColumnSchema(name="code", lower=-1, upper=2),))
    return Table(schema, np.array(VALUES)[:, None])


def in_blocks(rows, height):
    return np.concatenate([rows(slice(start, start + height)) for start in range(0, len(VALUES), height)])


@pytest.mark.parametrize("height", [1, 3, 7])
def test_blocks_of_indicators_and_what_was_mapped_are_those_of_the_whole_column(table, height):
    rows = IndicatorRows(JoinedColumns((COLUMN,)), table, None)
    places, n_mapped = COLUMN.places(table.values)
    assert in_blocks(rows, height).tolist() == [[int(place == i) for i in range(3)] for place in places]
    report = rows.report()
    assert (report.n_rows, report.clipped_values, report.clipped_rows) == (7, {"code": 0}, 0)
    assert report.mapped_values == {"code": n_mapped} == {"code": 3}


@pytest.mark.parametrize("height", [1, 3, 7])
def test_blocks_of_counts_and_what_was_clipped_are_those_of_the_whole_column(table, height):
    rows = CountRows(2, table, None)
    counts, n_clipped, n_rounded = COLUMN.clipped(table, 2)
    assert in_blocks(rows, height).tolist() == counts.tolist() == [0, 0, 2, 2, 0, 1, 1]
    report = rows.report()
    assert report.clipped_values == {"code": n_clipped} == {"code": 3}
    assert report.mapped_values == {"code": n_rounded} == {"code": 2}


def test_rows_that_do_not_count_are_zero_and_counted_as_surplus(table):
    counting = np.array([True, True, False, True, True, False, True])
    for rows in (IndicatorRows(JoinedColumns((COLUMN,)), table, counting), CountRows(2, table, counting)):
        found = in_blocks(rows, 2).reshape(7, -1)
        assert not found[~counting].any()
        assert rows.report().surplus_rows == 2
