"""Tables for clustering, split among parties: a mixture of Gaussians, taxi trips, letters, loans.

Bounds are constants from what the columns mean; none was computed from the data. Values beyond are clipped.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analyses.job.schema import BlockSchema, ColumnSchema, Table
from bench.datasets.bundled import read

Bounds = tuple[float, float]

MIXTURE_SEED = 20230107
MIN_ROWS = 1000
"""What owners declare publicly; the most is, for comparison with the paper, what there is."""
_WEEK = (0, 604_800)  # seconds
_CITY = {"longitude": (-74.3, -73.7), "latitude": (40.5, 40.95)}  # the box around the five boroughs

# Trips beyond 30 miles leave the city; a cab has six seats.
_TAXI: Mapping[str, Bounds] = {
    "pickup_sec_of_week": _WEEK,
    "dropoff_sec_of_week": _WEEK,
    "pickup_longitude": _CITY["longitude"],
    "dropoff_longitude": _CITY["longitude"],
    "pickup_latitude": _CITY["latitude"],
    "dropoff_latitude": _CITY["latitude"],
    "trip_distance": (0, 30),
    "passenger_count": (0, 6),
}

# The lender grants up to 40,000 dollars for three or five years at 5 to 31 %. Other numbers have no limit: round ones.
_LOANS: Mapping[str, Bounds] = {
    "annual_income": (0, 250_000),
    "loan_amount": (1000, 40_000),
    "debt_to_income": (0, 60),
    "term": (36, 60),
    "total_credit_limit": (0, 1_000_000),
    "interest_rate": (5, 31),
    "total_credit_utilized": (0, 250_000),
    "installment": (0, 1700),
    "earliest_credit_line": (1960, 2018),
    "inquiries_last_12m": (0, 12),
    "total_credit_lines": (0, 80),
    "accounts_opened_24m": (0, 24),
    "open_credit_lines": (0, 50),
    "num_mort_accounts": (0, 10),
    "num_total_cc_accounts": (0, 60),
    "delinq_2y": (0, 8),
}

_SHARE = (0, 1)  # the apartment columns are published scaled to it
_CIRCLE = (0, 20)
_HOME_CREDIT: Mapping[str, Bounds] = {
    "AMT_CREDIT": (0, 2_000_000),
    "AMT_GOODS_PRICE": (0, 2_000_000),
    "AMT_ANNUITY": (0, 100_000),
    "CNT_CHILDREN": (0, 8),
    "CNT_FAM_MEMBERS": (1, 10),
    "DEF_30_CNT_SOCIAL_CIRCLE": _CIRCLE,
    "DEF_60_CNT_SOCIAL_CIRCLE": _CIRCLE,
    "OBS_30_CNT_SOCIAL_CIRCLE": _CIRCLE,
    "OBS_60_CNT_SOCIAL_CIRCLE": _CIRCLE,
    "ENTRANCES_AVG": _SHARE,
    "APARTMENTS_AVG": _SHARE,
    "FLOORSMAX_AVG": _SHARE,
    "LIVINGAREA_AVG": _SHARE,
    "LIVINGAPARTMENTS_AVG": _SHARE,
    "ELEVATORS_AVG": _SHARE,
    "COMMONAREA_AVG": _SHARE,
}


@dataclass(frozen=True)
class ClusterTable:
    """A joint table.

    Attributes:
        name: of the data set.
        bounds: column to public bounds; neighbours in this order are alike.
        rows: shape (rows, columns).
        labels: the true cluster of each row, where known.
    """

    name: str
    bounds: Mapping[str, Bounds]
    rows: NDArray[np.float64] = field(repr=False)
    labels: NDArray[np.int64] | None = field(default=None, repr=False)

    def first(self, n_rows: int) -> "ClusterTable":
        """Return the same table with its first rows only."""
        labels = None if self.labels is None else self.labels[:n_rows]
        return ClusterTable(self.name, self.bounds, self.rows[:n_rows], labels)

    def split(self, n_owners: int, sizes: Sequence[int] = ()) -> list[Table]:
        """Return the tables of so many owners, who get the columns in turn: what is alike goes to different ones.

        Args:
            n_owners: S.
            sizes: columns of each owner; who has its own is left out of the turns. As equal as can be by default.
        """
        names, tables = list(self.bounds), []
        turns = [o for turn in range(len(names)) for o in range(n_owners) if not sizes or turn < sizes[o]]
        for owner in range(n_owners):
            mine = [place for place, turn in enumerate(turns[: len(names)]) if turn == owner]
            columns = tuple(
                ColumnSchema(name=names[c], lower=self.bounds[names[c]][0], upper=self.bounds[names[c]][1])
                for c in mine
            )
            rows = (min(MIN_ROWS, len(self.rows)), len(self.rows))
            schema = BlockSchema(party=f"owner-{owner + 1}", columns=columns, rows=rows)
            tables.append(Table(schema, self.rows[:, mine]))
        return tables


def mixed_gaussian(n_rows: int = 20_000, n_columns: int = 8, k: int = 5, deviation: float = 0.1) -> ClusterTable:
    """Return a mixture like that of [VertClust23]: middles uniform in [-1, 1]^8, the same deviation everywhere."""
    rng = np.random.default_rng(MIXTURE_SEED)
    labels = rng.integers(0, k, n_rows)
    rows = rng.uniform(-1, 1, (k, n_columns))[labels] + rng.normal(0, deviation, (n_rows, n_columns))
    bounds = {f"x{c}": (-1.0, 1.0) for c in range(n_columns)}
    return ClusterTable("mixed Gaussian", bounds, np.clip(rows, -1, 1), labels)


def taxi() -> ClusterTable:
    """Return taxi trips in New York of 2018 that last between a second and two hours, 117,375 x 8."""
    trips = read("taxi_2018").drop_nulls(list(_TAXI)).filter(pl.col("trip_duration_sec").is_between(1, 7200))
    return _numeric("taxi", trips, _TAXI)


def letter() -> ClusterTable:
    """Return pictures of letters by 16 measures, integers 0..15 as published, 20,000 rows."""
    letters = read("letter")
    return _numeric("letter", letters, {name: (0.0, 15.0) for name in letters.columns if name != "letter"})


def lending_club() -> ClusterTable:
    """Return loans by 16 numbers about applicant and loan, 10,000 rows; what is missing counts as 0."""
    return _numeric("lending club", read("lending_club").with_columns(pl.col("debt_to_income").fill_null(0)), _LOANS)


def home_credit() -> ClusterTable:
    """Return the loans of the paper, as far as there are any; gaps of the apartment columns count as 0.

    Raises:
        FileNotFoundError: the data may not be passed on, so they are there only where MOIETY_DATA names them.
    """
    return _numeric(
        "home credit", read("home_credit").with_columns(pl.col(list(_HOME_CREDIT)).fill_null(0)), _HOME_CREDIT
    )


BUNDLED: Mapping[str, Callable[[], ClusterTable]] = {
    "mixed Gaussian": mixed_gaussian,
    "taxi": taxi,
    "letter": letter,
    "lending club": lending_club,
}


def _numeric(name: str, data: pl.DataFrame, bounds: Mapping[str, Bounds]) -> ClusterTable:
    return ClusterTable(name, bounds, data.select(*bounds).cast(pl.Float64).to_numpy())
