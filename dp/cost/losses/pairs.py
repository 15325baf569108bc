"""The privacy losses of one release in both directions: a dominating pair of distributions for all neighbours.

For one direction P is what is released with the unit in question and Q without it, for the other the reverse. The
neighbours of a job are the same for all of its releases, so a composition is of one direction or of the other, and its
epsilon the larger of both. Where a map swaps P and Q, as x -> d - x does for symmetric noise, both are alike.
"""

from dataclasses import dataclass

from dp.cost.losses.distribution import Losses

SLACK = 2.0**-40
"""Relative error allowed for a mass, absolute one of a loss per unit of the logarithms it is made of."""


@dataclass(frozen=True)
class PairLosses:
    """The privacy losses of one release in both directions.

    Attributes:
        enters: loss of the release with the unit against without it.
        leaves: the reverse. The same object where both are alike.
        n_times: number of independent such losses.
    """

    enters: Losses
    leaves: Losses
    n_times: int = 1


def alike(losses: Losses | None, n_times: int) -> tuple[PairLosses, ...] | None:
    """Return the only pair of a release whose two directions have the same losses; None where those are not known."""
    return None if losses is None else (PairLosses(losses, losses, n_times),)
