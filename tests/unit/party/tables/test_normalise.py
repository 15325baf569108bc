"""Normalised ids against the vectors, and which columns can identify rows."""

import hashlib
import json
import re
import sys
import unicodedata
from datetime import date, datetime
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyses.job.row_ids import digests_of_ids
from mpc.transcript import encode_fields
from party.tables.normalise import MAX_DIGITS, SPACES, TEXTS_AT_ONCE, normalised
from party.tables.sources.source import SourceError

VECTORS = json.loads((Path(__file__).parents[3] / "vectors" / "row_ids.json").read_text())

ROW_BY_ROW = {
    "trim": lambda text: " ".join(text.split()),
    "nfkc": lambda text: unicodedata.normalize("NFKC", text),
    "lower": str.casefold,
    "digits": lambda text: "".join(str(unicodedata.decimal(one)) for one in text if one.isdecimal()),
    "letters": lambda text: "".join(one for one in text if one.isalpha()),
    "integer": lambda text: (
        str(int(text)) if len(text) <= MAX_DIGITS and re.fullmatch(r"[+-]?[0-9]+", text, re.ASCII) else ""
    ),
}
"""What each step is, by definition."""

ODD = (
    "\u0308\u0301\u0323\u1100\u1161\u11a8\uac00\u0345\u03a3\u0130\u00df\ufb01\u1e9e\u0660\u0967\uff11\u00b2\u00bd\u216b"
    "\U0001d7d8\U0001d400\u200d\ufeff"
)
"""Marks that combine with what stands before them, letters that become several, digits of other scripts."""

TEXTS = st.lists(
    st.one_of(
        st.text(max_size=12),
        st.text(alphabet="aZ09+- .\n" + SPACES + ODD, max_size=12),
        st.text(alphabet="\x00\x01\x1fa1\u0308", max_size=4),
        st.from_regex(r"[+-]?0*[0-9]{0,30}\n?", fullmatch=True),
    ),
    max_size=30,
)


@settings(max_examples=250)
@given(step=st.sampled_from(list(ROW_BY_ROW)), texts=TEXTS)
def test_a_step_does_to_a_column_what_it_does_to_each_text_by_itself(step, texts):
    found = normalised(pl.Series("id", texts, dtype=pl.String), (step,))
    assert found.to_list() == [ROW_BY_ROW[step](one) for one in texts]
    assert found.dtype == pl.String


@given(texts=TEXTS, steps=st.permutations(list(ROW_BY_ROW)).map(lambda steps: tuple(steps[:3])))
def test_so_do_several_one_after_the_other(texts, steps):
    expected = texts
    for step in steps:
        expected = [ROW_BY_ROW[step](one) for one in expected]
    assert normalised(pl.Series("id", texts, dtype=pl.String), steps).to_list() == expected


@pytest.fixture(scope="module")
def codes():
    """Every character; of ideographs, syllables, private use and planes that hold nothing else, every 64th."""
    alike = [range(0x3400, 0xA000), range(0xAC00, 0xD7A4), range(0xE000, 0xF900), range(0x20000, sys.maxunicode + 1)]
    thousands = {code for kind in alike for code in kind if code % 64}
    return [code for code in range(sys.maxunicode + 1) if code not in thousands and not 0xD800 <= code < 0xE000]


@pytest.mark.slow
@pytest.mark.parametrize("step", ROW_BY_ROW)
@pytest.mark.parametrize("form", ["{}", "a{}1", "{}\u0308 {}"])
def test_so_it_is_for_every_character_but_those_of_whose_kind_there_are_thousands(codes, step, form):
    texts = [form.format(chr(code), chr(code)) for code in codes]
    found = normalised(pl.Series("id", texts), (step,)).to_list()
    assert [code for code, one, text in zip(codes, found, texts, strict=True) if one != ROW_BY_ROW[step](text)] == []


def test_spaces_are_those_at_which_python_splits():
    assert {*SPACES} == {chr(code) for code in range(sys.maxunicode + 1) if not chr(code).split()}


@pytest.mark.parametrize("step", ROW_BY_ROW)
def test_texts_with_every_control_character_and_more_texts_than_are_done_at_once(step):
    controls = ["é" + chr(code) for code in range(0x20)]
    texts = [*controls, *(f"É{i} \u0308" for i in range(TEXTS_AT_ONCE)), *controls]
    assert normalised(pl.Series("id", texts), (step,)).to_list() == [ROW_BY_ROW[step](one) for one in texts]


@pytest.mark.parametrize("n", [MAX_DIGITS, MAX_DIGITS + 1])
def test_the_longest_whole_number(n):
    found = normalised(pl.Series("id", ["0" + "7" * (n - 1), "-" + "0" * (n - 1)]), ("integer",))
    assert found.to_list() == (["7" * (n - 1), "0"] if n == MAX_DIGITS else ["", ""])


def named(prefix):
    found = [one for one in VECTORS if one["name"].startswith(prefix)]
    assert found
    return pytest.mark.parametrize("vector", found, ids=lambda vector: vector["name"])


@named("normalise_")
def test_steps_make_of_texts_what_the_vectors_say(vector):
    column = pl.Series("id", vector["texts"])
    assert normalised(column, tuple(vector["steps"]), vector["date_format"]).to_list() == vector["normalised"]


@named("digest_")
def test_digests_are_those_of_the_vectors_and_made_as_they_are_described(vector):
    digest = digests_of_ids([[one] for one in vector["fields"]])[0].tobytes()
    fields = encode_fields("moiety row id", len(vector["fields"]), *vector["fields"])
    assert digest.hex() == vector["digest"] == hashlib.sha256(fields).hexdigest()


@pytest.mark.parametrize(
    ("values", "steps", "found"),
    [
        ([7, None, 12], (), ["7", "", "12"]),
        ([9007199254740991.0], (), ["9007199254740991"]),  # the next one might be 2^53 + 1 as well, which is another id
        ([7.0, None, float("nan")], (), ["7", "", ""]),  # a gap has made floats of whole numbers
        ([date(1999, 12, 31), None], ("date",), ["1999-12-31", ""]),
        ([date(1999, 12, 31), None], (), ["1999-12-31", ""]),
        ([datetime(1999, 12, 31, 23, 59)], ("date",), ["1999-12-31"]),
        ([None, None], ("trim",), ["", ""]),
    ],
)
def test_numbers_and_dates_identify_rows_as_their_texts_do(values, steps, found):
    assert normalised(pl.Series("id", values), steps, "%d.%m.%Y").to_list() == found


@pytest.mark.parametrize(
    "values", [[1.5], [1e300], [9007199254740992.0], [float("inf")], [True], [datetime(1999, 12, 31)], [[1, 2]]]
)
def test_other_columns_identify_nothing_and_no_value_is_told(values):
    with pytest.raises(SourceError, match="column 'id' identifies rows") as caught:
        normalised(pl.Series("id", values), ("trim",))
    assert str(values[0]) not in str(caught.value)


def test_a_point_in_time_is_of_the_day_in_its_own_time_zone():
    """Midnight in Berlin is the day before in UTC, and a date of birth would match nothing."""
    midnight = pl.Series("id", [datetime(1999, 12, 31)]).dt.replace_time_zone("Europe/Berlin")
    assert normalised(midnight, ("date",)).to_list() == ["1999-12-31"]
