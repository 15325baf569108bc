"""Tells an owner which columns lose nearly all of their values, and which values look like gaps that nobody declared.

A table of which all values of a category are `others` serves jobs as well as any, and each of them is paid for. For the
owner's eyes only: counts and the commonest values are shown.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mpc.public_text import made_public
from party.tables.kinds import BinsKind, DateKind, ListKind, YesNoKind
from party.tables.looks.lost import CLIPPED, DROPPED, GAPS, UNNAMED, Lost, lost_of
from party.tables.ratings_config import RatingsTableConfig
from party.tables.sources.source import SourceError
from service.reach.check import Check, passed, warning

if TYPE_CHECKING:
    from analyses.job.schema import Table
    from party.tables.config import TableConfig

_STANDS_FOR_A_GAP = re.compile(r"-?9{2,}|-9|-?8{2,}|-1|-?7{2,}")
"""Numbers that tables have where a value is missing."""

FEWEST_SENTINELS = 3
MAX_CHARACTERS = 40


def check_lost_values(table: "TableConfig") -> list[Check]:
    """Check what becomes of the values of each column of a table that jobs can use."""
    try:
        lost = lost_of(table)
    except SourceError as error:  # it was changed meanwhile
        return [warning(f"lost values of {table.name}", str(error), "Look again.")]
    checks = [
        warning(f"lost values of {table.name}", _found(one), _fix(table, one)) for one in lost if one.is_nearly_all
    ]
    for one in lost:
        value, times = one.values.most_common(1)[0]
        if one.how == CLIPPED and times >= FEWEST_SENTINELS and _STANDS_FOR_A_GAP.fullmatch(value):
            found = f"{one.column}: {value} stands there {times} times, outside of the bounds, and is clipped"
            checks.append(warning(f"gaps of {table.name}", found, _ask_for_gaps(table, one.column, value)))
    return checks


def check_ratings(table: RatingsTableConfig, loaded: "Table") -> list[Check]:
    """Check ratings against what is declared of users, items and repeats."""
    ratings = loaded.ratings
    assert ratings is not None, "it is a table of ratings"
    n_users, n_rows = len(ratings.user_names), len(ratings.values)
    pairs = set(zip(ratings.users.tolist(), ratings.items.tolist(), strict=True))
    known = int((ratings.items >= 0).sum())
    found = f"{n_rows} ratings of {n_users} users, {known} of them of a declared item"
    if repeats := n_rows - len(pairs):
        found += f"; {repeats} rate an item that the same user has rated before"
    name, fix = f"values of {table.name}", ""
    if n_users > table.users:
        fix = f"Declare how many users there may be, at least {n_users}: users; those beyond it do not count."
    elif known < n_rows:
        fix = "Compare `items` with the names in the table: ratings of other items are dropped."
    elif repeats:
        fix = "Is a user's newer rating meant to take the place of the older one? Then leave the older one out."
    elif n_rows > 2 * table.ratings_per_user * n_users:
        fix = f"A user has {n_rows / n_users:.0f} ratings; `ratings_per_user` says {table.ratings_per_user}."
    return [warning(name, found, fix) if fix else passed(name, found)]


def _found(one: Lost) -> str:
    commonest = ", ".join(repr(made_public(value, MAX_CHARACTERS)) for value in one.commonest)
    return f"{one.column}: {one.n_lost} of {one.n_rows} values are {one.how}; the commonest: {commonest}"


def _fix(table: "TableConfig", one: Lost) -> str:
    kind = table.columns.get(one.column)
    if one.how == CLIPPED:
        return (
            "Correct the bounds, by what the column means, or its unit; do the values mean a gap? Then declare `gaps`."
        )
    if one.how == GAPS:
        return "Leave the column out, or look why it is empty: is one of its values wrongly among `gaps`?"
    if one.how == DROPPED:
        return "Correct `items`: a rating of any other item is dropped."
    if one.how == UNNAMED:
        return "Correct `normalise` or `date_formats` in its [tables.matching]: what its steps leave is no id."
    if isinstance(kind, DateKind):
        return f"Correct `format`: dates are expected as {kind.format}."
    if isinstance(kind, YesNoKind):
        return "Correct `yes` and `no`: they list the texts that are true values and false values."
    if isinstance(kind, ListKind) and not isinstance(kind, BinsKind):
        return f"Correct `values`: they have to be those of the column{_capitals(kind.values, one.commonest)}."
    return "Correct the `kind` of the column."


def _capitals(declared: Sequence[str], found: Sequence[str]) -> str:
    lower = {value.casefold() for value in declared}
    return "; capitals matter" if any(value.casefold() in lower for value in found) else ""


def _ask_for_gaps(table: "TableConfig", column: str, value: str) -> str:
    declared = f'gaps = ["{value}"], with a rule for gaps, `missing`'
    if column in table.bounds:
        return f'Does it mean a gap? Then declare the column in [tables.columns]: kind = "number", {declared}.'
    return f"Does it mean a gap? Then declare {declared}."
