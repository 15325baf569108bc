"""Who looks at what a job releases, and which tables must then be hard to tell apart.

Every report states both views (docs/decisions/004-privacy-in-two-views.md).
"""

from collections.abc import Mapping
from typing import Literal

from dp.accounting import Adjacency

View = Literal["coordinator", "coalition"]
VIEWS: tuple[View, ...] = ("coordinator", "coalition")

ADJACENCY: Mapping[View, Adjacency] = {
    "coordinator": Adjacency.ADD_OR_REMOVE_ONE,
    "coalition": Adjacency.REPLACE_ONE,
}
"""The coalition's members know how many rows they hold, so only a replaced row can be hidden from them."""

UNIT = "record of the joint table"
