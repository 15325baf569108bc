"""Whole jobs with the defaults of both settings: what parties keep after stage 3, beside what each would keep alone."""

import statistics
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

from bench.analyses.matrix_factorization import tables
from bench.analyses.table import Row, Spent
from bench.datasets import bundled
from bench.utility import factor_jobs, factors

ANALYSIS = "matrix factorization, whole jobs by default"
ALONE = "alone"
MARGIN = 0.002
"""So much more than alone may a party that joins err: the choice between the two rests on left-out ratings."""

OWNERS = (2, 3, 10)
EPSILONS = (8.0, 2.0, 0.5)
SPLITS = 3


def parts() -> dict[str, Callable[[bool], Iterator[Row]]]:
    """Return what is measured, part by part: every data set that lies here."""
    names = [name for name, (file, _, _) in factors.SETS.items() if bundled.is_available(file)]
    return {f"whole jobs, {name}": partial(of_one_set, name) for name in names}


def of_one_set(name: str, quick: bool) -> Iterator[Row]:
    """Yield one row for each setting, number of owners and epsilon."""
    splits = range(1 if quick else SPLITS)
    for setting, n in product(("horizontal", "vertical"), OWNERS[: 1 if quick else None]):
        for epsilon in EPSILONS[: 1 if quick else None]:
            found = [factor_jobs.run(name, {"setting": setting}, epsilon, split, n) for split in splits]
            mse, alone = (statistics.median(one[key] for one in found) for key in ("mse", ALONE))
            yield Row(
                ANALYSIS,
                f"{name}: {setting}, s = {n}",
                epsilon,
                tables.METRIC,
                mpc=mse,
                mpc_spent=Spent(statistics.median(one["seconds"] for one in found), round(found[0]["bytes"])),
                others={ALONE: alone},
                note=f"after stage 3; coordinator's view, delta 1e-5; medians of {len(splits)} splits",
            )
