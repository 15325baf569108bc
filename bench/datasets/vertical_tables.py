"""Real tables, split by columns among three parties, with public bounds that come from the columns' meaning."""

from collections.abc import Mapping

import polars as pl

from analyses.job.schema import BlockSchema, ColumnSchema, Table
from bench.datasets.bundled import read

Bounds = tuple[float, float]

HOUSING: Mapping[str, Mapping[str, Bounds]] = {
    "registry": {
        "longitude": (-125, -114),  # California lies between 124.5 and 114.1 degrees west
        "latitude": (32, 43),  # and between 32.5 and 42 degrees north
        "housing_median_age": (0, 52),  # the census of 1990 counted houses of 52 years and more as 52
        # A block group has 600 to 3000 people, some have more: 5000, with two rooms and 0.4 bedrooms each.
        "total_rooms": (0, 10000),
        "total_bedrooms": (0, 2000),
    },
    "census": {
        "population": (0, 5000),
        "households": (0, 2000),
        "median_income": (0, 15),  # tens of thousands of dollars, published up to 15
    },
    "assessor": {"median_house_value": (0, 500001)},  # published up to 500,001 dollars
}
HOUSING_LABEL = "assessor.median_house_value"
HOUSING_ROWS = (1000, 30_000)
"""What owners declare publicly of their number of rows."""

EARNINGS: Mapping[str, Mapping[str, Bounds]] = {
    "employer": {"earnings": (0, 75)},  # dollars per hour; more is rare for wages, and counts as 75
    "registry": {"female": (0, 1), "age": (18, 66), "midwest": (0, 1), "south": (0, 1), "west": (0, 1)},
    "school": {"education": (6, 20)},  # years, as the survey codes them
}
EARNINGS_LABEL = "employer.earnings"
EARNINGS_ROWS = (1000, 100_000)


def housing() -> list[Table]:
    """Return the block groups of California without the 207 whose bedrooms are unknown: 20,433 rows, 9 columns."""
    return _split(read("california_housing").drop_nulls(), HOUSING, HOUSING_ROWS)


def earnings() -> list[Table]:
    """Return the hourly earnings of the Current Population Survey: 61,395 rows, 7 columns (no Northeast)."""
    survey = read("cpssw8")
    regions = [(pl.col("region") == name).alias(name.lower()) for name in ("Midwest", "South", "West")]
    return _split(
        survey.with_columns((pl.col("gender") == "female").alias("female"), *regions), EARNINGS, EARNINGS_ROWS
    )


def _split(frame: pl.DataFrame, parties: Mapping[str, Mapping[str, Bounds]], rows: tuple[int, int]) -> list[Table]:
    tables = []
    for party, bounds in parties.items():
        columns = tuple(ColumnSchema(name=name, lower=low, upper=high) for name, (low, high) in bounds.items())
        values = frame.select(list(bounds)).cast(pl.Float64).to_numpy()
        tables.append(Table(BlockSchema(party=party, columns=columns, rows=rows), values))
    return tables
