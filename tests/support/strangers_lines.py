"""Files whose lines are no rows, or whose bytes are not what their name says (`test_strangers_files.py`)."""

import bz2
import codecs
import gzip
import io
import lzma
import zipfile

from strangers import Case

HEADER, ROWS = "id,a,name\n", "".join(f"{i},{i % 7},x{i}\n" for i in range(1, 101))
TEXT, LAST = HEADER + ROWS, 101
WHOLE = {"a": float(sum(i % 7 for i in range(1, 101)))}
DRAFTED = "# a: is it a number"


def read(label, text, drafted=DRAFTED, **options):
    """Return a case of a file that is read as it is meant."""
    return Case(label, text.encode() if isinstance(text, str) else text, WHOLE, drafted=drafted, **options)


def refused(label, text, words, drafted=None, **options):
    """Return a case of a file that nobody can use, nor draft, for the same reason."""
    content = text.encode() if isinstance(text, str) else text
    return Case(label, content, words, drafted=words if drafted is None else drafted, **options)


def archive():
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as writer:
        writer.writestr("xl/worksheets/sheet1.xml", "<worksheet/>")
    return packed.getvalue()


BLANK, FEW, MANY = (
    "is blank",
    "has too few fields: 1, and the first line has 3",
    "has too many fields: 4, and the first",
)
NUMBERS_2 = 'a = { kind = "number", bounds = [0, 1000], missing = "column" }'

COUNTED = (
    read("whole file", TEXT),
    read("no line end at the end", TEXT[:-1]),
    refused("too few fields", TEXT + "101,5\n", "line 102 of its file has too few fields: 2, and the first line has 3"),
    refused("too many fields", TEXT + "101,5,x,y\n", f"line 102 of its file {MANY}"),
    refused("trailing comma in one row", HEADER + "1,2,x,\n" + ROWS, f"line 2 of its file {MANY}"),
    refused("few and many fields", HEADER + "1,2\n3,4,x,y\n" + ROWS, "line 2 of its file has too few fields"),
    refused("break outside quotes", TEXT + "100,Main\nStreet 5,7\n", "line 102 of its file has too few fields: 2"),
    refused("comma outside quotes", TEXT + "101,5,Main, Street\n", f"line 102 of its file {MANY}"),
    refused("blank line between", HEADER + "1,2,x\n\n" + ROWS, f"line 3 of its file {BLANK}"),
    refused("blank line at the end", TEXT + "\n", f"line 102 of its file {BLANK}"),
    refused(
        "blank lines at the end with returns", TEXT.replace("\n", "\r\n") + "\r\n\r\n", f"line 102 of its file {BLANK}"
    ),
    refused("blank line first", "\n" + TEXT, "does not name the columns"),
    refused("nothing but commas", TEXT + ",,\n", f"line 102 of its file {BLANK}"),
    refused("nothing but spaces and commas", TEXT + " , ,\t\n", f"line 102 of its file {BLANK}"),
    refused("spaces alone", TEXT + "   \n", f"line 102 of its file {BLANK}", columns=NUMBERS_2),
    refused("spaces that do not break", TEXT + "\u00a0,\u3000,\u2003\n", f"line 102 of its file {BLANK}"),
    refused("blank in one column", "a\n1\n\n2\n", f"line 3 of its file {BLANK}"),
    refused(
        "semicolons of a spreadsheet",
        TEXT.replace(",", ";") + ";;\n",
        f"102 of its file {BLANK}",
        source='delimiter = ";"',
    ),
    refused("footer of a database", TEXT + "(100 rows affected)\n", f"line 102 of its file {FEW}"),
    refused("footer behind a blank line", TEXT + "\nTotal: 100\n", f"line 102 of its file {BLANK}"),
    refused("end of data mark", TEXT + "\\.\n", f"line 102 of its file {FEW}"),
    refused("second table behind", TEXT + TEXT, "line 102 of its file repeats the first line"),
    refused("rows of another table behind", TEXT + "x,y\n1,2\n", "line 102 of its file has too few fields: 2"),
    Case("row of gaps in quotes", (TEXT + '"","",""\n').encode(), {"a": WHOLE["a"] + 50}),
    Case("quoted gap in one column", b'a\n1\n""\n2\n', {"a": 53.0}),
)

FIRST_LINES = (
    refused(
        "line for spreadsheets", "sep=;\n" + TEXT.replace(",", ";"), "is one for spreadsheets", source='delimiter = ";"'
    ),
    refused("line for spreadsheets with commas", "sep=,\n" + TEXT, "is one for spreadsheets"),
    refused("comment first", "# exported today\n" + TEXT, "column 'a' is missing", "has too many fields: 3"),
    refused(
        "comment with commas first", "# by Ann, of us, today\n" + TEXT, "column 'a' is missing", "seems to be a comment"
    ),
    refused("title first", "Report of visits\n" + TEXT, "column 'a' is missing", "has too many fields: 3"),
    refused("title with commas first", "Report,,\n" + TEXT, "column 'a' is missing", "several columns without a name"),
    refused("no header", "7,12.5,x\n" + ROWS, "column 'a' is missing", "seems to be a row"),
    refused("no header and dates", "x,2020-01-01,y\n" + ROWS, "column 'a' is missing", "seems to be a row"),
    refused("column twice", "a,a,name\n" + ROWS, "column 'a' appears more than once"),
    refused("unused column twice", "name,a,name\n" + ROWS, "column 'name' appears more than once"),
    refused("several columns without a name", ",a,\n" + ROWS, "several columns without a name"),
    read("one column without a name", ",a,name\n" + ROWS),
    read("years as names", "2019,a,2020\n" + ROWS),
    refused("spaces around a name", "id, a ,name\n" + ROWS, "column 'a' is missing", '# " a " = '),
    read("names like the beginnings of other files", "PAR1,a,ORC\n" + ROWS),
    read("quoted names", '"id","a","name"\n' + ROWS),
    Case(
        "quotes in a name",
        ('id,"say ""hi""",name\n' + ROWS).encode(),
        {'say "hi"': WHOLE["a"]},
        '\'say "hi"\' = { kind = "number", bounds = [0, 9] }',
    ),
    Case(
        "separator in a name",
        ('id,"a, b",name\n' + ROWS).encode(),
        {"a, b": WHOLE["a"]},
        '"a, b" = { kind = "number", bounds = [0, 9] }',
        drafted='"a, b" = ',
    ),
    read("break in a name", 'id,a,"na\nme"\n' + ROWS),
    refused("row behind a break in a name", 'id,a,"na\nme"\n1,2\n', "line 3 of its file has too few fields"),
    refused("nothing at all", b"", "its file is empty"),
    refused("a mark and nothing", codecs.BOM_UTF8, "its file is empty"),
)

QUOTES_AND_ENDS = (
    read("quoted fields", "id,a,name\n" + "".join(f'"{i}","{i % 7}","x, ""{i}""\n"\n' for i in range(1, 101))),
    read("ends with returns", TEXT.replace("\n", "\r\n")),
    read("ends of returns alone", TEXT.replace("\n", "\r")),
    refused(
        "ends of two kinds", TEXT.replace("\n", "\r\n") + "101,5\r,x\r\n", "line 102 of its file has another line end"
    ),
    refused("feeds among returns", TEXT.replace("\n", "\r") + "101,5,x\n102,3,y\r", "has another line end"),
    refused("quote within a field", TEXT + '101,5,5" pipe\n', "line 102 of its file has a quotation mark in a field"),
    refused(
        "quotes within a field", TEXT + '101,5,the "old" one\n', "line 102 of its file has a quotation mark in a field"
    ),
    refused("quote behind a space", TEXT + '101, "5",x\n', "line 102 of its file has a quotation mark in a field"),
    refused("text behind quotes", TEXT + '101,"5"x,y\n', "line 102 of its file has text behind the quotation mark"),
    refused("quote that is never closed", HEADER + '0,1,"x\n' + ROWS, "line 2 of its file begins a quoted field"),
    refused("quote that another one closes", HEADER + '0,1,"x\n' + ROWS + '101,5,"y\n', "line 103 of its file"),
    refused("quote in the first line", 'id,"a,name\n' + ROWS, "line 1 of its file begins a quoted field"),
    refused("zero bytes at the end", TEXT + "\0\0\0\0", "line 102 of its file has a zero byte"),
    refused("zero byte within", HEADER + "0,1,x\0y\n" + ROWS, "line 2 of its file has a zero byte"),
    refused("control z at the end", TEXT + "\x1a", "line 102 of its file has the byte 0x1A"),
    refused("control z behind a last line", TEXT[:-1] + "\x1a", "line 101 of its file has the byte 0x1A"),
    refused("mark in the middle", TEXT + "\ufeff101,5,x\n", "line 102 of its file has a byte order mark"),
    refused("files put together", TEXT + "\ufeff" + TEXT, "line 102 of its file has a byte order mark"),
)

PAGE = "<!DOCTYPE html>\n<table><tr><td>a</td></tr></table>\n"

FORMS = (
    read("packed", gzip.compress(TEXT.encode()), file="people.csv.gz"),
    read("packed under another name", gzip.compress(TEXT.encode())),
    read("packed in two parts", gzip.compress(HEADER.encode()) + gzip.compress(ROWS.encode()), file="people.csv.gz"),
    refused(
        "packed and cut",
        gzip.compress((HEADER + ROWS * 50).encode())[:-20],
        "cut short or damaged",
        file="people.csv.gz",
    ),
    refused(
        "packed and cut in cp1252",
        gzip.compress(TEXT.encode())[:30],
        "cut short or damaged",
        file="people.csv.gz",
        source='encoding = "cp1252"',
    ),
    refused(
        "packed and followed by bytes",
        gzip.compress(TEXT.encode()) + b"junk",
        "cut short or damaged",
        file="people.csv.gz",
    ),
    refused(
        "packed twice", gzip.compress(gzip.compress(TEXT.encode())), "it is compressed by gzip", file="people.csv.gz"
    ),
    refused("plain under a packed name", TEXT, "gzip has not compressed it", file="people.csv.gz"),
    refused("spreadsheet", archive(), "it is a ZIP archive"),
    refused("old spreadsheet", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(500), "it is an old file of a spreadsheet"),
    refused("bzip2", bz2.compress(TEXT.encode()), "it is compressed by bzip2"),
    refused("xz", lzma.compress(TEXT.encode()), "it is compressed by xz"),
    refused("zstd", b"\x28\xb5\x2f\xfd\x04\x00" + bytes(30), "it is compressed by zstd"),
    refused("page", PAGE, "it is HTML or XML"),
    refused("page behind a mark and spaces", "\ufeff \n" + PAGE, "it is HTML or XML"),
    refused("json", '[\n  {"a": 1}\n]\n', "it is JSON"),
    refused("json lines", '{"a": 1}\n{"a": 2}\n', "it is JSON"),
    refused("pdf", b"%PDF-1.7\n1 0 obj\n", "it is a PDF document"),
    refused("database", b"SQLite format 3\0" + bytes(100), "it is an SQLite database"),
    read("mark of utf 8", codecs.BOM_UTF8 + TEXT.encode()),
    read("mark before a quoted name", codecs.BOM_UTF8 + TEXT.replace("id", '"id"', 1).encode()),
    read("utf 16", TEXT.encode("utf-16"), source='encoding = "utf-16"', drafted='encoding = "utf-16"'),
    read(
        "utf 16 big",
        codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"),
        source='encoding = "utf-16"',
        drafted='encoding = "utf-16"',
    ),
    read(
        "utf 16 without a mark",
        TEXT.encode("utf-16-le"),
        source='encoding = "utf-16-le"',
        drafted='encoding = "utf-16-le"',
    ),
    read(
        "utf 16 le with a mark", TEXT.encode("utf-16"), source='encoding = "utf-16-le"', drafted='encoding = "utf-16"'
    ),
    read("utf 32", TEXT.encode("utf-32"), source='encoding = "utf-32"', drafted='encoding = "utf-32"'),
    read("mark of utf 8 declared", codecs.BOM_UTF8 + TEXT.encode(), source='encoding = "utf-8-sig"'),
    read(
        "cp1252", TEXT.replace("x7", "é7").encode("cp1252"), source='encoding = "cp1252"', drafted="--encoding cp1252"
    ),
    refused("utf 16 not declared", TEXT.encode("utf-16"), 'declare encoding = "utf-16"', DRAFTED),
    refused("utf 16 neither marked nor declared", TEXT.encode("utf-16-be"), 'declare encoding = "utf-16-be"', DRAFTED),
    refused(
        "utf 16 declared without a mark",
        TEXT.encode("utf-16-le"),
        'declare encoding = "utf-16-le"',
        DRAFTED,
        source='encoding = "utf-16"',
    ),
    refused(
        "utf 16 of the other order",
        TEXT.encode("utf-16"),
        "begins with the mark of UTF-16",
        DRAFTED,
        source='encoding = "utf-16-be"',
    ),
    refused("utf 16 cut", TEXT.encode("utf-16")[:-1], "line 101 of its file has bytes", source='encoding = "utf-16"'),
    refused("utf 32 not declared", TEXT.encode("utf-32"), 'declare encoding = "utf-32"', DRAFTED),
    refused(
        "mark of utf 8 in cp1252",
        codecs.BOM_UTF8 + TEXT.encode(),
        "begins with the mark of UTF-8",
        DRAFTED,
        source='encoding = "cp1252"',
    ),
    refused(
        "cp1252 not declared",
        TEXT.replace("x7", "é7").encode("cp1252"),
        "line 8 of its file has bytes that are not UTF-8",
    ),
    refused(
        "cp1252 name not declared",
        TEXT.replace("name", "größe").encode("cp1252"),
        "line 1 of its file has bytes",
        "--encoding cp1252",
    ),
    refused(
        "bytes that are not cp1252",
        HEADER.encode() + b"0,1,\x81\n" + ROWS.encode(),
        "line 2 of its file has bytes that are not cp1252",
        "line 2 of its file",
        source='encoding = "cp1252"',
    ),
)

LINES = (*COUNTED, *FIRST_LINES, *QUOTES_AND_ENDS, *FORMS)
