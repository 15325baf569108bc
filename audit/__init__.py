"""The targets of `moiety audit`: one with an exact claim for every mechanism, and published faulty mechanisms.

`table` lists the targets; the other modules make them, one kind of release each. Noise is drawn by the functions that
jobs call. `less_noise` makes the same mechanism with less noise, which the audit must catch.
"""

from audit.entry import Entry, Published
from audit.table import PUBLISHED, TARGETS

__all__ = ["PUBLISHED", "TARGETS", "Entry", "Published"]
