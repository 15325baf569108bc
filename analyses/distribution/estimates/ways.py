"""From frequencies without bias, some of them negative, to a distribution: in the ways that a question may name."""

from collections.abc import Sequence

from analyses.distribution.estimates.frequencies import Floats, Level
from analyses.distribution.estimates.monotone import isotonic
from analyses.distribution.estimates.tree_estimate import non_negative
from analyses.distribution.methods import Way
from dp.mechanism.valid_counts import valid_counts


def made_distribution(
    way: Way | None, frequencies: Floats, levels: Sequence[Level] = (), branching: int = 0
) -> tuple[Floats, bool | None]:
    """Return a distribution near frequencies, and whether it was reached; None where no steps lead there.

    Args:
        way: `isotonic`; `norm-sub`, the nearest distribution; or, of a tree, `admm`.
        frequencies: shape (inputs,), of a tree those that least squares over it says.
        levels: frequencies of the nodes of each level, where there is a tree.
        branching: branching of the tree.

    Returns:
        shape (inputs,), not negative, with sum 1.
    """
    if way == "admm":
        return non_negative(list(levels), branching)
    return valid_counts(frequencies, 1.0) if way == "norm-sub" else isotonic(frequencies), None
