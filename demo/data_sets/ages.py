"""The ages of the residents of three towns: persons of the Adult data set, dealt to three parties row by row.

Unlike the connections of `demo.data_sets.kdd`, each row is one party's alone: all parties have the same column, of
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
COLUMN = "age"
BOUNDS = (16.0, 96.0)
PARTIES = ("harbour", "hill", "river")

DESCRIPTION = "ages of the residents of three towns, from the Adult data set"

SPARE_ROWS = 1.1
"""A party declares at most so many times the rows that it has, so that nobody learns how many it has."""


@dataclass(frozen=True)
class AgeParties:
    """What `write_age_parties` made.

    Attributes:
        tables: party to its table.
        pooled: shape (rows, 1), the ages of all residents: what nobody in the federation has. For comparison only.
    """

    tables: Mapping[str, LocalTable]
    pooled: NDArray[np.float64] = field(repr=False)

    def in_memory(self, wanted: Mapping[str, Sequence[str]] | None = None) -> list[Table]:
        """Return tables as an analysis gets them.

        Args:
            wanted: the parties, in the order of a job's inputs; all have the one column.
        """
        tables = []
        for party in wanted or PARTIES:
            columns = (ColumnSchema(name=COLUMN, lower=BOUNDS[0], upper=BOUNDS[1]),)
            schema = BlockSchema(party=party, columns=columns, rows=self.tables[party].rows)
            tables.append(Table(schema, self.pooled[PARTIES.index(party) :: len(PARTIES)]))
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
        ages = pl.read_csv(path, columns=[COLUMN])[COLUMN].cast(pl.Float64).to_numpy()
    if rows is not None and not len(PARTIES) <= rows <= len(ages):
        raise ValueError(f"rows: {rows} is not between {len(PARTIES)} and {len(ages)}")
    kept = ages[:rows, None]
    tables = {}
    for place, party in enumerate(PARTIES):
        own = kept[place :: len(PARTIES)]
        path = folder / f"{party}.parquet"
        pl.DataFrame({COLUMN: own[:, 0]}).write_parquet(path)
        most = round(SPARE_ROWS * -(-len(kept) // len(PARTIES)))
        tables[party] = LocalTable(TABLE_NAME, path, {COLUMN: BOUNDS}, (1, most), unit=ROW_UNIT)
    return AgeParties(tables, kept)
