"""The values whose distribution is estimated: those of [SW20] as far as they may be passed on, else their like."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from bench.datasets.bundled import read

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

BETA, TAXI, INCOME, WAGES, LOANS = "Beta(5, 2)", "taxi", "income", "hourly wages", "loans"

QUICK_RESPONSES = 2000
"""Values of a run that only shows that it runs."""

_N_BETA = 100_000
_SECONDS_OF_A_DAY = 86_400
_MOST_INCOME = 1 << 19
"""Incomes from here on are left out, as in [SW20]."""


@dataclass(frozen=True)
class Sample:
    """One data set.

    Attributes:
        name: short.
        what: in words, with the data set of [SW20] that it is or stands for.
        n_buckets: d, that of [SW20].
        draw: from the number of a run to its values, in [0, 1).
        is_spiky: whether many values are round numbers.
        n_runs: over which medians are taken.
    """

    name: str
    what: str
    n_buckets: int
    draw: Callable[[int], Floats]
    is_spiky: bool = False
    n_runs: int = 20

    def values(self, seed: int, quick: bool = False) -> Floats:
        """Return the values of a run: few where it only has to show that it runs."""
        return self.draw(seed)[: QUICK_RESPONSES if quick else None]


def inputs_of(values: Floats, n_buckets: int) -> Integers:
    """Return the bucket of each value."""
    return np.minimum((values * n_buckets).astype(np.int64), n_buckets - 1)


def share(inputs: Integers, n_buckets: int) -> Floats:
    """Return the distribution over the buckets."""
    found: Floats = np.bincount(inputs, minlength=n_buckets) / len(inputs)
    return found


def _beta(seed: int) -> Floats:
    return np.random.default_rng(seed).beta(5, 2, _N_BETA)


@cache
def _column(name: str, column: str, upper: float) -> Floats:
    """Return the values of a bundled column from 0 up to `upper`, in units of it, in an order drawn once."""
    values = read(name)[column].drop_nulls().to_numpy().astype(np.float64)
    kept = values[(values >= 0) & (values < upper)] / upper
    return np.random.default_rng(0).permutation(kept)


def _of_column(name: str, column: str, upper: float) -> Callable[[int], Floats]:
    return lambda _: _column(name, column, upper)


SAMPLES = {
    sample.name: sample
    for sample in (
        Sample(BETA, "100,000 fresh draws in each run, as in [SW20]", 256, _beta),
        Sample(
            TAXI,
            "pick-up times of 120,000 trips of 2018; [SW20] has the 2,189,968 of January",
            1024,
            _of_column("taxi_2018", "pickup_sec_of_day", _SECONDS_OF_A_DAY),
        ),
        Sample(
            INCOME,
            "247,098 wages of persons (CPS) below 2^19 dollars; [SW20] has 2,308,374 incomes (ACS)",
            1024,
            _of_column("person_wages", "wage", _MOST_INCOME),
            is_spiky=True,
            n_runs=10,
        ),
        Sample(
            WAGES,
            "61,395 hourly wages (CPS) below 80 dollars; in the place of 178,012 retirement plans, which are not free",
            1024,
            _of_column("cpssw8", "earnings", 80.0),
            n_runs=10,
        ),
        Sample(
            LOANS,
            "9,982 annual incomes of borrowers below 2^19 dollars; not in [SW20]",
            1024,
            _of_column("lending_club", "annual_income", _MOST_INCOME),
            is_spiky=True,
        ),
    )
}
OF_THE_SOURCE = (BETA, TAXI, INCOME, WAGES)
"""The samples that stand for those of [SW20]."""
