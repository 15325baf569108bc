"""What the bounds of a composition say besides `composed_epsilon`: the Renyi curves alone, and delta at an epsilon."""

from dp.cost import composition
from dp.cost.accounting import EpsilonBound, check_delta, check_epsilon, delta_of_rdp
from dp.cost.composition import Composed


def renyi_epsilon(events: Composed, delta: float) -> EpsilonBound:
    """Return the epsilon that the Renyi curves alone give; arguments and errors as of `composed_epsilon`."""
    check_delta(delta)
    return composition._renyi_epsilon(composition._counted(events), delta)


def composed_delta(events: Composed, epsilon: float) -> float:
    """Return the delta of releases at `epsilon`, rounded up."""
    check_epsilon(epsilon)
    kept = composition._counted(events)
    found = delta_of_rdp(composition._curve_of(kept), composition._n_events(kept), epsilon)
    if (rounded := composition._rounded(kept)) is not None:
        found = min(found, rounded.delta(epsilon))
    for way in composition._ways(kept, found):
        found = min(found, max(d.delta(epsilon) for d in way))
    return found
