"""The tables of `registry_jobs` on disk, so that services can hold them."""

import csv

from registry_jobs import BOUNDS, MOST_USERS, N_RATED, N_ROWS, OWNERS, PER_USER, ROWS, VARIANTS, ratings_of, values_of

from analyses.registry import analysis_of
from demo.local_deployment import LocalRatings, LocalTable

RATINGS = LocalRatings("user", "item", "rating", items=N_RATED, users=MOST_USERS, ratings_per_user=PER_USER)


def unit_of(variant):
    """Return the privacy unit of a job, in which its table's budget must be."""
    job = variant.job(compute=())
    schemas = {owner: table.schema for owner, table in variant.tables().items()}
    return analysis_of(job).plan(job, [schemas[name] for name in job.members]).privacy_unit


def write(path, header, rows):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def tables_of_jobs(folder, names):
    """Write the tables that some jobs of `VARIANTS` ask for; return party to its tables, for a deployment."""
    wanted = {VARIANTS[name].table: VARIANTS[name] for name in names}
    tables = {owner: [] for owner in OWNERS}
    for owner in OWNERS:
        rows = [[f"row-{i}", *values] for i, values in enumerate(values_of(owner).tolist())]
        people = write(folder / f"{owner}.csv", ["id", *BOUNDS], rows)
        rated = write(
            folder / f"{owner}-ratings.csv",
            ["user", "item", "rating"],
            zip(*(column.tolist() for column in ratings_of(owner)), strict=True),
        )
        for table, variant in wanted.items():
            unit = unit_of(variant)
            if variant.has_ratings:
                bounds = {"rating": BOUNDS["x0"]}
                tables[owner].append(LocalTable(table, rated, bounds, (1, 2 * N_ROWS), unit=unit, ratings=RATINGS))
            else:
                tables[owner].append(LocalTable(table, people, BOUNDS, ROWS, id_column="id", unit=unit))
    return tables
