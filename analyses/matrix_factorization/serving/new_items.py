"""Items that a model has never seen, of which an owner knows the public features: read from a file."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from analyses.job.ratings import numbers_of


@dataclass(frozen=True)
class NewItems:
    """Some new items.

    Attributes:
        names: what they are called.
        features: shape (items, features), in the order in which the job states them.
    """

    names: tuple[str, ...]
    features: NDArray[np.float64] = field(repr=False)

    @classmethod
    def of_lines(cls, lines: Sequence[str]) -> "NewItems":
        """Return the items on lines, each `name, number, number, ...`; a name holds no comma.

        Raises:
            ValueError: a line is of another form, has more or fewer numbers than the first, or repeats a name.
        """
        parted = [line.partition(",") for line in lines]
        names = tuple(name.strip() for name, _, _ in parted)
        rows = [numbers_of(numbers, place) for place, (_, _, numbers) in enumerate(parted, start=1)]
        if not rows or len(set(map(len, rows))) > 1:
            raise ValueError("new items: each line has a name and as many numbers as all others")
        if len(set(names)) < len(names):
            raise ValueError("new items: the same name appears more than once")
        return cls(names, np.array(rows, dtype=np.float64))
