"""Files of columns, queries and things that are no files, as strangers bring them (`test_strangers_files.py`)."""

import base64
import gzip
import os
import re
from datetime import datetime

import polars as pl
from strangers import Case
from strangers_lines import TEXT, WHOLE

FRAME = pl.read_csv(TEXT.encode())
TIMES = FRAME.with_columns(seen=pl.lit(datetime(2026, 1, 1), dtype=pl.Datetime("us", "Europe/Paris")))
"""With a column of times in a zone."""

UNKNOWN_ZONE = (b"Europe/Paris", b"Mars/Phobos1")


def parquet(frame=FRAME, change=lambda content: content):
    """Return what writes a frame to a Parquet file, changed."""

    def write(path):
        frame.write_parquet(path)
        path.write_bytes(change(path.read_bytes()))

    return write


def arrow(frame=FRAME, change=lambda content: content):
    """Return what writes a frame to an Arrow file, changed."""

    def write(path):
        frame.write_ipc(path)
        path.write_bytes(change(path.read_bytes()))

    return write


def of_an_unknown_zone(content):
    """Change the name of the zone, also in the Arrow schema that a Parquet file holds as base64."""
    for packed in re.findall(rb"[A-Za-z0-9+/]{40,}={0,2}", content):
        plain = base64.b64decode(packed)
        content = content.replace(packed, base64.b64encode(plain.replace(*UNKNOWN_ZONE)))
    return content.replace(*UNKNOWN_ZONE)


def folder(**parts):
    """Return what writes a folder of files."""

    def write(path):
        path.mkdir()
        for name, content in parts.items():
            (path / f"{name}.parquet").write_bytes(content) if isinstance(content, bytes) else content(
                path / f"{name}.parquet"
            )

    return write


def zeroed(content):
    return content[:8] + bytes(len(content) * 2 // 5) + content[8 + len(content) * 2 // 5 :]


P = {"kind": "parquet", "file": "people.parquet"}
A = {"kind": "arrow", "file": "people.arrow"}
DAMAGED = "its file"
SELECT = 'query = "SELECT a FROM people"'

COLUMNAR = (
    Case("parquet", parquet(), WHOLE, **P, drafted="# a: whole numbers"),
    Case("arrow", arrow(), WHOLE, **A, drafted="# a: whole numbers"),
    Case("parquet folder", folder(a=parquet(FRAME[:50]), b=parquet(FRAME[50:])), WHOLE, **P),
    Case("parquet cut", parquet(change=lambda b: b[:-40]), DAMAGED, **P, drafted=DAMAGED),
    Case("parquet cut to its beginning", parquet(change=lambda b: b[:4]), DAMAGED, **P, drafted=DAMAGED),
    Case("parquet with zeros in it", parquet(change=zeroed), DAMAGED, **P),
    Case("parquet with bytes behind", parquet(change=lambda b: b + b"junk"), DAMAGED, **P, drafted=DAMAGED),
    Case("parquet of an unknown zone", parquet(TIMES, of_an_unknown_zone), DAMAGED, **P, drafted=DAMAGED),
    Case("parquet that is empty", lambda path: path.touch(), "is empty", **P, drafted="is empty"),
    Case("parquet that is text", TEXT.encode(), "something else, not Parquet", **P, drafted="not Parquet"),
    Case("parquet that is packed", gzip.compress(TEXT.encode()), "compressed by gzip, not Parquet", **P),
    Case("parquet that is arrow", arrow(), "an Arrow file, not Parquet", **P, drafted="an Arrow file"),
    Case("parquet folder with text", folder(a=parquet(), b=TEXT.encode()), "b.parquet is something else", **P),
    Case(
        "parquet folder with a cut part", folder(a=parquet(), b=parquet(change=lambda b: b[:-9])), "cannot be read", **P
    ),
    Case("parquet under another name", parquet(), "it is a Parquet file", drafted="it is a Parquet file"),
    Case("arrow cut", arrow(change=lambda b: b[:-40]), DAMAGED, **A, drafted=DAMAGED),
    Case("arrow with zeros in it", arrow(change=zeroed), DAMAGED, **A),
    Case("arrow of an unknown zone", arrow(TIMES, of_an_unknown_zone), DAMAGED, **A, drafted=DAMAGED),
    Case("arrow stream", lambda path: FRAME.write_ipc_stream(path), "an Arrow stream", **A, drafted="an Arrow stream"),
    Case("arrow that is parquet", parquet(), "a Parquet file, not Arrow", **A, drafted="a Parquet file"),
    Case("csv that is a folder", lambda path: path.mkdir(), "not a regular file"),
    Case("csv that is a pipe", os.mkfifo, "not a regular file", drafted="not a regular file"),
    Case("parquet that is a pipe", os.mkfifo, "not a regular file", **P, drafted="not a regular file"),
    Case("query over text", TEXT.encode(), WHOLE, source=SELECT, kind="query"),
    Case(
        "query keeps the zeros of text",
        b"a,code\n" + b"1,007\n2,7\n3,007\n4,7.0\n",
        {"code=007": 2.0, "code=7": 2.0, "code=other": 0.0},
        'code = { kind = "category", values = ["007", "7"], others = "other" }',
        'query = "SELECT code FROM people"',
        "query",
    ),
    Case(
        "query that calculates with text",
        TEXT.encode(),
        {"a": WHOLE["a"] * 2},
        source='query = "SELECT CAST(a AS DOUBLE) * 2 AS a FROM people WHERE CAST(id AS INT) < 1000"',
        kind="query",
    ),
    Case(
        "query over a bad line",
        (TEXT + "1,2\n").encode(),
        "line 102 of its file has too few",
        source=SELECT,
        kind="query",
    ),
    Case(
        "query over a blank line", (TEXT + "\n").encode(), "line 102 of its file is blank", source=SELECT, kind="query"
    ),
    Case(
        "query over a cut file",
        gzip.compress(TEXT.encode())[:-30],
        "cut short",
        source=SELECT,
        kind="query",
        file="p.csv.gz",
    ),
    Case(
        "query over a cut parquet",
        parquet(change=lambda b: b[:-40]),
        "query",
        source=SELECT,
        kind="query",
        file="p.parquet",
    ),
    Case("query over a pipe", os.mkfifo, "not a regular file", source=SELECT, kind="query", file="p.parquet"),
    Case(
        "query over text as numbers",
        TEXT.encode(),
        "its query",
        source='query = "SELECT a + 1 AS a FROM people WHERE a > 3"',
        kind="query",
    ),
)
