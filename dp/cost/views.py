"""The views of a job: who observes its releases, and which neighbouring relation holds in each view.

Every report states both views (docs/decisions/004-privacy-in-two-views.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from dp.cost.accounting import Adjacency

View = Literal["coordinator", "coalition"]
VIEWS: tuple[View, ...] = ("coordinator", "coalition")

ADJACENCY: Mapping[View, Adjacency] = {
    "coordinator": Adjacency.ADD_OR_REMOVE_ONE,
    "coalition": Adjacency.REPLACE_ONE,
}
"""The neighbouring relation of each view. Members of a coalition know the number of rows, so only replaced rows are
hidden."""

# What noise protects, in the words of budgets and reports. A budget is kept per unit, so the words never change.

UNIT = "record of the joint table"

ROW_UNIT = "row of one party's table"
TABLE_UNIT = "whole table of one party"
EVENT_UNIT = "event"
"""One of the events that a party's value counts."""

RATING_UNIT = "rating of an item by a user"
"""What one table says of one user and one item."""

MEMBER_UNIT = "one member's records"
"""Everything that a member of a masked sum contributes to it."""

VECTOR_UNIT = "member's vector (that it took part is public)"

PERSON_AT_PARTY_UNIT = "person in one party's table"
PERSON = "person"
"""All rows of one person that count, in all tables of the job together."""

UNIT_AGAINST_COORDINATOR = "record of the joint table, against the coordinator alone"
"""The privacy unit of sketches under shared hash keys, which have no guarantee against a party that reveals its keys.
An owner allows such a job by a budget of this unit; a budget of the usual unit refuses it."""

BUDGET_UNITS = (
    UNIT,
    PERSON,
    ROW_UNIT,
    RATING_UNIT,
    PERSON_AT_PARTY_UNIT,
    EVENT_UNIT,
    TABLE_UNIT,
    UNIT_AGAINST_COORDINATOR,
)
"""The units that a party's budget can be kept in: those of all analyses over tables, the most usual one first."""


def check_budget_unit(unit: str) -> str:
    """Return a unit that some analysis protects.

    Raises:
        ValueError: there is no analysis that protects it; the text lists all units.
    """
    if unit not in BUDGET_UNITS:
        raise ValueError(f"{unit!r} is not a unit of a budget; the units are {', '.join(map(repr, BUDGET_UNITS))}")
    return unit


@dataclass(frozen=True)
class Protected:
    """The privacy unit in which neighbouring tables differ.

    Attributes:
        name: the unit, as budgets and reports call it.
        most_rows: k, how many rows of one unit count at most.
    """

    name: str = UNIT
    most_rows: int = 1

    def __post_init__(self) -> None:
        if self.most_rows < 1:
            raise ValueError("a protected unit must have at least one row that counts")

    @property
    def times(self) -> str:
        """The factor by which a unit's sensitivity exceeds a row's, in words; empty where it does not."""
        return f"; up to {self.most_rows} rows of one {self.name} count" if self.most_rows > 1 else ""


RECORD = Protected()


def views_of(unit: str) -> tuple[View, ...]:
    """Return the views that have a guarantee for a unit: both, or the coordinator's alone."""
    return ("coordinator",) if unit == UNIT_AGAINST_COORDINATOR else VIEWS


def views_to_calibrate(target: View) -> tuple[View, ...]:
    """Return the views whose epsilon a privacy target bounds.

    `coalition` is the worst promise: the coordinator is part of every coalition, so both epsilons must meet the target.
    The coalition's is the larger one as a rule, but not always: removing a row takes its constant column away too,
    which replacing it does not (`dp.mechanism.projection`). `coordinator` bounds the coordinator's alone.
    """
    return VIEWS if target == "coalition" else (target,)
