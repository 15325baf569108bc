"""The same where somebody holds all tables: no privacy, no rounding."""

from collections.abc import Sequence

from analyses.job.schema import Table
from analyses.kept_moments.plan import KeptMomentsPlan
from analyses.second_moments.released import Floats, exact_moments


def reference(tables: Sequence[Table], plan: KeptMomentsPlan) -> Floats:
    """Return `exact_moments` of the joint table; arguments as there."""
    return exact_moments(tables, plan)
