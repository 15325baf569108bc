"""Values as strangers spell them: what is the same value in another spelling, and what can be two values.

Twenty rows and more of a value, so that a sum shows what each was read as, whatever the noise.
"""

from collections.abc import Callable, Sequence
from datetime import date, datetime
from pathlib import Path

import polars as pl
from strangers import Case

AMOUNT = 'a = { kind = "number", bounds = [0, 1000], missing = { value = 500 }, others = "missing" }'
WHOLE = 'a = { kind = "integer", bounds = [0, 1000], missing = { value = 500 }, others = "missing" }'
CODES = 'a = { kind = "category", values = ["1", "2"], missing = "column", others = "other" }'
GRADES = 'a = { kind = "ordinal", values = ["0", "1", "2"], missing = "column", others = "missing" }'
TRUTH = 'a = { kind = "yes/no", missing = "column", others = "missing" }'
TOWNS = 'a = { kind = "category", values = ["Zo\u00eb", "007"], missing = "column", others = "other" }'
DAYS = 'a = { kind = "date", bounds = [2020-01-01, 2020-12-31], missing = "column", others = "missing"'
COMMA = 'delimiter = ";"\ndecimal_comma = true'
REFUSED = "not of the kind that its section declares"
ALL_OTHER = {"a=1": 0.0, "a=2": 0.0, "a=other": 40.0, "a=missing": 0.0}
BOTH = {"a=1": 20.0, "a=2": 20.0, "a=other": 0.0, "a=missing": 0.0}


def lines(*values: str, header: str = "a") -> bytes:
    """Return a CSV file of one column, each value twenty times."""
    return "".join(f"{line}\n" for line in [header, *(one for one in values for _ in range(20))]).encode()


def parquet(values: Sequence[object], dtype: pl.DataType | type[pl.DataType] | None = None) -> Callable[[Path], object]:
    """Return what writes a Parquet file of one column, each value twenty times."""
    frame = pl.DataFrame({"a": pl.Series([one for one in values for _ in range(20)], dtype=dtype)})
    return lambda path: frame.write_parquet(path)


def parts(*values: Sequence[object]) -> Callable[[Path], object]:
    """Return what writes a folder of Parquet files, each value twenty times."""

    def write(path: Path) -> None:
        path.mkdir()
        for place, some in enumerate(values):
            parquet(some)(path / f"{place}.parquet")

    return write


def in_parquet(label: str, content: Callable[[Path], object], outcome: object, columns: str, **more: str) -> Case:
    return Case(label, content, outcome, columns, kind="parquet", file="people.parquet", **more)  # type: ignore[arg-type]


IDS = """
[tables.matching]
columns = ["id"]
normalise = ["digits"]
duplicates = "first"
missing = "leave out"
"""


def ids(*texts: str) -> bytes:
    """Return a CSV file of ids, of which each brings 100."""
    return "".join(f"{line}\n" for line in ["id;a", *(f"{text};100" for text in texts)]).encode()


def matched(label: str, content: bytes, n_ids: int) -> Case:
    return Case(label, content, {"a": 100.0 * n_ids}, AMOUNT + IDS, 'delimiter = ";"')


NUMBERS = (
    Case("a point under a comma", lines("1.234"), REFUSED, AMOUNT, COMMA),
    Case("a point and zeros under a comma", lines("1.000"), REFUSED, WHOLE, COMMA),
    Case("a comma and three digits", lines('"1,234"'), REFUSED, AMOUNT),
    Case("points and a comma", lines("1.299,99"), REFUSED, AMOUNT, COMMA),
    Case("two points", lines("1.000.000"), REFUSED, AMOUNT),
    Case("an apostrophe", lines("1'299"), REFUSED, AMOUNT),
    Case("a narrow space", lines("1\u202f299"), REFUSED, AMOUNT),
    Case("a currency", lines("$5"), REFUSED, AMOUNT),
    Case("a code of a currency", lines("5 EUR"), REFUSED, AMOUNT),
    Case("a percent sign", lines("12 %"), REFUSED, AMOUNT),
    Case("a minus sign behind", lines("5-"), REFUSED, AMOUNT),
    Case(
        "declared points", lines("1.234,5"), {"a": 24690.0}, AMOUNT.replace("1000", "2000"), COMMA + '\nthousands = "."'
    ),
    Case("declared commas", lines('"1,234.5"'), {"a": 24690.0}, AMOUNT.replace("1000", "2000"), 'thousands = ","'),
    Case("a plus sign", lines("+5"), {"a": 100.0}, AMOUNT),
    Case("a number between spaces", lines("\u00a05\u00a0"), {"a": 100.0}, AMOUNT),
    Case("digits of full width", lines("\uff15"), {"a": 100.0}, AMOUNT),
    Case(
        "a gap in another spelling",
        lines("-999.0", "5"),
        {"a": 100.0, "a=missing": 20.0},
        'a = { kind = "number", bounds = [0, 10], missing = "column", gaps = ["-999"] }',
    ),
)

LISTS = (
    Case("codes with a fraction", lines("1.0", "2.0"), BOTH, CODES),
    Case("codes with a gap", lines("1.0", '""', "2.0"), {**BOTH, "a=missing": 20.0}, CODES),
    Case("codes with signs and spaces", lines("+1", " 2.00 "), BOTH, CODES),
    Case(
        "codes that are declared with a fraction",
        lines("1", "2"),
        {"a=1.0": 20.0, "a=2.0": 20.0},
        'a = { kind = "category", values = ["1.0", "2.0"] }',
    ),
    Case(
        "other codes",
        lines("3", "4"),
        ALL_OTHER,
        CODES,
        warned="40 of 40 values are not of the declared kind; the commonest: ",
    ),
    Case("codes with zeros in front", lines("01", "02"), ALL_OTHER, CODES, warned="the commonest: '0"),
    Case("grades with a fraction", lines("1.0", "2.0"), {"a": 60.0, "a=missing": 0.0}, GRADES),
    Case("truth with a fraction", lines("1.0", "0.0"), {"a": 20.0, "a=missing": 0.0}, TRUTH),
    Case("truth in capitals", lines("True", "FALSE"), {"a": 20.0, "a=missing": 0.0}, TRUTH),
    Case(
        "a category of truth",
        lines("True", "False"),
        {"a=true": 20.0, "a=false": 20.0},
        'a = { kind = "category", values = ["true", "false"] }',
    ),
    Case(
        "an accent apart",
        lines("Zoe\u0308", "007"),
        {"a=Zo\u00eb": 20.0, "a=007": 20.0, "a=other": 0.0, "a=missing": 0.0},
        TOWNS,
    ),
    Case(
        "a code that lost its zeros",
        lines("7", "7"),
        {"a=Zo\u00eb": 0.0, "a=007": 0.0, "a=other": 40.0, "a=missing": 0.0},
        TOWNS,
        warned="40 of 40",
    ),
    Case(
        "numbers above their bounds",
        lines("5000"),
        {"a": 20000.0},
        AMOUNT,
        warned="outside of their bounds; the commonest: '5000'",
    ),
    Case("nothing but gaps", lines('""'), {"a": 10000.0}, AMOUNT, warned="20 of 20 values are gaps"),
    in_parquet("floats in Parquet", parquet([1.0, 2.0]), BOTH, CODES),
    in_parquet("small floats in Parquet", parquet([1.0, 2.0], pl.Float32), BOTH, CODES),
    in_parquet(
        "truth in Parquet",
        parquet([True, False]),
        {"a=true": 20.0, "a=false": 20.0},
        'a = { kind = "category", values = ["true", "false"] }',
    ),
    in_parquet(
        "codes of yes and no in Parquet",
        parquet([1, 2]),
        {"a": 20.0},
        'a = { kind = "yes/no", yes = ["2"], no = ["1"] }',
    ),
    in_parquet(
        "integers and floats in a folder",
        parts([1, 2], [1.0]),
        {"a=1": 40.0, "a=2": 20.0, "a=other": 0.0, "a=missing": 0.0},
        CODES,
    ),
    in_parquet(
        "integers and texts of gaps in a folder",
        parts([1.0], [None, 2.0]),
        {"a=1": 20.0, "a=2": 20.0, "a=other": 0.0, "a=missing": 20.0},
        CODES,
    ),
    Case(
        "a query over codes",
        lines("007", "Zo\u00eb"),
        {"a=Zo\u00eb": 20.0, "a=007": 20.0, "a=other": 0.0, "a=missing": 0.0},
        TOWNS,
        'query = "SELECT a FROM people"',
        kind="query",
    ),
    Case(
        "a query with text behind a hundred numbers",
        lines("1", "1", "1", "1", "1", "1", "2", "x"),
        {"a=1": 120.0, "a=2": 20.0, "a=other": 20.0, "a=missing": 0.0},
        CODES,
        'query = "SELECT a FROM people"',
        kind="query",
    ),
)

DATES = (
    Case(
        "days with months first",
        lines("02/13/2020"),
        {"a": 0.0, "a=missing": 20.0},
        DAYS + ', format = "%d/%m/%Y" }',
        warned="the commonest: '02/13/2020'",
    ),
    Case(
        "years of two digits",
        lines("11.01.20"),
        {"a": 200.0, "a=missing": 0.0},
        DAYS + ', format = "%d.%m.%y", pivot = 1950 }',
    ),
    Case(
        "years of two digits of another century",
        lines("11.01.20"),
        {"a": 0.0, "a=missing": 0.0},
        DAYS + ', format = "%d.%m.%y", pivot = 1900 }',
        warned="outside of their bounds; the commonest: '11.01.20'",
    ),
    Case(
        "years of two digits where four are expected",
        lines("11.01.20"),
        {"a": 0.0, "a=missing": 20.0},
        DAYS + ', format = "%d.%m.%Y" }',
        warned="the commonest: '11.01.20'",
    ),
    Case(
        "a day that means a gap",
        lines("9999-12-31", "2020-01-11"),
        {"a": 200.0, "a=missing": 20.0},
        DAYS + ', gaps = ["9999-12-31"] }',
    ),
    Case(
        "times with an offset",
        lines("2020-01-11 23:30:00-0300"),
        {"a": 220.0, "a=missing": 0.0},
        DAYS + ', format = "%Y-%m-%d %H:%M:%S%z" }',
    ),
    in_parquet(
        "times in a zone",
        parquet([datetime(2020, 1, 11, 23, 30)], pl.Datetime("us", "UTC")),
        {"a": 200.0, "a=missing": 0.0},
        DAYS + " }",
    ),
    in_parquet(
        "times in a declared zone",
        parquet([datetime(2020, 1, 11, 23, 30)], pl.Datetime("us", "UTC")),
        {"a": 220.0, "a=missing": 0.0},
        DAYS + ', zone = "Asia/Tokyo" }',
    ),
    in_parquet(
        "dates that mean gaps",
        parquet([date(1900, 1, 1), date(2020, 1, 11)]),
        {"a": 200.0, "a=missing": 20.0},
        DAYS + ', gaps = ["1900-01-01"] }',
    ),
)

MATCHED = (
    matched("ids with a fraction", ids("7.0", "70"), 2),
    matched("ids with and without a fraction", ids("7.0", "7", "7,0", "8"), 2),
    matched("ids with marks", ids("1.000", "1000", "1"), 2),
    matched("ids that a spreadsheet rounded", ids("1.23E+11", "12311"), 1),
    matched("ids with characters that nobody sees", ids("7\u200b", "7"), 1),
    matched("ids with spaces that do not break", ids("\u00a07.0", "7"), 1),
)

VALUES: tuple[Case, ...] = (*NUMBERS, *LISTS, *DATES, *MATCHED)
