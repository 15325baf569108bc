"""Files of other forms: delimiters, encodings, decimal commas, Arrow, folders, and queries over files."""

import gzip
import os
import traceback

import polars as pl
import pytest
from pydantic import ValidationError

from analyses.job.job import JobInput
from party.tables.sources.columnar_file import ParquetFile
from party.tables.sources.csv_file import CsvFile
from party.tables.sources.csv_lines import CsvLines
from party.tables.table import TableReader, UnusableTableError, count_rows, load_table

FRAME = pl.DataFrame(
    {"id": ["a", "b", "c"], "age": [31, 4, 50], "stay": [2.5, 1.0, 0.25], "town": ["Évora", "Bonn", ""]}
)
BOUNDS = {"age": [0, 120], "stay": [0, 30]}
TOWN = {"town": {"kind": "category", "values": ["Évora", "Bonn"], "missing": "column"}}
VALUES = [[31.0, 2.5, 1.0, 0.0, 0.0], [4.0, 1.0, 0.0, 1.0, 0.0], [50.0, 0.25, 0.0, 0.0, 1.0]]


@pytest.fixture
def read(make_config, tmp_path):
    """Read all columns of a table whose source has these fields; relative paths start at `tmp_path`."""

    def read(**source):
        config = make_config(path=None, source=source, id_column="id", bounds=BOUNDS, columns=TOWN)
        return load_table(config, JobInput(party="north", table="visits")).values.tolist()

    return read


def refused(read, **source):
    with pytest.raises(UnusableTableError) as caught:
        read(**source)
    assert "visits" not in caught.value.detail
    assert "Traceback" not in caught.value.detail
    return caught.value.detail


def as_csv(delimiter, *, comma=False):
    text = FRAME.write_csv(separator=delimiter)
    return text.replace("2.5", "2,5").replace("0.25", "0,25").replace("1.0", "1,0") if comma else text


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("delimiter", "encoding", "comma"),
    [
        (";", "utf-8", True),
        ("\t", "cp1252", False),
        ("|", "utf-16", True),
        (";", "latin-1", True),
        (",", "utf-8", False),
    ],
)
def test_a_csv_file_is_read_as_its_source_declares(read, tmp_path, delimiter, encoding, comma, packed):
    text = as_csv(delimiter, comma=comma).encode(encoding)
    path = tmp_path / ("visits.csv.gz" if packed else "visits.csv")
    path.write_bytes(gzip.compress(text) if packed else text)
    form = {"delimiter": delimiter, "encoding": encoding, "decimal_comma": comma}
    assert read(kind="csv", path=path.name, **form) == VALUES
    assert CsvFile(path=path, **form).count_rows() == 3


def test_a_file_that_is_not_as_declared_is_refused_with_what_to_declare(read, tmp_path):
    (tmp_path / "visits.csv").write_text(as_csv(";"))
    assert "separated by semicolons; declare" in refused(read, kind="csv", path="visits.csv")
    (tmp_path / "visits.csv").write_text(as_csv(";", comma=True))
    assert refused(read, kind="csv", path="visits.csv", delimiter=";") == "column 'stay' is not numeric"
    (tmp_path / "visits.csv").write_bytes(as_csv(",").encode("latin-1"))
    assert "bytes that are not UTF-8 text" in refused(read, kind="csv", path="visits.csv")
    (tmp_path / "visits.csv").write_bytes(b"\xff\xfe\x00")
    assert "the names of its columns" in refused(read, kind="csv", path="visits.csv", encoding="utf-16")


@pytest.mark.parametrize(
    ("form", "complaint"),
    [
        ({"encoding": "klingon"}, "not the name of a text encoding"),
        ({"encoding": "base64"}, "not the name of a text encoding"),
        ({"delimiter": ";;"}, "delimiter"),
        ({"delimiter": '"'}, "delimiter"),
    ],
)
def test_forms_that_cannot_be_are_refused(tmp_path, form, complaint):
    with pytest.raises(ValidationError, match=complaint):
        CsvFile(path=tmp_path / "visits.csv", **form)


def test_a_csv_file_that_is_changed_while_it_is_read_is_refused(read, tmp_path, monkeypatch):
    path, plain = tmp_path / "visits.csv", CsvLines.blocks
    path.write_text(as_csv(","))

    def read_and_touch(*args, **options):
        yield from plain(*args, **options)
        os.utime(path, ns=(0, 0))

    monkeypatch.setattr(CsvLines, "blocks", read_and_touch)
    assert "changed while it was read" in refused(read, kind="csv", path="visits.csv")


def test_an_arrow_file_is_read_like_a_parquet_file(read, make_config, tmp_path):
    FRAME.write_ipc(tmp_path / "visits.arrow")
    assert read(kind="arrow", path="visits.arrow") == VALUES
    config = make_config(path="visits.arrow", bounds={"age": [0, 120]})
    assert load_table(config, JobInput(party="north", table="visits")).values.ravel().tolist() == [31.0, 4.0, 50.0]
    (tmp_path / "visits.arrow").write_bytes(b"no such thing")
    assert "cannot be read" in refused(read, kind="arrow", path="visits.arrow")


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_the_files_of_a_folder_are_one_table_in_the_order_of_their_names(read, tmp_path, kind):
    folder = tmp_path / "parts"
    folder.mkdir()
    for name, part in (("2026-2", FRAME[1:]), ("2026-1", FRAME[:1]), ("2025-9", FRAME)):
        write = part.write_parquet if kind == "parquet" else part.write_ipc
        write(folder / f"{name}.{kind}")
    assert read(kind=kind, path="parts", pattern="2026-*") == VALUES
    (folder / f"2025-9.{kind}").unlink()
    (folder / "notes.txt").write_text("not a part")
    assert read(kind=kind, path="parts") == VALUES
    assert "no file of the pattern" in refused(read, kind=kind, path="parts", pattern="2024-*")


@pytest.mark.parametrize(
    ("marks", "path", "pattern", "said"),
    [
        ("parts/_delta_log/0.json", "parts", "*", 'kind = "delta" reads'),
        ("lake/_delta_log/0.json", "lake/day=1", "*", 'kind = "delta" reads'),
        ("lake/visits/_delta_log/0.json", "lake", "**/*.parquet", 'kind = "delta" reads'),
        ("lake/metadata/00003-a.metadata.json", "lake/data", "*", "of an Iceberg table"),
        ("lake/metadata/00003-a.metadata.json", "lake", "**/*.parquet", "of an Iceberg table"),
    ],
)
def test_files_of_a_lake_are_no_table_by_themselves(read, tmp_path, marks, path, pattern, said):
    inside = {"lake": "lake/visits" if "visits" in marks else "lake/data"}.get(path, path)
    (tmp_path / inside).mkdir(parents=True)
    FRAME.write_parquet(tmp_path / inside / "1.parquet")
    assert read(kind="parquet", path=path, pattern=pattern) == VALUES
    (tmp_path / marks).parent.mkdir(parents=True)
    (tmp_path / marks).touch()
    assert said in refused(read, kind="parquet", path=path, pattern=pattern)
    assert str(tmp_path) not in said


def test_parts_that_do_not_agree_are_refused(read, tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    FRAME.write_parquet(folder / "1.parquet")
    FRAME.drop("stay").write_parquet(folder / "2.parquet")
    assert refused(read, kind="parquet", path="parts") == "column 'stay' is missing in its file"
    FRAME.with_columns(age=pl.lit(b"old")).write_parquet(folder / "2.parquet")
    assert "do not agree in the type of 'age'" in refused(read, kind="parquet", path="parts")


def test_a_part_that_is_added_is_another_version_of_the_table(make_config, tmp_path):
    folder = tmp_path / "visits.parquet"  # as other programs write a table of many files
    folder.mkdir()
    FRAME[:2].write_parquet(folder / "1.parquet")
    config = make_config(path="visits.parquet", bounds={"age": [0, 120]})
    reader, asked = TableReader(), JobInput(party="north", table="visits")
    assert reader.load(config, asked).n_rows == 2
    FRAME[2:].write_parquet(folder / "2.parquet")
    assert reader.load(config, asked).n_rows == 3
    assert count_rows(config, "visits") == 3
    before = ParquetFile(path=folder).version()
    (folder / "2.parquet").unlink()
    assert ParquetFile(path=folder).version() != before


QUERY = "SELECT id, age, stay * 2 - stay AS stay, town FROM visits WHERE age > 3 ORDER BY id"


def test_a_query_over_files_derives_columns_and_leaves_rows_out(read, tmp_path):
    pl.concat([FRAME, FRAME.head(1).with_columns(id=pl.lit("d"), age=pl.lit(2, pl.Int64))]).write_parquet(
        tmp_path / "all.parquet"
    )
    assert read(kind="query", files={"visits": "all.parquet"}, query=QUERY) == VALUES


def test_a_query_joins_the_owners_own_files(read, tmp_path):
    FRAME.select("id", "age").write_csv(tmp_path / "people.csv")
    FRAME.select("id", "stay", "town").write_ipc(tmp_path / "stays.arrow")
    joined = "SELECT p.id, age, stay, town FROM people p JOIN stays s ON p.id = s.id ORDER BY p.id"
    assert read(kind="query", files={"people": "people.csv", "stays": "stays.arrow"}, query=joined) == VALUES


@pytest.mark.parametrize(
    ("query", "complaint"),
    [
        ("SELECT id, age, town FROM visits", "column 'stay' is missing in its file"),
        ("SELECT secret-7 FROM", "its query is not one that can be answered"),
        ("SELECT nothing FROM elsewhere", "its query is not one that can be answered"),
    ],
)
def test_a_query_that_fails_says_so_without_quoting_it(read, tmp_path, query, complaint):
    FRAME.write_parquet(tmp_path / "all.parquet")
    with pytest.raises(UnusableTableError) as caught:
        read(kind="query", files={"visits": "all.parquet"}, query=query)
    assert complaint in caught.value.detail
    assert "secret" not in "".join(traceback.format_exception(caught.value))


def test_a_line_with_too_many_fields_is_refused_whichever_columns_are_read(make_config, tmp_path):
    lines = "".join(f"{number},{number},{number},{number}\n" for number in range(50_000))
    (tmp_path / "visits.csv").write_text(f"id,age,stay,town\n{lines}1,2,3,4,5\n{lines}")
    for column in ("age", "stay", "town"):
        config = make_config(bounds={column: [0, 9]})
        with pytest.raises(UnusableTableError) as caught:
            load_table(config, JobInput(party="north", table="visits"))
        assert "too many fields" in caught.value.detail


@pytest.mark.parametrize("delimiter", ["", ";;", "\0", "§"])
def test_a_delimiter_that_is_none_is_told_in_words(delimiter):
    with pytest.raises(ValidationError, match="one ASCII character stands between columns"):
        CsvFile(path="visits.csv", delimiter=delimiter)
