"""The form `statistics` in all settings, medians of five seeds, beside what a prototype of it reached."""

from collections.abc import Callable, Iterator
from functools import partial

from bench.analyses.table import Row
from bench.datasets import bundled
from bench.utility import factors

ANALYSIS = "matrix factorization, form statistics"
METRIC = "mean squared error of left-out ratings, less is better"
PROTOTYPE = "prototype"
NOTE = "coordinator's view, delta 1e-5; medians of five seeds"


def parts() -> dict[str, Callable[[bool], Iterator[Row]]]:
    """Return what is measured, part by part: every data set that lies here."""
    names = [name for name, (file, _, _) in factors.SETS.items() if bundled.is_available(file)]
    return {f"form statistics, {name}": partial(of_one_set, name) for name in names}


def of_one_set(name: str, quick: bool) -> Iterator[Row]:
    """Yield one row per method and epsilon."""
    epsilons = factors.QUICK_EPSILONS if quick else factors.EPSILONS
    found = list(factors.measure((name,), epsilons, 1 if quick else factors.SEEDS))
    quiet = {one["method"]: one["mse"] for one in found if one["epsilon"] is None}
    for one in found:
        if one["epsilon"] is None:
            continue
        others = {PROTOTYPE: one["specified"]} if "specified" in one else {}
        yield Row(
            ANALYSIS,
            f"{name}: {one['method']}",
            one["epsilon"],
            METRIC,
            mpc=one["mse"],
            non_private=quiet[one["method"]],
            others=others,
            note="one seed" if quick else NOTE,
        )
    for method, error in quiet.items():
        if method not in factors.METHODS:
            yield Row(ANALYSIS, f"{name}: {method}", None, METRIC, non_private=error)
