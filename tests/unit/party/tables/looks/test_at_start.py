"""What a service's log says of its tables after the start: names of tables and columns, never a value."""

import asyncio

import polars as pl
import pytest
from structlog.testing import capture_logs

from party.tables.looks.at_start import looking, warn_of_declarations, warn_of_tables
from party.tables.table import is_there


def told(config):
    with capture_logs() as logs:
        asyncio.run(warn_of_tables(config.tables))
    return [{key: value for key, value in one.items() if key in ("event", "columns", "reason")} for one in logs]


@pytest.mark.real_time
def test_what_no_job_can_use_and_columns_that_lose_nearly_all_values_are_told_without_a_value(make_config, tmp_path):
    path = tmp_path / "visits.csv"
    path.write_text("age,town\n" + "200,secret-7\n" * 20)
    section = {"kind": "category", "values": ["north", "south"], "others": "other"}
    config = make_config(bounds={"age": [0, 120]}, columns={"town": section})
    assert told(config) == [
        {
            "event": "columns of which nearly all values are lost",
            "columns": "age: outside of their bounds; town: not of the declared kind",
        }
    ]
    path.write_text("town\nnorth\n")
    assert told(config) == [{"event": "a table that no job can use", "reason": "column 'age' is missing in its file"}]
    path.write_text("age,town\n30,secret-7\n")
    assert told(make_config(bounds={"age": [0, 120]}, columns={"town": {**section, "others": "refuse"}})) == [
        {
            "event": "a table that no job can use",
            "reason": "column 'town' has a value that is not of the kind that its section declares",
        }
    ]
    path.write_text("age,town\n30,north\n")
    assert told(config) == []


@pytest.mark.real_time
def test_a_file_that_cannot_be_read_is_told_and_one_that_is_absent_is_no_matter_of_this_look(make_config, tmp_path):
    config = make_config(path="visits.parquet")
    (tmp_path / "visits.parquet").write_bytes(b"PAR1 no such thing PAR1")
    assert [one["event"] for one in told(config)] == ["a table that no job can use"]
    (tmp_path / "visits.parquet").unlink()
    assert not is_there(config.tables[0])

    async def look():
        async with looking(config):
            pass

    with capture_logs() as logs:
        asyncio.run(look())
    assert logs == []


@pytest.mark.real_time
def test_a_service_that_ends_at_once_ends_the_look(make_config, tmp_path):
    pl.DataFrame({"age": [1.0], "stay": [1.0]}).write_csv(tmp_path / "visits.csv")

    async def look():
        async with looking(make_config()):
            await asyncio.sleep(0)

    with capture_logs() as logs:
        asyncio.run(look())
    assert logs == []


def test_the_log_names_tables(make_config):
    with capture_logs() as logs:
        warn_of_declarations(make_config().tables)
    assert [one["tables"] for one in logs] == ["visits", "visits"]
    ratings = {
        "kind": "ratings",
        "user": "who",
        "item": "film",
        "rating": "stars",
        "items": 3,
        "users": 10,
        "ratings_per_user": 2,
        "bounds": {"stars": [1, 5]},
    }
    with capture_logs() as logs:
        warn_of_declarations(make_config(**ratings).tables)
    assert [one["event"] for one in logs] == ["tables whose file or database is missing: jobs on them are refused"]
