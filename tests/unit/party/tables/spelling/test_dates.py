"""Dates: formats that can be met, years of two digits, and days that no zone of a machine moves."""

import contextlib
import itertools
import subprocess
import sys
from datetime import UTC, date, datetime

import polars as pl
import pytest
from child_processes import child_environ
from pydantic import ValidationError

from party.tables.spelling.dates import DateForm, day_of, days_of


def days(texts, **form):
    return days_of(pl.Series(texts, dtype=pl.String), DateForm(**form)).to_list()


@pytest.mark.parametrize(
    ("form", "complaint"),
    [
        ("YYYY-MM-DD", "has no year"),
        ("dd.mm.yyyy", "has no year"),
        ("%d.%m", "has no year"),
        ("%Y-%d", "has no month"),
        ("%m/%Y", "has no day"),
        ("%Y-%Y-%m-%d", "more than one year"),
        ("%Y-%j-%d", "more than one day"),
        ("%Q.%m.%Y", "%Q is not known"),
        ("%Y-%m-%d %", "% is not known"),
        ("%c", "%c is not known"),
        ("%s", "%s is not known"),
        ("%d.%m.%y", "years of two digits"),
        ("%D", "years of two digits"),
        *((f"%Y-%m-%d {time}", "a part of a time") for time in ("%H", "%M", "%S", "%I:%M", "%H:%M %p", "%R:%S", "%z")),
    ],
)
def test_a_format_that_no_date_meets_is_refused(form, complaint):
    with pytest.raises(ValidationError, match=complaint):
        DateForm(format=form)


@pytest.mark.parametrize("zone", ["", " %z"])
def test_every_format_with_a_time_of_day_that_is_taken_can_be_read(zone):
    moment, taken = datetime(2024, 3, 5, 22, 7, 9, tzinfo=UTC), []
    for n in range(5):
        for parts in itertools.combinations(["%H", "%I", "%M", "%S", "%p", "%T", "%R"], n):
            form = " ".join(["%Y-%m-%d", *parts]) + zone
            with contextlib.suppress(ValidationError):
                taken.append(DateForm(format=form).format)
    for form in taken:
        assert days([moment.strftime(form)], format=form) == [moment.date()], form
    assert len(taken) == 7 - bool(zone)  # a zone is that of a time


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("%Y-%m-%d", "2020-03-01"),
        ("%d.%m.%Y", "1.3.2020"),
        ("%F", "2020-03-01"),
        ("%Y%m%d", "20200301"),
        ("%e.%m.%Y", "1.3.2020"),
        ("%d %b %Y", "01 Mar 2020"),
        ("%d. %B %Y", "01. March 2020"),
        ("%Y-%j", "2020-061"),
        ("%a %d/%m/%Y", "Sun 01/03/2020"),
        ("%Y-%m-%dT%H:%M:%S", "2020-03-01T23:59:59"),
        ("%Y-%m-%d %H:%M:%S%.f", "2020-03-01 11:30:00.123"),
        ("%m/%d/%Y %I:%M %p", "03/01/2020 11:30 PM"),
        ("%Y-%m-%d%%", "2020-03-01%"),
    ],
)
def test_what_a_format_may_have_is_understood(form, text):
    assert days([text], format=form) == [date(2020, 3, 1)]


@pytest.mark.parametrize(
    ("pivot", "text", "day"),
    [
        (1930, "31.12.29", date(2029, 12, 31)),
        (1930, "01.01.30", date(1930, 1, 1)),
        (1970, "05.06.69", date(2069, 6, 5)),
        (1900, "05.06.69", date(1969, 6, 5)),
        (1900, "29.02.00", None),
        (1950, "29.02.00", date(2000, 2, 29)),
    ],
)
def test_years_of_two_digits_are_those_of_the_declared_hundred(pivot, text, day):
    assert days([text], format="%d.%m.%y", pivot=pivot) == [day]


def test_a_pivot_without_years_of_two_digits_is_refused():
    with pytest.raises(ValidationError, match="only years of two digits"):
        DateForm(format="%d.%m.%Y", pivot=1930)


def test_a_year_of_two_digits_is_none_of_four():
    assert days(["01.02.70", "01.02.1970"], format="%d.%m.%Y") == [None, date(1970, 2, 1)]
    assert days(["70-02-01", "0070-02-01"]) == [None, None]


def test_an_unknown_zone_is_refused():
    with pytest.raises(ValidationError, match="not a time zone"):
        DateForm(zone="Mars/Phobos")


def test_the_day_of_a_point_in_time_is_that_of_the_declared_zone():
    late = pl.Series([datetime(2020, 6, 1, 22, 30)])
    assert day_of(late, "Asia/Tokyo").to_list() == [date(2020, 6, 1)]  # it has no zone: as it stands
    in_utc = late.dt.replace_time_zone("UTC")
    assert day_of(in_utc, None).to_list() == [date(2020, 6, 1)]
    assert day_of(in_utc, "Asia/Tokyo").to_list() == [date(2020, 6, 2)]
    in_berlin = late.dt.replace_time_zone("Europe/Berlin")
    assert day_of(in_berlin, None).to_list() == [date(2020, 6, 1)]
    assert day_of(in_berlin, "UTC").to_list() == [date(2020, 6, 1)]
    assert day_of(in_berlin, "Pacific/Kiritimati").to_list() == [date(2020, 6, 2)]


def test_texts_with_an_offset_have_the_day_of_the_declared_zone_and_of_utc_without():
    form = "%Y-%m-%d %H:%M:%S%z"
    texts = ["2020-06-01 22:30:00+00:00", "2020-06-02 00:30:00+02:00"]
    assert days(texts, format=form) == [date(2020, 6, 1)] * 2
    assert days(texts, format=form, zone="Asia/Tokyo") == [date(2020, 6, 2)] * 2


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "America/Los_Angeles"])
def test_the_zone_of_the_machine_moves_no_day(zone):
    program = """
from datetime import datetime, timezone
import polars as pl
from party.tables.spelling.dates import DateForm, day_of, days_of
times = pl.Series([datetime(2020, 6, 1, 22, 30, tzinfo=timezone.utc)])
print(day_of(times, None)[0], days_of(pl.Series(["2020-06-01"]), DateForm())[0])
"""
    environment = {**child_environ(), "TZ": zone}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.split() == ["2020-06-01", "2020-06-01"]
