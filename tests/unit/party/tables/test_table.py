import gzip
import os
import re
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from analyses.job.job import JobInput
from analyses.job.schema import ColumnSchema, digest_of_ids
from party.config import PartyConfig
from party.tables.sources import apart
from party.tables.table import TableError, TableReader, UnusableTableError, count_rows, describe_table, load_table

MakeConfig = Callable[..., PartyConfig]

CSV = "patient,age,note,stay\n007,31,x,2.5\n8,-4,y,1e2\n"
FRAME = pl.DataFrame({"patient": ["007", "8"], "age": [31, -4], "note": ["x", "y"], "stay": [2.5, 100.0]})


def asks_for(*columns: str) -> JobInput:
    return JobInput(party="north", table="visits", columns=columns)


def write_as(path: Path) -> None:
    if path.suffix == ".parquet":
        FRAME.write_parquet(path)
    elif path.suffix == ".gz":
        path.write_bytes(gzip.compress(CSV.encode()))
    else:
        path.write_text(CSV)


@pytest.mark.parametrize("name", ["visits.csv", "visits.csv.gz", "visits.parquet"])
def test_reads_the_columns_of_the_job_in_its_order(make_config: MakeConfig, tmp_path: Path, name: str) -> None:
    write_as(tmp_path / name)
    table = load_table(make_config(path=name, id_column="patient"), asks_for("stay", "age"))
    assert table.values.tolist() == [[2.5, 31.0], [100.0, -4.0]]
    assert table.values.dtype == np.float64
    assert table.values.flags.c_contiguous
    assert table.schema.columns == (
        ColumnSchema(name="stay", lower=0, upper=30),
        ColumnSchema(name="age", lower=0, upper=120),
    )


def test_an_empty_list_of_columns_means_all_with_bounds(make_config: MakeConfig, tmp_path: Path) -> None:
    write_as(tmp_path / "visits.csv")
    config = make_config(bounds={"stay": [0, 30], "age": [0, 120]})
    assert [c.name for c in load_table(config, asks_for()).schema.columns] == ["stay", "age"]


def test_a_column_on_request_goes_only_to_a_job_that_names_it(make_config: MakeConfig, tmp_path: Path) -> None:
    write_as(tmp_path / "visits.csv")
    config = make_config(bounds={"stay": [0, 30], "age": [0, 120]}, on_request=["stay"])
    assert [c.name for c in load_table(config, asks_for()).schema.columns] == ["age"]
    assert [c.name for c in load_table(config, asks_for("age", "stay")).schema.columns] == ["age", "stay"]


def test_all_columns_may_be_on_request_and_then_a_job_must_name_some(make_config: MakeConfig, tmp_path: Path) -> None:
    write_as(tmp_path / "visits.csv")
    config = make_config(bounds={"age": [0, 120]}, on_request=["age"])
    assert [c.name for c in load_table(config, asks_for("age")).schema.columns] == ["age"]
    with pytest.raises(TableError, match="its columns are given on request only: the job must name"):
        describe_table(config, asks_for())


def test_values_outside_the_bounds_are_kept_for_the_analysis_to_clip(make_config: MakeConfig, tmp_path: Path) -> None:
    write_as(tmp_path / "visits.csv")
    assert load_table(make_config(), asks_for("age")).values.min() == -4.0


@pytest.mark.parametrize("name", ["visits.csv", "visits.csv.gz", "visits.parquet"])
def test_ids_are_text_with_leading_zeros_in_row_order(make_config: MakeConfig, tmp_path: Path, name: str) -> None:
    write_as(tmp_path / name)
    table = load_table(make_config(path=name, id_column="patient"), asks_for("age"))
    assert table.ids_digest == digest_of_ids(["007", "8"])
    assert table.schema.has_ids


def test_whole_numbers_as_ids_mean_the_same_in_parquet_and_csv(make_config: MakeConfig, tmp_path: Path) -> None:
    frame = pl.DataFrame({"patient": [7, 12], "age": [1, 2]})
    frame.write_parquet(tmp_path / "visits.parquet")
    frame.write_csv(tmp_path / "visits.csv")
    from_parquet = load_table(make_config(path="visits.parquet", id_column="patient"), asks_for("age"))
    from_csv = load_table(make_config(id_column="patient"), asks_for("age"))
    assert from_parquet.ids_digest == from_csv.ids_digest == digest_of_ids(["7", "12"])


def test_a_table_without_an_id_column_has_no_digest(make_config: MakeConfig, tmp_path: Path) -> None:
    write_as(tmp_path / "visits.csv")
    table = load_table(make_config(), asks_for("age"))
    assert table.ids_digest == b""
    assert not table.schema.has_ids


def test_the_table_shows_neither_values_nor_ids(make_config: MakeConfig, tmp_path: Path) -> None:
    write_as(tmp_path / "visits.csv")
    table = load_table(make_config(id_column="patient"), asks_for("age"))
    assert "31" not in repr(table)
    assert table.ids_digest.hex() not in repr(table)
    assert repr(table.ids_digest) not in repr(table)


def test_yes_and_no_columns_of_parquet_are_numbers(make_config: MakeConfig, tmp_path: Path) -> None:
    pl.DataFrame({"age": [True, False]}).write_parquet(tmp_path / "visits.parquet")
    assert load_table(make_config(path="visits.parquet"), asks_for("age")).values.tolist() == [[1.0], [0.0]]


def test_a_byte_order_mark_and_quoted_names_are_understood(make_config: MakeConfig, tmp_path: Path) -> None:
    (tmp_path / "visits.csv").write_bytes(b'\xef\xbb\xbf"age, in years",stay\r\n5,6\r\n')
    config = make_config(bounds={"age, in years": [0, 120]})
    assert load_table(config, asks_for()).values.tolist() == [[5.0]]


def test_a_range_of_columns_has_one_pair_of_bounds(make_config: MakeConfig, tmp_path: Path) -> None:
    (tmp_path / "visits.csv").write_text("age,pixel_0,pixel_1,pixel_2\n5,1,2,3\n")
    config = make_config(bounds={"age": [0, 120], "pixel_{0..2}": [0, 16]}, on_request=["pixel_{1..2}"])
    assert config.tables[0].usual_columns == ("age", "pixel_0")
    assert load_table(config, asks_for("pixel_{0..2}")).values.tolist() == [[1.0, 2.0, 3.0]]
    assert ColumnSchema(name="pixel_1", lower=0, upper=16) in config.tables[0].encoded


def test_a_column_of_two_ranges_is_refused(make_config: MakeConfig) -> None:
    with pytest.raises(
        ValueError, match=r"column 'pixel_2' is named twice: by 'pixel_\{0..2\}' and by 'pixel_\{2..3\}'"
    ):
        make_config(bounds={"pixel_{0..2}": [0, 16], "pixel_{2..3}": [0, 1]})


def test_the_path_is_not_a_pattern(make_config: MakeConfig, tmp_path: Path) -> None:
    (tmp_path / "visits[1].csv").write_text(CSV)
    assert load_table(make_config(path="visits[1].csv"), asks_for("age")).n_rows == 2


UNUSABLE = "table 'visits' of party 'north' cannot be used; its owner finds the reason in the log of the service"


def test_describing_a_table_needs_no_file(make_config: MakeConfig, tmp_path: Path) -> None:
    assert list(tmp_path.iterdir()) == []
    schema = describe_table(make_config(id_column="patient"), asks_for("age"))
    assert schema.party == "north"
    assert schema.columns == (ColumnSchema(name="age", lower=0, upper=120),)
    assert schema.has_ids


REFUSED_BY_NAMES = {
    "has an unknown format": ("visits.xlsx", b"PK"),
    "is missing or unreadable": ("absent.csv", None),
    "is missing or unreadable ": ("visits.csv.gz", b"patient,age,stay\n1,2,3\n"),
    "names of its columns cannot be read": ("visits.csv", b"x" * 200_000),
    "names of its columns cannot be read ": ("visits.parquet", b"this is no Parquet file"),
    "column 'age' is missing in its file": ("visits.csv", b"patient,stay\n1,2\n"),
    "column 'patient' is missing in its file": ("visits.csv", b"age,stay\n1,2\n"),
    "its file is empty, or its first line does not name the columns": ("visits.csv", b""),
    "its file is empty, or its first line ": ("visits.csv", b"\n1,2,3\n"),
    "its file is UTF-16 text; declare encoding": ("visits.csv", "\ufeffpatient,age,stay\n1,2,3\n".encode("utf-16-le")),
    "its columns are separated by semicolons": ("visits.csv", b"patient;age;stay\n1;2;3\n"),
    "its columns are separated by tabs": ("visits.csv", b"patient\tage\tstay\n1\t2\t3\n"),
    "bytes that are not UTF-8 text": ("visits.csv", "patient,age,stay\nM\xfcller,2,3\n".encode("latin-1")),
    "cannot be read: line 1 of its file has bytes that": ("visits.csv", b"patient,\xff,stay\n1,2,3\n"),
    "column 'age' appears more than once in its file": ("visits.csv", b"patient,age,stay,age\n1,2,3,4\n"),
}


@pytest.mark.parametrize("complaint", REFUSED_BY_NAMES)
def test_files_that_cannot_be_used_are_refused_and_only_their_owner_is_told_why(
    make_config: MakeConfig, tmp_path: Path, complaint: str
) -> None:
    name, content = REFUSED_BY_NAMES[complaint]
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UnusableTableError) as caught:
        load_table(make_config(path=name, id_column="patient"), asks_for("age", "stay"))
    assert str(caught.value) == UNUSABLE
    assert complaint.strip() in caught.value.detail
    assert str(tmp_path) not in caught.value.detail


REFUSED_BY_VALUES = {
    "column 'age' is not numeric": "patient,age,stay\n1,41,2\nsecret-7,secret-8,3\n",
    "column 'stay' is not numeric": "patient,age,stay\n1,41,secret-8\n",
    "column 'age' has an empty value": "patient,age,stay\n1,41,2\nsecret-7,,3\n",
    "column 'age' has a value that is not a number": "patient,age,stay\n1,41,2\nsecret-7,nan,3\n",
    "column 'stay' has a value that is not a number": "patient,age,stay\n1,41,-inf\nsecret-7,4,NaN\n",
    "id column 'patient' has an empty value": "patient,age,stay\n1,41,2\n,4,3\n",
    "id column 'patient' has an empty value ": 'patient,age,stay\n1,41,2\n"",4,3\n',
    "id column 'patient' names a row twice": "patient,age,stay\nsecret-7,41,2\nsecret-7,4,3\n",
    "it has no rows": "patient,age,stay\n",
    "has too many fields": "patient,age,stay,note\n1,41,2,x\nsecret-7,41,4,3,y\n",
    "has bytes that are not UTF-8 text": "patient,age,stay\n1,4\udcff1,2\n",
}


@pytest.mark.parametrize("complaint", REFUSED_BY_VALUES)
def test_values_that_cannot_be_used_are_refused_without_quoting_them(
    make_config: MakeConfig, tmp_path: Path, complaint: str
) -> None:
    text = REFUSED_BY_VALUES[complaint]
    (tmp_path / "visits.csv").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(UnusableTableError) as caught:
        load_table(make_config(id_column="patient"), asks_for("age", "stay"))
    assert str(caught.value) == UNUSABLE
    detail = caught.value.detail
    assert complaint.strip() in detail
    assert "secret" not in "".join(traceback.format_exception(caught.value)) + detail
    of_lines = r"line \d+ of its file|fields: \d+, and the first line has \d+|UTF-8"
    assert not any(digit in re.sub(of_lines, "", detail) for digit in "0123456789")


@pytest.mark.parametrize("name", ["visits.csv", "visits.parquet"])
def test_an_infinite_value_is_read_as_the_largest_number_of_its_sign(
    make_config: MakeConfig, tmp_path: Path, name: str
) -> None:
    frame = pl.DataFrame({"age": [41.0, float("inf"), float("-inf")], "stay": [1.0, 2.0, float("inf")]})
    if name.endswith("csv"):
        (tmp_path / name).write_text("age,stay\n41,1\ninf,2\n-inf,1e999\n")
    else:
        frame.write_parquet(tmp_path / name)
    most = float(np.finfo(np.float64).max)
    table = load_table(make_config(path=name), asks_for("stay", "age"))
    assert table.values.tolist() == [[1.0, 41.0], [2.0, most], [most, -most]]


REFUSED_IN_PARQUET = {
    "column 'age' is not numeric": pl.DataFrame({"patient": ["1"], "age": ["41"]}),
    "column 'age' has an empty value": pl.DataFrame(
        {"patient": ["1"], "age": [None]}, schema_overrides={"age": pl.Int8}
    ),
    "column 'age' has a value that is not a number": pl.DataFrame({"patient": ["1"], "age": [float("nan")]}),
    "id column 'patient' holds neither text nor whole numbers": pl.DataFrame({"patient": [1.5], "age": [41]}),
    "id column 'patient' names a row twice": pl.DataFrame({"patient": [3, 3], "age": [41, 42]}),
    "it has no rows": pl.DataFrame({"patient": [], "age": []}, schema={"patient": pl.String, "age": pl.Int8}),
}


@pytest.mark.parametrize("complaint", REFUSED_IN_PARQUET)
def test_parquet_values_that_cannot_be_used_are_refused(
    make_config: MakeConfig, tmp_path: Path, complaint: str
) -> None:
    REFUSED_IN_PARQUET[complaint].write_parquet(tmp_path / "visits.parquet")
    with pytest.raises(UnusableTableError) as caught:
        load_table(make_config(path="visits.parquet", id_column="patient"), asks_for("age"))
    assert str(caught.value) == UNUSABLE
    assert complaint in caught.value.detail


def test_a_damaged_parquet_file_is_refused(make_config: MakeConfig, tmp_path: Path) -> None:
    path = tmp_path / "visits.parquet"
    pl.DataFrame({"age": np.arange(10_000.0)}).write_parquet(path, compression="zstd")
    content = bytearray(path.read_bytes())
    content[4:2000] = bytes(1996)  # the names of the columns stand at the end and stay readable
    path.write_bytes(content)
    with pytest.raises(UnusableTableError) as caught:
        load_table(make_config(path=path.name), asks_for("age"))
    assert "cannot be read as Parquet" in caught.value.detail


def test_a_column_without_public_bounds_is_refused(make_config: MakeConfig, tmp_path: Path) -> None:
    write_as(tmp_path / "visits.csv")
    with pytest.raises(TableError, match="column 'note' has no public bounds"):
        describe_table(make_config(), asks_for("age", "note"))


def test_the_id_column_is_refused_as_a_feature(make_config: MakeConfig, tmp_path: Path) -> None:
    write_as(tmp_path / "visits.csv")
    with pytest.raises(TableError, match="column 'patient' identifies the rows"):
        describe_table(make_config(id_column="patient"), asks_for("patient"))


def test_a_column_asked_for_twice_is_refused(make_config: MakeConfig, tmp_path: Path) -> None:
    write_as(tmp_path / "visits.csv")
    with pytest.raises(TableError, match="column 'age' is requested more than once"):
        describe_table(make_config(), asks_for("age", "age"))


def test_an_unknown_table_is_refused(make_config: MakeConfig) -> None:
    with pytest.raises(TableError, match="party 'north' has no table 'salaries'"):
        describe_table(make_config(), JobInput(party="north", table="salaries"))


def test_a_reader_gives_a_second_job_the_same_read_only_table(make_config: MakeConfig, tmp_path: Path) -> None:
    write_as(tmp_path / "visits.csv")
    reader, config = TableReader(), make_config()
    first = reader.load(config, asks_for("age"))
    assert reader.load(config, asks_for("age")) is first
    assert reader.load(config, asks_for("stay")).values.tolist() == [[2.5], [100.0]]
    with pytest.raises(ValueError, match="read-only"):
        first.values[0, 0] = 0.0


def test_a_reader_reads_again_what_is_declared_otherwise(make_config: MakeConfig, tmp_path: Path) -> None:
    write_as(tmp_path / "visits.csv")
    (tmp_path / "others.csv").write_text((tmp_path / "visits.csv").read_text().replace("2.5", "3.5"))
    reader, config = TableReader(), make_config()
    others = config.tables[0].model_copy(update={"path": tmp_path / "others.csv"})
    assert reader.load(config, asks_for("stay")).values[0].tolist() == [2.5]
    assert reader.load(config.model_copy(update={"tables": (others,)}), asks_for("stay")).values[0].tolist() == [3.5]


def test_a_reader_reads_again_when_only_the_time_of_change_differs(make_config: MakeConfig, tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    path.write_text("age\n1\n")
    reader, config = TableReader(), make_config()
    assert reader.load(config, asks_for("age")).values.tolist() == [[1.0]]
    before = path.stat()
    path.write_text("age\n2\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert reader.load(config, asks_for("age")).values.tolist() == [[2.0]]


def test_a_reader_does_not_serve_a_table_whose_file_is_gone(make_config: MakeConfig, tmp_path: Path) -> None:
    write_as(tmp_path / "visits.csv")
    reader, config = TableReader(), make_config()
    reader.load(config, asks_for("age"))
    (tmp_path / "visits.csv").unlink()
    with pytest.raises(UnusableTableError) as caught:
        reader.load(config, asks_for("age"))
    assert "missing or unreadable" in caught.value.detail


@pytest.mark.parametrize("name", ["visits.csv", "visits.csv.gz", "visits.parquet"])
def test_rows_are_counted_for_the_owner(make_config: MakeConfig, tmp_path: Path, name: str) -> None:
    write_as(tmp_path / name)
    assert count_rows(make_config(path=name), "visits") == 2


def test_rows_of_a_table_that_is_not_there_cannot_be_counted(make_config: MakeConfig) -> None:
    with pytest.raises(TableError, match="has no table 'stays'"):
        count_rows(make_config(), "stays")
    with pytest.raises(UnusableTableError) as caught:
        count_rows(make_config(), "visits")
    assert "missing or unreadable" in caught.value.detail


def test_many_columns_of_parquet_are_read_in_order_whatever_their_types(
    make_config: MakeConfig, tmp_path: Path
) -> None:
    types = [pl.Float64, pl.UInt8, pl.Int64, pl.Boolean, pl.Float32, pl.Decimal(10, 2), pl.Int16, pl.UInt64, pl.Int8]
    frame = pl.DataFrame({f"c{i}": pl.Series([i % 2, 1, 0]).cast(type_) for i, type_ in enumerate(types)})
    frame.write_parquet(tmp_path / "visits.parquet")
    names = [f"c{i}" for i in (8, 3, 0, 1, 2, 4, 5, 7, 6)]
    config = make_config(path="visits.parquet", bounds={name: [0, 1] for name in names})
    table = load_table(config, asks_for(*names))
    assert table.values.tolist() == frame.select(pl.col(names).cast(pl.Float64)).to_numpy().tolist()
    assert table.values.flags.c_contiguous


def test_a_parquet_file_that_is_changed_while_it_is_read_is_refused(
    make_config: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "visits.parquet"
    FRAME.write_parquet(path)
    asked = apart.asked

    def read_and_replace(*args: Any) -> Iterator[tuple[bytes, Any]]:
        yield from asked(*args)
        FRAME.reverse().write_parquet(path)
        os.utime(path, ns=(0, 0))

    monkeypatch.setattr(apart, "asked", read_and_replace)
    with pytest.raises(UnusableTableError) as caught:
        load_table(make_config(path=path.name), asks_for("age"))
    assert "changed while it was read" in caught.value.detail


OF_PERSONS = pl.DataFrame({"patient": ["a", "b", "c"], "insured": [7, 8, 7], "age": [31, 4, 5]})


@pytest.mark.parametrize("name", ["visits.csv", "visits.csv.gz", "visits.parquet"])
def test_whose_a_row_is_is_read_as_text_alike_from_every_format(
    make_config: MakeConfig, tmp_path: Path, name: str
) -> None:
    if name.endswith(".parquet"):
        OF_PERSONS.write_parquet(tmp_path / name)
    elif name.endswith(".gz"):
        (tmp_path / name).write_bytes(gzip.compress(OF_PERSONS.write_csv().encode()))
    else:
        OF_PERSONS.write_csv(tmp_path / name)
    config = make_config(path=name, id_column="patient", person_column="insured", most_rows_per_person=2)
    table = load_table(config, asks_for("age"))
    assert table.schema.most_rows_per_person == 2
    assert table.persons is not None
    assert [table.persons.ids[place] for place in table.persons.of_rows] == ["7", "8", "7"]
    assert table.persons.digest == digest_of_ids(["7", "8", "7"])
    with pytest.raises(TableError, match="column 'insured' identifies the persons and cannot be used"):
        describe_table(config, asks_for("insured"))


def test_every_row_may_be_a_person(make_config: MakeConfig, tmp_path: Path) -> None:
    write_as(tmp_path / "visits.csv")
    config = make_config(id_column="patient", person_column="patient", most_rows_per_person=1)
    table = load_table(config, asks_for("age"))
    assert table.persons is not None
    assert table.persons.ids == ("007", "8")
    assert table.ids_digest == table.persons.digest


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("patient,insured,age\n1,secret-7,41\n2,,3\n", "person column 'insured' has an empty value"),
        ("patient,age\n1,41\n", "column 'insured' is missing in its file"),
    ],
)
def test_persons_that_cannot_be_read_are_told_to_the_owner_only(
    make_config: MakeConfig, tmp_path: Path, text: str, what: str
) -> None:
    (tmp_path / "visits.csv").write_text(text)
    with pytest.raises(UnusableTableError) as caught:
        load_table(make_config(id_column="patient", person_column="insured", most_rows_per_person=2), asks_for("age"))
    assert str(caught.value) == UNUSABLE
    assert what in caught.value.detail
