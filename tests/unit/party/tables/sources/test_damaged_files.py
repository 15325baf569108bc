"""Damaged files: each is read, or refused as a table that cannot be used, and nothing else comes of it."""

import contextlib
import csv
import io
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from damaged_files import many, whole

from analyses.job.job import JobInput
from party.tables.config import tables_of_same_data
from party.tables.sources import apart, apart_main
from party.tables.sources.columnar_file import ArrowFile, ParquetFile
from party.tables.sources.csv_file import CsvFile
from party.tables.sources.file_query import FileQuery
from party.tables.sources.source import SourceError
from party.tables.table import UnusableTableError, is_there, load_table

GAPS = {"a": {"kind": "number", "bounds": [0, 9], "missing": {"value": 5}, "others": "missing"}}
SOURCES = {"parquet": ParquetFile, "arrow": ArrowFile}


def rows_by_the_standard_library(content):
    """Read a file by another reader; None where that refuses it."""
    try:
        text = content.decode("utf-8-sig")
        return list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except (UnicodeDecodeError, csv.Error):
        return None


def check_csv(path, content, config):
    """Read a file; what is read is what another reader reads, and each row has as many fields as the first line."""
    path.write_bytes(content)
    source = CsvFile(path=path)
    try:
        names, records = source.column_names(), [list(record.fields) for record in source.records()]
    except SourceError:
        records = None
    else:
        assert [names, *records] == rows_by_the_standard_library(content)
        assert {len(record) for record in records} <= {len(names)}
    try:
        table = load_table(config, JobInput(party="north", table="visits"))
    except UnusableTableError:
        return 0
    assert records is not None
    assert table.n_rows == len(records)
    return 1


def read_many(kind, n, seed, make_config, tmp_path):
    path = tmp_path / f"visits.{kind}"
    config = make_config(path=path.name, bounds={}, columns=GAPS)
    n_read = 0
    for content in many(kind, n, seed):
        if kind == "csv":
            n_read += check_csv(path, content, config)
            continue
        path.write_bytes(content)
        with contextlib.suppress(UnusableTableError):
            n_read += load_table(config, JobInput(party="north", table="visits")).n_rows > 0
    assert 0 < n_read < n


MANY_CHILDREN = """
import json, os, sys
from party.tables.sources import apart_main
from party.tables.sources.source import SourceError
import importlib

module, name, folder = sys.argv[1:4]
source = getattr(importlib.import_module(module), name)
for file in map(int, sys.stdin):
    path = f"{folder}/{file}"
    fields = {"path": path}
    if name == "FileQuery":
        fields = {"files": {"people": path + ".parquet"}, "query": "SELECT a, name FROM people"}
    try:
        kind = [kind for kind, _ in apart_main._answers(source.model_validate(fields), "rows", 0, ["a"], ["name"])][-1]
        told = "read"
    except SourceError:
        told = "refused"
    except BaseException as error:
        told = type(error).__name__
    print(json.dumps([file, told]), flush=True)
"""


def outcomes_in_children(source, folder, n):
    """Read files as the child does that reads one, in one process as long as it lives; return what came of each."""
    told = {}
    while len(told) < n:
        command = [sys.executable, "-c", MANY_CHILDREN, source.__module__, source.__qualname__, str(folder)]
        asked = "".join(f"{file}\n" for file in range(len(told), n))
        done = subprocess.run(command, input=asked, capture_output=True, text=True, timeout=600, check=False)
        told |= dict(json.loads(line) for line in done.stdout.splitlines())
        if len(told) < n:
            told[len(told)] = f"ended by {done.returncode}"
    return told


def columnar(kind, source, n, seed, folder):
    folder.mkdir()
    suffix = ".parquet" if source is FileQuery else ""
    for number, content in enumerate(many(kind, n, seed)):
        (folder / f"{number}{suffix}").write_bytes(content)
    told = outcomes_in_children(source, folder, n)
    counts = {what: list(told.values()).count(what) for what in set(told.values())}
    assert counts.get("read", 0) > 0
    assert counts.get("refused", 0) > n // 3
    return counts


def test_damaged_text_is_read_as_another_reader_reads_it_or_refused(make_config, tmp_path):
    read_many("csv", 150, 1, make_config, tmp_path)


def test_damaged_files_of_columns_are_read_or_refused(tmp_path):
    columnar("parquet", ParquetFile, 100, 2, tmp_path / "parquet")


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "n"), [("csv", 4500), ("csv.gz", 1500)])
def test_thousands_of_damaged_files_of_text(make_config, tmp_path, kind, n):
    read_many(kind, n, 3, make_config, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "source", "n"), [("parquet", ParquetFile, 1700), ("arrow", ArrowFile, 1700), ("parquet", FileQuery, 600)]
)
def test_thousands_of_damaged_files_of_columns(tmp_path, kind, source, n):
    print(columnar(kind, source, n, 4, tmp_path / "files"))


def test_a_child_that_ends_leaves_a_table_that_cannot_be_used(make_config, tmp_path, monkeypatch):
    """As the library does where it runs out of memory, or where its file is cut while it is mapped."""
    (tmp_path / "visits.parquet").write_bytes(whole("parquet"))
    config = make_config(path="visits.parquet", bounds={}, columns=GAPS)
    killer = tmp_path / "killer"
    killer.write_text("#!/bin/sh\nkill -ABRT $$\n")
    killer.chmod(0o700)
    monkeypatch.setattr(apart, "subprocess", subprocess)  # no forked reader
    monkeypatch.setattr(apart.sys, "executable", str(killer))
    with pytest.raises(UnusableTableError) as caught:
        load_table(config, JobInput(party="north", table="visits"))
    assert caught.value.detail == apart.ENDED


PATHS = {
    "a circle of links": lambda folder: (folder / "circle").symlink_to(folder / "circle"),
    "a name that is too long": lambda folder: None,
    "a zero byte": lambda folder: None,
}
NAMES = {"a circle of links": "circle", "a name that is too long": 300 * "n", "a zero byte": "a\0b"}


@pytest.mark.parametrize("where", PATHS)
@pytest.mark.parametrize("kind", ["csv", "parquet", "query"])
def test_a_path_that_cannot_be_looked_at_is_a_table_that_is_not_there(make_config, tmp_path, where, kind):
    PATHS[where](tmp_path)
    name = NAMES[where]
    source = {"kind": kind, "path": name}
    if kind == "query":
        source = {"kind": kind, "files": {"people": name}, "query": "SELECT a FROM people"}
    config = make_config(path=None, source=source, bounds={}, columns=GAPS)
    assert not is_there(config.tables[0])
    assert tables_of_same_data(config.tables) == []
    with pytest.raises(UnusableTableError) as caught:
        load_table(config, JobInput(party="north", table="visits"))
    assert "unreadable" in caught.value.detail


def test_rows_are_counted_only_of_files_that_can_be_read(tmp_path):
    os.mkfifo(tmp_path / "pipe.parquet")  # whoever opens it waits for a writer
    with pytest.raises(SourceError, match="not a regular file"):
        ParquetFile(path=tmp_path / "pipe.parquet").count_here()
    (tmp_path / "cut.arrow").write_bytes(whole("arrow")[:-20])
    with pytest.raises(SourceError, match="damaged or cut"):
        ArrowFile(path=tmp_path / "cut.arrow").count_here()


def test_readers_that_several_threads_start_at_once_all_come_to_their_end(tmp_path):
    (tmp_path / "visits.parquet").write_bytes(whole("parquet"))
    source = ParquetFile(path=tmp_path / "visits.parquet")
    with ThreadPoolExecutor(6) as threads:
        assert len(set(threads.map(lambda _: source.count_rows(), range(60)))) == 1


def test_a_message_that_a_child_did_not_write_to_its_end_is_none(tmp_path):
    (tmp_path / "visits.parquet").write_bytes(whole("parquet"))
    sent = list(apart_main._answers(ParquetFile(path=tmp_path / "visits.parquet"), "rows", 0, ["a"], ["name"]))
    assert [kind for kind, _ in sent][:2] == [apart.NUMBERS, apart.FRAME]
    for kind, content in sent:
        message = apart.HEAD.pack(kind, len(content[0])) + b"".join(map(bytes, content))
        assert apart._next(io.BytesIO(message))[0] == kind
        for cut in {*range(64), len(content[0]), len(message) - 1} & {*range(len(message))}:
            assert apart._next(io.BytesIO(message[:cut])) is None
