"""The cost that a job is charged: one function from the job's releases to the cost that budgets add up."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self, cast

import numpy as np

from dp.cost.accounting import EpsilonBound, Floats
from dp.cost.composition import composed_epsilon, rounded_gaussian_of
from dp.cost.events.event import PrivacyEvent, differs_in_neighbours_only
from dp.cost.events.record import rdp_of
from dp.cost.gaussian_filter import GaussianCost, gaussian_cost
from dp.cost.views import ADJACENCY, View, views_of


class CostError(ValueError):
    """The cost cannot be charged; the text is public."""


@dataclass(frozen=True, eq=False)
class JobCost:
    """All releases of one job, in every view that has a guarantee for the job's privacy unit.

    `curve` is at each Renyi order the largest, over the views, of the sum of the curves of the releases in that view.
    So it dominates every view at every order, and stays so under addition: with jobs i and views v, at each order,

        max_v sum_i c_(i, v)  <=  sum_i max_v c_(i, v).

    Whatever is derived from a sum of such curves, at one order or at the best, holds in every view at once: an epsilon
    of a budget bounds the coordinator's view for tables of which one has a record more (add_or_remove_one) AND the
    coalition's for tables that differ in the contents of a record (replace_one). It says nothing of other pairs, for
    instance of what a coalition learns of the presence of a record: it knows how many there are. The coalition is that
    of the fewest colluding parties that any of the jobs withstands; a ledger keeps that number with the costs.

    Keeping a sum per view instead would be tighter only where the worst view differs from job to job, and would need
    two numbers for one budget.

    Attributes:
        events: all releases of the job, per view; at least one in each.
        unit: what they protect. It decides which views there must be: `dp.cost.views.views_of`.
        colluding: t, the number of colluding parties that the data are protected from; 0 if there is no such
            protection.

    Raises:
        CostError: a view is missing, has no release, or has one for other neighbours than the view's.
    """

    events: Mapping[View, tuple[PrivacyEvent, ...]] = field(repr=False)
    unit: str
    colluding: int
    _bounds: dict[float, EpsilonBound] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if set(self.events) != set(views_of(self.unit)):
            raise CostError(
                f"the cost of unit {self.unit} must be stated for exactly these views: "
                f"{' and '.join(views_of(self.unit))}"
            )
        for view, events in self.events.items():
            if not events:
                raise CostError("the analysis states no cost for what it opens")
            for event in events:
                adjacency = getattr(event, "adjacency", None)
                if adjacency is not ADJACENCY[view]:
                    named = getattr(adjacency, "value", "none")
                    raise CostError(
                        f"an event in the view of the {view} must be stated for the neighbouring relation "
                        f"{ADJACENCY[view].value}, not for {named}"
                    )

    @classmethod
    def of(cls, events_of: Callable[[View], Sequence[PrivacyEvent]], unit: str, colluding: int) -> Self:
        """Return the cost of whatever states its releases per view. Arguments as of the class.

        Raises:
            CostError: see the class.
        """
        return cls({view: tuple(events_of(view)) for view in views_of(unit)}, unit, colluding)

    @property
    def n_events(self) -> int:
        """How many releases there are, in the view that has most."""
        return max(map(len, self.events.values()))

    @cached_property
    def curve(self) -> Floats:
        """The largest over the views of the sums of Renyi curves, at each of `dp.cost.accounting.ORDERS`.

        Raises:
            UnknownEventError: the cost of an event is unknown.
        """
        views = iter(self.events.values())
        known = next(views)
        curve = _sum(known)
        for events in views:
            if not cost_alike(known, events):
                curve = np.maximum(curve, _sum(events))
        curve.setflags(write=False)
        return curve

    @cached_property
    def gaussian(self) -> GaussianCost:
        """The cost as rounded Gaussian noise: one that dominates those of all views, as `curve` does."""
        found = GaussianCost()
        for events in self.events.values():
            found = found | gaussian_cost(rounded_gaussian_of(cast(Iterable[PrivacyEvent], events)))
        return found

    def epsilon(self, delta: float) -> EpsilonBound:
        """Return the epsilon at `delta` of the job by itself: that of its worst view.

        Raises:
            CalibrationError: delta is out of range.
        """
        if delta not in self._bounds:
            bounds = [composed_epsilon(cast(Iterable[PrivacyEvent], known), delta) for known in self.events.values()]
            self._bounds[delta] = max(bounds, key=lambda bound: bound.epsilon)
        return self._bounds[delta]


def cost_alike(one: Sequence[PrivacyEvent], other: Sequence[PrivacyEvent]) -> bool:
    """Whether two views have the same releases, and curves that do not depend on the neighbours that they are for."""
    return len(one) == len(other) and all(
        differs_in_neighbours_only(*events) for events in zip(one, other, strict=True)
    )


def _sum(events: Sequence[PrivacyEvent]) -> Floats:
    """Return the sum of the curves of at least one event."""
    curves = [rdp_of(event) for event in events]
    return curves[0] if len(curves) == 1 else np.asarray(np.sum(curves, axis=0))
