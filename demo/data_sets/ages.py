"""The ages of the residents of three towns and their hours of work: persons of the Adult data set, dealt row by row.

Unlike the connections of `demo.data_sets.kdd`, each row is one party's alone: all parties have the same columns, of
different persons. The bounds are public constants that were not computed from the data.

Source: B. Becker and R. Kohavi, Adult, UCI Machine Learning Repository, <https://doi.org/10.24432/C5XW20>, CC BY 4.0:
32,561 persons of the 1994 census of the United States.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analyses.job.schema import BlockSchema, ColumnSchema, Table
from demo.local_deployment import LocalTable
from dp.cost.views import ROW_UNIT

TABLE_NAME = "residents"
BOUNDS = {"age": (16.0, 96.0), "hours": (0.0, 100.0)}
"""Column to its bounds: years, and hours of work in a week."""

_IN_THE_FILE = {"age": "age", "hours": "hours_per_week"}

PARTIES = ("harbour", "hill", "river")

DESCRIPTION = "ages and hours of work of the residents of three towns, from the Adult data set"

SPARE_ROWS = 1.1
"""A party declares at most so many times the rows that it has, so that nobody learns how many it has."""


@dataclass(frozen=True)
class AgeParties:
    """What `write_age_parties` made.

    Attributes:
        tables: party to its table.
        pooled: shape (rows, 2), the columns of all residents: what nobody in the federation has. For comparison only.
    """

    tables: Mapping[str, LocalTable]
    pooled: NDArray[np.float64] = field(repr=False)

    def in_memory(self, wanted: Mapping[str, Sequence[str]] | None = None) -> list[Table]:
        """Return tables as an analysis gets them.

        Args:
            wanted: party to its columns, in the order of a job's inputs.
        """
        tables = []
        for party, names in (wanted or dict.fromkeys(PARTIES, tuple(BOUNDS))).items():
            columns = tuple(ColumnSchema(name=name, lower=BOUNDS[name][0], upper=BOUNDS[name][1]) for name in names)
            schema = BlockSchema(party=party, columns=columns, rows=self.tables[party].rows)
            own = self.pooled[PARTIES.index(party) :: len(PARTIES)]
            tables.append(Table(schema, own[:, [list(BOUNDS).index(name) for name in names]]))
        return tables


def write_age_parties(folder: Path, *, rows: int | None = None) -> AgeParties:
    """Write one table per party, `<party>.parquet`, with a third of the residents each.

    Args:
        folder: where to; must exist.
        rows: how many in all, the first of the file; all 32,561 where absent.

    Raises:
        ValueError: fewer rows than three or more than there are.
    """
    with as_file(files("cli") / "data" / "adult" / "adult_train.csv.gz") as path:
        read = pl.read_csv(path, columns=list(_IN_THE_FILE.values()))
    residents = read.select(pl.col(there).cast(pl.Float64).alias(name) for name, there in _IN_THE_FILE.items())
    if rows is not None and not len(PARTIES) <= rows <= len(residents):
        raise ValueError(f"rows: {rows} is not between {len(PARTIES)} and {len(residents)}")
    kept = residents.head(len(residents) if rows is None else rows)
    tables = {}
    for place, party in enumerate(PARTIES):
        path = folder / f"{party}.parquet"
        kept.gather_every(len(PARTIES), place).write_parquet(path)
        most = round(SPARE_ROWS * -(-len(kept) // len(PARTIES)))
        tables[party] = LocalTable(TABLE_NAME, path, BOUNDS, (1, most), unit=ROW_UNIT)
    return AgeParties(tables, kept.to_numpy())
