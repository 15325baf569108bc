"""How dates are written in a table: the form that an owner declares, and the days that texts and timestamps are."""

import re
from typing import TYPE_CHECKING, Annotated, Self
from zoneinfo import ZoneInfo, available_timezones

from pydantic import AfterValidator, Field, StrictStr, model_validator

from service.settings import Settings

if TYPE_CHECKING:
    import polars as pl  # the configuration of a table is read without

ISO_DATE = "%Y-%m-%d"

_PARTS = {
    "year": "YyFD",
    "month": "mbBhFD",
    "day": "deFD",
}
_OF_A_DAY = "YymbBhdejaAFDHIMSpTRfz"
_OF_A_TIME = "HIMSpTR"
_TIMES = {"", "HM", "HMS", "IMp", "IMSp", "R", "T"}
"""The directives of a time of day that can stand in one format, sorted; the library refuses all others."""

_DIRECTIVE = re.compile(r"%(\.?f|-?.|$)", re.DOTALL)
FIRST_YEAR = 1000
"""Years before are no dates: `%Y` would read the year 70 in `01.02.70`."""


def check_format(text: str) -> str:
    """Refuse a format of dates that no date can have, or that does not say which day it is.

    Raises:
        ValueError: says why.
    """
    found = [one.lstrip(".-") for one in _DIRECTIVE.findall(text)]
    unknown = [one for one in found if one != "%" and (len(one) != 1 or one not in _OF_A_DAY)]
    if unknown:
        raise ValueError(f"format: %{unknown[0]} is not known; %Y %m %d %b %j %y %H %M %S and the like are")
    for part, letters in _PARTS.items():
        n_said = sum(one in letters for one in found) + (part != "year" and "j" in found)
        if n_said != 1:
            how = "no" if not n_said else "more than one"
            raise ValueError(f"format: {text!r} has {how} {part}; a date is written such as %d.%m.%Y")
    time = "".join(sorted(one for one in found if one in _OF_A_TIME))
    if time not in _TIMES or ("z" in found and not time):
        raise ValueError(
            f"format: {text!r} has a part of a time of day; write all of it, as %H:%M, %I:%M %p or %H:%M:%S"
        )
    return text


def check_zone(text: str) -> str:
    """Refuse a zone of time that nobody knows.

    Raises:
        ValueError: it is so.
    """
    if text not in available_timezones():
        raise ValueError(f"zone: {text!r} is not a time zone, such as UTC or Europe/Berlin")
    ZoneInfo(text)
    return text


DateFormat = Annotated[StrictStr, Field(min_length=1), AfterValidator(check_format)]
Zone = Annotated[StrictStr, AfterValidator(check_zone)]
Pivot = Annotated[int, Field(ge=FIRST_YEAR, le=9900)]


def check_pivot(date_format: str, pivot: int | None) -> None:
    """Refuse years of two digits without a declared century, and a century where years have four digits.

    Raises:
        ValueError: it is so.
    """
    has_short_years = any(one in ("y", "D") for one in _DIRECTIVE.findall(date_format))
    if has_short_years and pivot is None:
        raise ValueError("pivot: years of two digits need it: pivot = 1930 means the years 1930 to 2029")
    if pivot is not None and not has_short_years:
        raise ValueError("pivot: only years of two digits (%y) need it")


class DateForm(Settings):
    """How dates are written.

    Attributes:
        format: format of dates in text, as in `strftime`.
        pivot: the first of the hundred years that two digits (`%y`) stand for.
        zone: whose day a point in time belongs to; where absent, that of the column's own type, and UTC where that has
            none. Times without a zone are taken as they stand.
    """

    format: DateFormat = ISO_DATE
    pivot: Pivot | None = None
    zone: Zone | None = None

    @model_validator(mode="after")
    def _years_are_whole(self) -> Self:
        check_pivot(self.format, self.pivot)
        return self


def days_of(texts: "pl.Series", form: DateForm) -> "pl.Series":
    """Return the dates that texts are, null where one is none or has a year before `FIRST_YEAR`."""
    import polars as pl  # the configuration of a table is read without

    if "%z" in form.format:
        return day_of(texts.str.to_datetime(form.format, strict=False), form.zone or "UTC")
    days = texts.str.to_date(form.format, strict=False)
    if form.pivot is not None:
        year = (days.dt.year() - form.pivot) % 100 + form.pivot
        in_words = pl.select(
            pl.concat_str([year.cast(pl.String), days.dt.strftime("-%m-%d")])  # null where either is
        ).to_series()
        days = in_words.str.to_date(ISO_DATE, strict=False).alias(texts.name)
    return days.set(days.dt.year() < FIRST_YEAR, None)


def day_of(times: "pl.Series", zone: str | None) -> "pl.Series":
    """Return the day of dates and points in time: in a zone, or else as their own type has it.

    The zone of the machine, or of a session, makes no difference.
    """
    if zone is not None and getattr(times.dtype, "time_zone", None) is not None:
        times = times.dt.convert_time_zone(zone)
    return times.dt.date()  # of its own time zone: a cast would take that of UTC
