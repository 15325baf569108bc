"""`moiety table draft`: the same text whatever the values are, and a section once its questions are answered."""

import gzip
import json
import re
import tomllib
from datetime import date

import polars as pl
import pytest
from typer.testing import CliRunner

from cli.main import app
from party.tables.config import TableConfig
from party.tables.ratings_config import RatingsTableConfig

FRAME = pl.DataFrame(
    {
        "patient_id": ["a", "b"],
        "age": [31, 4],
        "stay": [2.5, 1.0],
        "smoker": [True, None],
        "born": [date(1990, 1, 1), date(2020, 2, 2)],
        "town of birth": ["secret-7", "secret-8"],
        "photo": [b"x", b"y"],
    }
)
ANSWERS = {"LEAST": "1", "MOST": "10", "FIRST": "2000-01-01", "LAST": "2020-12-31", "EPSILON": "1.0", "DELTA": "1e-6"}


def draft(*arguments, code=0):
    found = CliRunner().invoke(app, ["table", "draft", *map(str, arguments)])
    assert found.exit_code == code, found.output
    return found.output


def answered(text):
    """Uncomment the answers and fill in what is asked."""
    lines = [line.removeprefix("# ") for line in text.splitlines() if re.match(r'# ("[^"]+"|\w+) = |# \[|[^#]|$', line)]
    filled = "\n".join(lines).replace('"?", "?"', '"x", "y"').replace('yes = ["?"], no = ["?"]', "")
    for question, answer in ANSWERS.items():
        filled = re.sub(rf"\b{question}\b", answer, filled)
    return filled


@pytest.mark.parametrize("name", ["visits.parquet", "visits.arrow", "visits.csv"])
def test_values_change_nothing(tmp_path, name):
    texts = []
    for rows in (FRAME, FRAME.reverse(), FRAME.head(0)):
        if name.endswith(".csv"):
            rows.drop("photo").write_csv(tmp_path / name)
        else:
            write = rows.write_parquet if name.endswith(".parquet") else rows.write_ipc
            write(tmp_path / name)
        texts.append(draft(tmp_path / name))
    assert texts[0] == texts[1] == texts[2]
    assert "secret" not in texts[0]
    assert 'name = "visits"' in texts[0]
    assert '# id_column = "patient_id"' in texts[0]
    assert '# [tables.matching]\n# columns = ["patient_id"]\n' in texts[0]


def test_it_is_printed_as_json_too(tmp_path):
    FRAME.write_parquet(tmp_path / "visits.parquet")
    found = json.loads(draft(tmp_path / "visits.parquet", "--format", "json"))
    assert found["toml"] + "\n" == draft(tmp_path / "visits.parquet")


def test_types_decide_what_is_asked(tmp_path):
    FRAME.write_parquet(tmp_path / "visits.parquet")
    text = draft(tmp_path / "visits.parquet", "--name", "stays")
    assert 'name = "stays"' in text
    kinds = {found[1].strip('"'): found[2] for found in re.finditer(r'# ("[^"]+"|\w+) = \{ kind = "([^"]+)"', text)}
    assert kinds == {
        "age": "integer",
        "stay": "number",
        "smoker": "yes/no",
        "born": "date",
        "town of birth": "category",
    }
    assert "# photo: it is of the type Binary" in text


def test_a_draft_is_refused_until_its_questions_are_answered_and_then_understood(tmp_path):
    FRAME.write_parquet(tmp_path / "visits.parquet")
    text = draft(tmp_path / "visits.parquet")
    with pytest.raises(ValueError, match="at least one column is needed"):
        TableConfig.model_validate(tomllib.loads(text)["tables"][0])
    lines = [
        line for line in answered(text).splitlines() if not line.startswith(("person_", "most_rows", "on_request"))
    ]
    table = TableConfig.model_validate(tomllib.loads("\n".join(lines))["tables"][0])
    assert table.source_columns == ("age", "stay", "smoker", "born", "town of birth")
    assert table.rows == (1, 10)


def test_a_csv_file_of_another_form_gets_a_source(tmp_path):
    (tmp_path / "My Visits.csv").write_text("id;age;größe\n1;2;3,5\n")
    text = draft(tmp_path / "My Visits.csv")
    assert 'name = "my-visits"' in text
    assert 'delimiter = ";"' in text
    assert text.count("# age = ") == 6
    assert all(f'# age = {{ kind = "{kind}"' in text for kind in ("number", "integer", "ordinal", "yes/no"))
    assert '# "größe" = ' in text
    assert "path" not in text.partition("[tables.source]")[0]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_column_of_gaps_is_told_beside_the_draft_and_changes_nothing_in_it(tmp_path, ending):
    texts = []
    for gap, value in (("-999", -999.0), ("7", 7.0)):
        path = tmp_path / f"visits.{ending}"
        if ending == "csv":
            path.write_text("id;town;age\n" + f"a;NA;{gap}\n" * 20)
        else:
            pl.DataFrame({"id": ["a"] * 20, "town": ["NA"] * 20, "age": [value] * 20}).write_parquet(path)
        found = CliRunner().invoke(app, ["table", "draft", str(path)])
        texts.append(found.stdout)
        assert "town: 20 of 20 values seem to be missing, the commonest is 'NA'" in found.stderr
        assert ("age: 20 of 20 values seem to be missing, the commonest is '-999'" in found.stderr) == (gap == "-999")
    assert texts[0] == texts[1]
    assert "seem to be missing" not in texts[0]


@pytest.mark.parametrize("name", ["ratings.csv", "ratings.parquet"])
def test_a_table_of_ratings_is_drafted_from_names_alone_and_understood_once_it_is_answered(tmp_path, name):
    texts = []
    for user in ("secret-1", "secret-2"):
        frame = pl.DataFrame({"movieId": ["7"], "userId": [user], "user rating": [4.5], "at": [3]})
        frame.write_csv(tmp_path / name) if name.endswith("csv") else frame.write_parquet(tmp_path / name)
        texts.append(draft(tmp_path / name, "--ratings"))
    assert texts[0] == texts[1]
    with pytest.raises(ValueError, match="6 validation errors"):
        RatingsTableConfig.model_validate(tomllib.loads(texts[0])["tables"][0])
    (tmp_path / "items.txt").write_text("7\n8\n")
    text = answered(texts[0]).replace("ABOUT", "20").replace('"items.txt"', json.dumps(str(tmp_path / "items.txt")))
    text = text.replace('period = "?"', 'period = "2026"').replace("users = 10", "users = 1000")
    given = tomllib.loads(text)["tables"][0]
    table = RatingsTableConfig.model_validate(given, context={"folder": tmp_path})
    assert (table.user, table.item, table.rating) == ("userId", "movieId", "user rating")
    assert (table.items, table.users, table.ratings_per_user) == (("7", "8"), 1000, 20)
    assert table.bounds == {"user rating": (1.0, 10.0)}


def test_a_file_that_cannot_be_read_is_told(tmp_path):
    assert "missing or unreadable" in draft(tmp_path / "absent.csv", code=2)
    assert "unknown format" in draft(tmp_path / "visits.xlsx", code=2)
    (tmp_path / "visits.parquet").write_bytes(b"no such thing")
    assert "visits.parquet" in draft(tmp_path / "visits.parquet", code=2)


@pytest.mark.parametrize("name", ["visits.tsv", "visits.tsv.gz"])
def test_a_file_with_tabs_is_drafted_and_read_by_its_name_alone(tmp_path, name):
    path = tmp_path / name
    text = b"patient_id\tage\tnote\n1\t31\ta,b;c\n2\t4\t\n"
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    lines = draft(path).splitlines()
    assert f"path = {json.dumps(str(path))}" in lines
    assert "[tables.source]" not in lines
    source = TableConfig(name="visits", path=path, bounds={"age": (0.0, 120.0)}).make_source()
    assert next(source.batches(("age",), ("note",)))["age"].to_list() == [31.0, 4.0]
    path.write_bytes(b"id,age\n1,2\n")
    assert 'delimiter = ","' in draft(path) if not name.endswith(".gz") else "gzip" in draft(path, code=2)
