"""What a file is by its first bytes, whatever its name says."""

import codecs

HEAD_BYTES = 4096
"""Bytes of the beginning of a file that are looked at."""

GZIP, PARQUET, ARROW = b"\x1f\x8b", b"PAR1", b"ARROW1\0\0"

_STARTS = (
    (GZIP, "compressed by gzip"),
    (PARQUET, "a Parquet file"),
    (b"PARE", "an encrypted Parquet file"),
    (ARROW, "an Arrow file"),
    (b"\xff\xff\xff\xff", "an Arrow stream, which is no Arrow file"),
    (b"FEA1", "a Feather file of version 1"),
    (b"PK\x03\x04", "a ZIP archive, as .xlsx and .ods files are"),
    (b"PK\x05\x06", "an empty ZIP archive"),
    (b"\xd0\xcf\x11\xe0", "an old file of a spreadsheet (.xls)"),
    (b"BZh", "compressed by bzip2"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd"),
    (b"\xfd7zXZ\0", "compressed by xz"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"Rar!", "a RAR archive"),
    (b"\x04\x22\x4d\x18", "compressed by lz4"),
    (b"%PDF-", "a PDF document"),
    (b"{\\rtf", "an RTF document"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"ORC", "an ORC file"),
    (b"Obj\x01", "an Avro file"),
    (b"\x89HDF", "an HDF5 file"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"$FL2", "an SPSS file"),
    (b"<stata_dta>", "a Stata file"),
)
_TEXTS = (b"%PDF-", b"{\\rtf", b"<stata_dta>")
"""Beginnings in `_STARTS` that are text."""

_MARKUP = (b"<!doctype", b"<html", b"<table", b"<?xml", b"<head", b"<body")
_JSON = (b'{"', b"{}", b'[{"', b"[{}", b"[[", b"[]")
_MARKS = (  # that of UTF-32 begins like that of UTF-16, so it comes first
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (codecs.BOM_UTF8, "utf-8"),
)


def known_kind(head: bytes) -> str | None:
    """Return what a file is that no reader of text can read, in words; None where it may be text."""
    is_binary = not head[:64].isascii() or any(byte < 32 and byte not in b"\t\r\n" for byte in head[:64])
    for start, what in _STARTS:
        if head.startswith(start) and (is_binary or start in _TEXTS):  # a column may be called ORC or PAR1
            return what
    begin = head.removeprefix(codecs.BOM_UTF8).lstrip()[:16].lower()
    if begin.startswith(_MARKUP):
        return "HTML or XML, perhaps a page that was saved in place of the table"
    if b"".join(begin.split()).startswith(_JSON):
        return "JSON"
    return None


def mark_of(head: bytes) -> tuple[bytes, str]:
    """Return the byte order mark with which a file begins, and the encoding that it stands for; both empty without."""
    return next(((mark, encoding) for mark, encoding in _MARKS if head.startswith(mark)), (b"", ""))


def guessed_wide(head: bytes) -> str | None:
    """Return the encoding of text without a mark that takes two or four bytes for a letter; None for other text.

    Letters of names are mostly ASCII, so all other bytes are zero.
    """
    n_wide = len(head) // 4
    if n_wide == 0 or b"\0" not in head:
        return None
    zeros = [head[place : 4 * n_wide : 4].count(0) / n_wide for place in range(4)]
    for encoding, pattern in (
        ("utf-32-le", (0, 1, 1, 1)),
        ("utf-32-be", (1, 1, 1, 0)),
        ("utf-16-le", (0, 1, 0, 1)),
        ("utf-16-be", (1, 0, 1, 0)),
    ):
        if all((share > 0.7) == bool(is_zero) for share, is_zero in zip(zeros, pattern, strict=True)):
            return encoding
    return None
