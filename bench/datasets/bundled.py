"""The real data of the benchmarks and of some tests: bundled, with their terms in `bench/data/TERMS.md`."""

import os
from pathlib import Path

import polars as pl

FOLDER = Path(__file__).parents[1] / "data"
NAMES = tuple(sorted(path.name.removesuffix(".csv.gz") for path in FOLDER.glob("*.csv.gz")))

EXTRA_FOLDER_VARIABLE = "MOIETY_DATA"
"""Environment variable: a folder with further data sets that may not be passed on, such as `home_credit.csv.gz`."""


def read(name: str) -> pl.DataFrame:
    """Return a data set as it was published, empty fields as nulls.

    Raises:
        FileNotFoundError: there is none of this name.
    """
    extra = os.environ.get(EXTRA_FOLDER_VARIABLE)
    for folder in (FOLDER, *([Path(extra)] if extra else [])):
        path = folder / f"{name}.csv.gz"
        if path.exists():
            return pl.read_csv(path, infer_schema_length=None)
    raise FileNotFoundError(f"no data set {name!r}; bundled: {', '.join(NAMES)}; others: set {EXTRA_FOLDER_VARIABLE}")


def is_available(name: str) -> bool:
    """Whether `read` finds a data set that is not bundled."""
    extra = os.environ.get(EXTRA_FOLDER_VARIABLE)
    return name in NAMES or (extra is not None and (Path(extra) / f"{name}.csv.gz").exists())
