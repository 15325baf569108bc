"""Names of rows, persons and users: what a program adds to them makes no second one."""

import polars as pl
import pytest

from analyses.job.job import JobInput
from party.tables.spelling.ids import as_written
from party.tables.table import UnusableTableError, load_table

ASKED = JobInput(party="north", table="visits")
MATCHING = {"columns": ["id"], "normalise": ["digits"]}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("7.0", "7"),
        ("7,0", "7"),
        ("7.00", "7"),
        ("10.000000", "10"),
        ("-7.0", "-7"),
        (" 7.0 ", "7"),
        ("7", "7"),
        ("007", "007"),
        ("1.000", "1.000"),
        ("7.5", "7.5"),
        ("1.10", "1.10"),
        ("10", "10"),
        ("A-1.0", "A-1.0"),
        (" A ", "A"),
        ("\u00a0A\u200b", "A"),
        ("\ufeffA", "A"),
        ("\u200eA", "A"),  # as programs of Windows put before what is copied
        ("\u202aA\u202c", "A"),
        ("\u2067A\u2069", "A"),
        ("A  B", "A  B"),
        (" ", " "),
        ("", ""),
        (None, None),
    ],
)
def test_what_a_program_added_is_taken_off(text, name):
    assert as_written(pl.Series([text], dtype=pl.String)).to_list() == [name]


@pytest.fixture
def read(make_config, tmp_path):
    def read(text, **table):
        (tmp_path / "visits.csv").write_text(text, encoding="utf-8")
        return load_table(make_config(bounds={"a": [0, 9]}, **table), ASKED)

    return read


def ids_of(read, *ids, **changes):
    text = "id,a\n" + "".join(f'"{one}",1\n' for one in ids)
    return read(text, matching={**MATCHING, **changes})


@pytest.mark.parametrize("steps", [["digits"], ["integer"], ["trim"], ["trim", "lower"]])
@pytest.mark.parametrize(("one", "other"), [("7.0", "7"), ("7.00", "7"), ("7,0", "7"), ("10.0", "10")])
def test_a_whole_number_with_a_fraction_of_zeros_is_that_number_under_all_steps(read, steps, one, other):
    found, wanted = (ids_of(read, text, "x5", normalise=steps, missing="leave out").ids[0] for text in (one, other))
    assert found.tolist() == wanted.tolist()


def test_digits_join_no_two_persons(read):
    assert len(ids_of(read, "7.0", "70", "700").ids) == 3
    with pytest.raises(UnusableTableError) as caught:
        ids_of(read, "7.0", "7")
    assert "two rows have the same id" in caught.value.detail


@pytest.mark.parametrize("text", ["1.000", "1,000", "1.23E+11", "1E+05", "1,23e+11"])
def test_digits_that_mean_another_number_are_no_id(read, text):
    with pytest.raises(UnusableTableError) as caught:
        ids_of(read, text, "5")
    assert "a row has no id" in caught.value.detail
    assert ids_of(read, text, "5", missing="leave out").left_out == 1


@pytest.mark.parametrize(("one", "other"), [("7", "7.0"), ("7", " 7"), ("A", "A\u200b"), ("A", "\u00a0A")])
def test_an_id_in_two_spellings_names_a_row_twice(read, one, other):
    with pytest.raises(UnusableTableError) as caught:
        read(f"id,a\n{one},1\n{other},2\n", id_column="id")
    assert "names a row twice" in caught.value.detail


@pytest.mark.parametrize(("one", "other"), [("7", "7.0"), ("7", " 7"), ("A", "A\u200b")])
def test_rows_of_a_person_in_two_spellings_are_one_persons(read, one, other):
    table = read(f"who,a\n{one},1\n{other},2\n", person_column="who", most_rows_per_person=5)
    assert table.persons.ids == (one,)
    assert table.persons.of_rows.tolist() == [0, 0]
