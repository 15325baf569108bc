"""Normalised ids against the vectors, and which columns can identify rows."""

import hashlib
import json
from datetime import date, datetime
from pathlib import Path

import polars as pl
import pytest

from analyses.job.row_ids import digests_of_ids
from mpc.transcript import encode_fields
from party.tables.normalise import normalised
from party.tables.sources.source import SourceError

VECTORS = json.loads((Path(__file__).parents[3] / "vectors" / "row_ids.json").read_text())


def named(prefix):
    found = [one for one in VECTORS if one["name"].startswith(prefix)]
    assert found
    return pytest.mark.parametrize("vector", found, ids=lambda vector: vector["name"])


@named("normalise_")
def test_steps_make_of_texts_what_the_vectors_say(vector):
    column = pl.Series("id", vector["texts"])
    assert normalised(column, tuple(vector["steps"]), vector["date_format"]) == vector["normalised"]


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
    assert normalised(pl.Series("id", values), steps, "%d.%m.%Y") == found


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
    assert normalised(midnight, ("date",)) == ["1999-12-31"]
