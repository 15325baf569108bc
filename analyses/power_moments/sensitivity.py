"""How far one row moves a sum of powers, and what owners prove of their values so that it moves it no further."""

from collections.abc import Sequence

from analyses.job.job import Job
from analyses.job.norm_bounds import Bounds, by_owner
from dp.cost.views import VIEWS, View
from dp.mechanism.vector import VectorSensitivity
from mpc.proofs.norm_bound import NormBound


def power_sensitivity(largest: Sequence[int], order: int) -> dict[View, VectorSensitivity]:
    """A row's x lies in 0 .. X, where X is the sum of the largest values, so one row moves x^p by at most X^p."""
    power = sum(largest) ** order
    return dict.fromkeys(VIEWS, VectorSensitivity(power**2, power))


def proven_sizes(job: Job, largest: Sequence[int], max_rows: int) -> Bounds:
    """Return what owners prove, with the smallest masks: |x_q| <= X_q. That suffices for the sensitivity X^p.

    Owners that deviate may bring c in -C .. C, C the sum of their X_q. The others bring a in 0 .. A, and A + C = X.
    Without a row: |(c + a)^p| <= X^p. With another a in it, p even: both powers are in 0 .. X^p. p odd: x^p grows with
    x, so they differ by (c + A)^p - c^p at most. With c >= 0 that is X^p - C^p at most; with -A <= c <= 0 it is
    (A - |c|)^p + |c|^p <= A^p; with c <= -A it is |c|^p - (|c| - A)^p <= C^p.
    """
    return by_owner(job, (NormBound(1, most**2, max_rows) for most in largest))
