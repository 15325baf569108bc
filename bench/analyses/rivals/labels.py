"""Logistic regression beside what somebody who holds all tables could do: area under the curve (AUC), medians.

Tables, rivals and their settings are those of `bench.utility.logistic_rivals`; ours has its defaults.
"""

from collections.abc import Iterator

from bench.analyses.table import Row
from bench.utility import logistic_rivals
from bench.utility.logistic_rivals import OURS, RIVALS

EPSILONS = (0.5, 1.0, 4.0)
RUNS = 20
ANALYSIS = "beside rivals, logistic regression"
METRIC = "area under the curve on rows left out, more is better"


def areas(name: str, quick: bool) -> Iterator[Row]:
    """Yield the rows of a table."""
    for epsilon in EPSILONS[1:2] if quick else EPSILONS:
        found = logistic_rivals.compare(name, epsilon, 1 if quick else RUNS, with_library=True)
        best = max(found[rival] for rival in RIVALS)
        yield Row(
            analysis=ANALYSIS,
            dataset=f"{name} ({found['rows']:,} rows, {found['features']} features)",
            epsilon=epsilon,
            metric=METRIC,
            mpc=found[OURS[0]],
            central=best,
            non_private=found["no privacy"],
            others={way: found[way] for way in (*OURS[1:], *RIVALS)},
            note=f"MPC by moments, the default; {found[OURS[0]] - best:+.4f} to the best of the rivals; medians of "
            f"{RUNS}; add or remove one record, coordinator's view, delta 1e-5; diffprivlib: delta 0",
        )
