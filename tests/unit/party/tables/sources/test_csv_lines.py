"""The lines of a CSV file: the same whatever the chunks are, and little in memory whatever the file is."""

import itertools
import os
import subprocess
import sys

import polars as pl
import pytest
from strangers_lines import LINES

from party.tables.sources import csv_lines, csv_rows, csv_text
from party.tables.sources.csv_file import CsvFile
from party.tables.sources.csv_lines import BadLine, BadLineError, CsvLines
from party.tables.sources.csv_rows import LONGEST_LINE
from party.tables.sources.source import SourceError, library_errors


def outcome(path, source):
    try:
        file = CsvFile(path=path, **source)
        return file.column_names(), list(file.records()), file.count_rows()
    except SourceError as error:
        return str(error)


def fields_of(case):
    return dict(line.split(" = ", 1) for line in case.source.splitlines())


@pytest.mark.parametrize("case", [one for one in LINES if isinstance(one.content, bytes)], ids=lambda one: one.label)
def test_a_file_is_the_same_in_chunks_of_any_size(tmp_path, monkeypatch, case):
    path = tmp_path / case.file
    path.write_bytes(case.content)
    source = {name: value.strip('"') for name, value in fields_of(case).items()}
    whole = outcome(path, source)
    for size in (7, 64):
        monkeypatch.setattr(csv_text, "CHUNK_BYTES", size)
        monkeypatch.setattr(csv_rows, "WINDOW", 64)
        assert outcome(path, source) == whole


@pytest.mark.parametrize(
    ("begin", "line", "words"),
    [
        (b"", b"x" * (1 << 20), "line 1 of its file is longer than 16 MiB"),
        (b'id,"a\n', b"1,2\n" * (1 << 18), "line 1 of its file begins a quoted field that does not end"),
        (b'id,a\n1,"x\n', b"1,2\n" * (1 << 18), "line 2 of its file begins a quoted field that does not end"),
        (b"id,a\n", b"x" * (1 << 20), "line 2 of its file is longer than 16 MiB"),
        (b"id,a\n1,5", b'" pipe\n1,2' * (1 << 17), "line 2 of its file has a quotation mark in a field"),
    ],
)
def test_a_line_or_field_without_an_end_is_refused_when_its_limit_is_in_memory(monkeypatch, begin, line, words):
    """The chunks never end, as those of a file of terabytes, or of a few MiB of gzip."""
    n_bytes = 0

    def chunks(*_):
        nonlocal n_bytes
        for chunk in itertools.chain([begin], itertools.repeat(line)):
            n_bytes += len(chunk)
            yield chunk

    monkeypatch.setattr(csv_lines, "utf_8_chunks", chunks)
    with pytest.raises(BadLineError) as caught:
        for _ in CsvLines(None, ",", "utf-8").blocks():
            pass
    assert words in str(caught.value)
    assert n_bytes <= LONGEST_LINE + 3 * max(len(line), 1 << 20)


def test_all_bad_lines_are_noted_and_the_others_are_read(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text('id,a\n1,2\n\n3\n4,"x\ny"\n5,6,7\n,\n8,9\n')
    noted: list[BadLine] = []
    assert [(record.line, record.fields) for record in CsvFile(path=path).records(noted)] == [
        (2, ("1", "2")),
        (5, ("4", "x\ny")),
        (9, ("8", "9")),
    ]
    assert [bad.line for bad in noted] == [3, 4, 7, 8]
    with pytest.raises(BadLineError, match="line 3 of its file is blank"):
        CsvFile(path=path).count_rows()


def test_a_panic_of_the_library_is_an_error_of_the_source():
    assert not issubclass(pl.exceptions.PanicException, Exception)
    with pytest.raises(SourceError, match="in our words"), library_errors("in our words"):
        raise pl.exceptions.PanicException("a value of the table")


def test_the_child_leaves_no_core_file_is_ended_first_and_has_half_of_the_memory():
    code = (
        "import resource; from party.tables.sources.apart_main import _limit; _limit(); "
        "print(resource.getrlimit(4)[1], resource.getrlimit(2)[1], open('/proc/self/oom_score_adj').read())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True)
    core, data, score = map(int, done.stdout.split())
    half = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    assert (core, data, score) == (0, max(1 << 32, half), 1000)


@pytest.mark.parametrize("first", ["id,a", '"id","a"', 'id,"a"'])
@pytest.mark.parametrize("again", ["id,a", '"id","a"', "id,a\r", '"id","a"\r'])
@pytest.mark.parametrize("row", ["7,8", '"7",8'])  # which are looked at in two ways
def test_the_first_line_is_no_row_whether_its_names_are_quoted_or_not(tmp_path, first, again, row):
    path = tmp_path / "visits.csv"
    path.write_bytes(f"{first}\n{row}\n{again}\n{row}\n".encode())
    assert outcome(path, {}) == "line 3 of its file repeats the first line"


@pytest.mark.parametrize("first", ["id,Größe", '"ID ",Größe', " Id , GRÖSSE "])
@pytest.mark.parametrize("again", ["ID,GRÖSSE", " id,größe ", '"Id ","GRÖẞE"', "id ,\tGröße\r"])
@pytest.mark.parametrize("row", ["7,8", "ida,großer Ort", '"7",8'])
def test_the_first_line_is_no_row_in_another_case_or_with_spaces_around_its_names(tmp_path, first, again, row):
    path = tmp_path / "visits.csv"
    path.write_bytes(f"{first}\n{row}\n{again}\n{row}\n".encode())
    assert "line 3 of its file repeats the first line" in str(outcome(path, {}))


@pytest.mark.parametrize("first", ['"a\rb,c', 'a"\rb",c', '"a"\rb,"c"', '"' + "x" * 200_000 + '",a'])
def test_a_first_line_that_is_no_row_or_has_a_long_name_is_told(tmp_path, first):
    path = tmp_path / "visits.csv"
    path.write_bytes(f"{first}\n1,2\n".encode())
    assert isinstance(outcome(path, {}), str)


@pytest.mark.parametrize("row", ["idx,a", "id,a b", "i d,a", "id,", '"id",b'])
def test_a_row_that_only_begins_or_ends_like_the_first_line_is_one(tmp_path, row):
    path = tmp_path / "visits.csv"
    path.write_bytes(f"id,a\n{row}\n".encode())
    assert CsvFile(path=path).count_rows() == 1


@pytest.mark.parametrize("first", ['"i,d",a', '"i""d",a', '"i\nd",a'])
def test_a_row_with_other_names_than_the_first_line_is_one(tmp_path, first):
    path = tmp_path / "visits.csv"
    path.write_bytes(f'{first}\nid,a\n"id","a"\n'.encode())
    assert outcome(path, {})[2] == 2
