"""The ratings of a device's user: how their file is read, and what of it counts.

No other participant can observe that reading failed: a file that cannot be used counts as one without ratings, and the
reason is for the device's private report alone.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from analyses.matrix_factorization.devices.record import (
    DeclaredRatings,
    RatedItems,
    UsedRatings,
    no_ratings,
    used_ratings,
)
from device.records import BYTES_BESIDE, BYTES_PER_VALUE, UnusableRecordError, read_tree, zeros_if_raised

LONGEST_NAME_BYTES = 256
"""Bytes that the name of an item may take in a file."""

NOT_RATINGS = 'not of the form {"ratings": [["item", number], ...]}'


@dataclass(frozen=True)
class KeptRatings:
    """The ratings that a device keeps.

    Attributes:
        declared: what its owner says of them; all that decides whether a question is answered.
        read: returns them, anew each time; raises `UnusableRecordError`, or anything else, where they cannot be used.
    """

    declared: DeclaredRatings
    read: Callable[[], RatedItems] = field(repr=False)

    def used(self) -> UsedRatings:
        """Read the record and return the ratings that count, none where it cannot be used; whatever the file holds."""
        return zeros_if_raised(lambda: used_ratings(self.declared, self.read()), no_ratings)

    def why_unusable(self) -> str:
        """Return why the record would count as one without ratings now, or an empty text. Private to the owner."""
        return self.used().not_used_because


def read_ratings(path: Path, declared: DeclaredRatings) -> RatedItems:
    """Read the ratings of a user from a JSON file.

    Args:
        path: path of the file.
        declared: bounds how much of it is read.

    Raises:
        UnusableRecordError: the file cannot be used. The text shows nothing of what it holds.
    """
    most_bytes = BYTES_BESIDE + (BYTES_PER_VALUE + LONGEST_NAME_BYTES) * declared.n_items
    tree = read_tree(path, most_bytes, NOT_RATINGS)
    try:
        pairs = tree["ratings"]
        if type(pairs) is not list or not all(type(pair) is list and len(pair) == 2 for pair in pairs):
            raise UnusableRecordError(f"{path}: {NOT_RATINGS}")
        names, values = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        if not {type(name) for name in names} <= {str} or not {type(value) for value in values} <= {int, float}:
            raise UnusableRecordError(f"{path}: {NOT_RATINGS}")
        return RatedItems(tuple(names), np.array(values, dtype=np.float64))
    except (ValueError, TypeError, KeyError, OverflowError):
        raise UnusableRecordError(f"{path}: {NOT_RATINGS}") from None
