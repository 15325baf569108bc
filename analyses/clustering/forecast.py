"""What the noise of a clustering leaves to be seen, before it is asked for."""

from math import sqrt

from analyses.clustering.estimators.mpc import MpcEstimator
from analyses.clustering.plan import ClusteringPlan
from analyses.job.declared_rows import declared_rows
from analyses.job.forecast import Forecast, Quantity, Signal

_EVEN = "The tables have the most rows that are declared, spread evenly over the local clusters."
_OF_CENTRES = (
    "Errors of centres, and of single weights, depend on how the rows lie: a weight is made of the cells that its "
    "centre is nearest to, whose noise is in part cut off."
)


def signal(plan: ClusteringPlan) -> Signal:
    """Return the noise of a count of memberships beside all rows, or that of a local cluster beside an even share."""
    most = float(declared_rows(plan.job, plan.schemas).most)
    by_mpc = isinstance(plan.counting, MpcEstimator)
    counts = Signal(
        "the error of a count of memberships",
        plan.counting.count_deviation(int(most)),
        "the largest number of rows",
        most,
        "rows",
        rows_power=1.0 if by_mpc else 0.5,
        instead="" if by_mpc else "counting 'mpc'",
    )
    local = Signal(
        "the error of a local cluster's count",
        max(sqrt(float(one.mechanism.count_variance)) for one in plan.local),
        "the number of rows in a cluster on average, at most,",
        most / plan.params.k,
        "rows",
    )
    return max(counts, local, key=lambda one: one.noise / one.largest)


def forecast(plan: ClusteringPlan) -> Forecast:
    """Return the errors of counts of memberships, and of the weights' sum where all cells are counted once."""
    rows = declared_rows(plan.job, plan.schemas).most
    pair = Quantity(
        "count of a pair of two parties' local clusters (not in the result: the weights are made of such counts)",
        "rows",
        plan.counting.count_deviation(rows),
        least=0.0,
        largest=float(rows),
    )
    found: tuple[Quantity, ...] = (pair,)
    counting = plan.counting
    if isinstance(counting, MpcEstimator) and (len(plan.owners) == 2 or counting.cells == "joint"):
        whole = counting.cell_deviation * sqrt(counting.grid.n_cells)
        found += (Quantity("sum of all weights", "rows", whole, least=0.0, largest=float(rows)),)
    return Forecast(found, (_EVEN,), (_OF_CENTRES,))
