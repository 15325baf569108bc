"""The result of a round: the exact sum of the survivors' vectors, and who dropped out when."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc.secagg.stage import Stage
from mpc.secagg.vector.group import Elements, SumGroup


@dataclass(frozen=True)
class OpenedSum:
    """The result of a round.

    Attributes:
        group: group of the sum.
        elements: the sum, as group elements; noise in it included.
        survivors: members whose vectors are in the sum, ascending.
        dropped_out: every other member of the roster, with the stage at which it did not answer.
        silent_after: survivors that did not answer in a later stage, to that stage; their vectors are in the sum.
        liars: members whose shares were corrupted; the shares of the others sufficed.
        surplus_seeds: survivor to its opened surplus seeds.
    """

    group: SumGroup
    elements: Elements = field(repr=False)
    survivors: tuple[int, ...]
    dropped_out: Mapping[int, Stage]
    silent_after: Mapping[int, Stage]
    liars: tuple[int, ...]
    surplus_seeds: Mapping[int, tuple[bytes, ...]] = field(repr=False)

    def integers(self) -> NDArray[Any]:
        """Return the sum as signed integers."""
        return self.group.decode(self.elements)

    def less(self, surplus: NDArray[np.int64]) -> "OpenedSum":
        """Return the sum without integers that were added in excess; shape as the sum."""
        elements = self.elements.copy()
        self.group.deduct(elements, self.group.encode(surplus))
        return replace(self, elements=elements, surplus_seeds={})
