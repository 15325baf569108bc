"""Tables in DuckDB files, read by the process that reads them for a party."""

from datetime import date

import duckdb
import polars as pl
import pytest

from party.tables.sources.source import SourceError
from party.tables.sources.sql.duckdb_table import DuckdbTable

N_ROWS = 5000


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("duckdb") / "clinic.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            f"""
            CREATE TABLE visits AS SELECT i::INTEGER AS id, (i % 7)::DECIMAL(9, 2) AS cost, i % 2 = 0 AS smoker,
                'a' || i AS name, DATE '2020-01-01' + (i % 300)::INTEGER AS day, uuid() AS token, 3::HUGEINT AS large
                FROM range({N_ROWS}) t(i);
            CREATE VIEW smokers AS SELECT * FROM visits WHERE smoker;
            CREATE TABLE gaps (x DOUBLE, name VARCHAR);
            INSERT INTO gaps VALUES (NULL, NULL), (1.5, 'é "q"');
            """
        )
    return path


def rows(path, numbers=(), texts=(), start=0, **fields):
    return pl.concat(DuckdbTable(path=path, **fields).batches_from(start, numbers, texts))


def test_values_come_in_their_types_and_in_the_order_in_which_they_were_written(path):
    frame = rows(path, ("cost", "smoker", "large"), ("name", "day", "id", "token"), table="visits")
    assert frame.columns == ["cost", "smoker", "large", "name", "day", "id", "token"]
    assert frame["id"].to_list() == list(range(N_ROWS))
    assert frame.row(8)[:5] == (1.0, 1.0, 3.0, "a8", date(2020, 1, 9))
    assert frame["token"].dtype == pl.String


def test_gaps_stay_gaps_and_text_stays_as_it_is(path):
    assert rows(path, ("x",), ("name",), table="gaps").rows() == [(None, None), (1.5, 'é "q"')]


def test_rows_are_read_from_a_number_on_and_counted(path):
    assert rows(path, (), ("id",), start=N_ROWS - 3, table="main.visits")["id"].to_list() == [
        N_ROWS - 3 + i for i in range(3)
    ]
    assert DuckdbTable(path=path, table="smokers").count_rows() == N_ROWS // 2


def test_a_query_derives_columns_may_end_as_it_likes_and_has_the_order_that_is_declared(path):
    query = "SELECT name, ln(1 + cost) AS log_cost FROM visits WHERE id < 30 -- of the first\n;"
    frame = rows(path, ("log_cost",), ("name",), query=query, order_by=["name"])
    assert frame["name"].to_list() == sorted(f"a{i}" for i in range(30))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"table": "nobody"}, "has no such table"),
        ({"query": "SELECT nobody FROM visits"}, "names a column that the database does not have"),
        ({"query": "SELECT * FROM read_csv('/etc/passwd')"}, "reads other files, which it may not"),
        ({"query": "DROP TABLE visits"}, "is not a single SELECT"),
        ({"query": "SELECT 1; DROP TABLE visits"}, "is not a single SELECT"),
        ({"query": "SELECT name::INTEGER AS id FROM visits"}, "casts a value to a type that it does not fit"),
    ],
)
def test_what_goes_wrong_is_said_in_words_of_our_own(path, fields, said):
    with pytest.raises(SourceError, match=said) as error:
        rows(path, (), ("id",), **fields)
    assert "a0" not in str(error.value)
    assert str(path) not in str(error.value)


def test_a_column_that_is_missing_or_no_number_is_named(path):
    with pytest.raises(SourceError, match="'nobody' is missing"):
        rows(path, (), ("nobody",), table="visits")
    with pytest.raises(SourceError, match="'name' is not numeric"):
        rows(path, ("name",), (), table="visits")


def test_a_file_that_is_none_and_one_that_is_written_meanwhile_are_refused(tmp_path):
    (tmp_path / "none.duckdb").write_bytes(b"id,x\n1,2\n" * 1000)
    with pytest.raises(SourceError, match="cannot be opened"):
        DuckdbTable(path=tmp_path / "none.duckdb", table="t").count_rows()
    with duckdb.connect(str(tmp_path / "open.duckdb")) as writer:
        writer.execute("CREATE TABLE t AS SELECT 1 AS x")
        before = DuckdbTable(path=tmp_path / "open.duckdb", table="t").version()
        with pytest.raises(SourceError, match="another process writes to it"):
            DuckdbTable(path=tmp_path / "open.duckdb", table="t").count_rows()
    assert DuckdbTable(path=tmp_path / "open.duckdb", table="t").version() != before
    assert DuckdbTable(path=tmp_path / "open.duckdb", table="t").count_rows() == 1


def test_either_a_table_or_a_query_is_named(path):
    for fields in ({}, {"table": "visits", "query": "SELECT 1"}):
        with pytest.raises(ValueError, match="one of the two must be given"):
            DuckdbTable(path=path, **fields)


def test_two_tables_of_one_file_are_seen_to_be_the_same_data(path):
    assert DuckdbTable(path=path, table="visits").data() & DuckdbTable(path=path, table="smokers").data()
