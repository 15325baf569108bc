"""What students say of their lecturers: the InstEval data set, dealt to three parties in either of two ways.

* `evaluations`: each hall of residence holds all ratings that its students gave. All halls have one list of lecturers.
* `lectures`: each department holds all ratings of its lecturers, by the same students at all departments.

A tenth of the ratings is in no table: by these the demo measures its errors. Bounds and declarations are public
constants that were not computed from the data.

Source: InstEval of the R package lme4: 73,421 ratings of 1,128 lecturers by 2,972 students of ETH Zurich.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analyses.job.ratings import RatingRows, RatingsSchema, digest_of_items
from analyses.job.schema import BlockSchema, Table
from demo.local_deployment import LocalRatings, LocalTable
from dp.cost.views import PERSON_AT_PARTY_UNIT, RATING_UNIT

BY_STUDENT, BY_LECTURER = "evaluations", "lectures"
"""Names of the tables: of the horizontal and of the vertical setting."""

HALLS = ("east", "north", "west")
DEPARTMENTS = ("chemistry", "mathematics", "physics")
STUDENT, LECTURER, RATING = "student", "lecturer", "stars"
BOUNDS = (1.0, 5.0)
N_STUDENTS, N_LECTURERS = 3000, 1128
DECLARED_STUDENTS = 1000
"""A hall declares at most so many students, and all departments together N_STUDENTS."""

PER_STUDENT, PER_STUDENT_AND_DEPARTMENT = 25, 9
HELD_OUT = 0.1

DESCRIPTIONS = {
    BY_STUDENT: "what the students of three halls say of their lecturers, from the InstEval data set",
    BY_LECTURER: "what students say of the lecturers of three departments, from the InstEval data set",
}


@dataclass(frozen=True)
class RatingParties:
    """What `write_rating_parties` made.

    Attributes:
        tables: party to its table.
        pooled: shape (ratings, 3): student, lecturer and rating of all tables, as numbers from 0, and what nobody in
            the federation has. For comparison only.
        held_out: ratings that are in no table, in the same form.
        is_vertical: whether parties hold lecturers, not students.
    """

    tables: Mapping[str, LocalTable]
    pooled: NDArray[np.int64] = field(repr=False)
    held_out: NDArray[np.int64] = field(repr=False)
    is_vertical: bool

    def in_memory(self, wanted: Mapping[str, Sequence[str]] | None = None) -> list[Table]:
        """Return tables as an analysis gets them.

        Args:
            wanted: the parties, in the order of a job's inputs; such a table has no columns that could be named.
        """
        return [self._table_of(party) for party in wanted or self.tables]

    def place_of(self, party: str) -> int:
        """Return the place of a party, which is the remainder of its students' or lecturers' numbers."""
        return list(self.tables).index(party)

    def of_party(self, rows: NDArray[np.int64], party: str) -> NDArray[np.int64]:
        """Return those of some ratings that are of a party's students, or of its lecturers; numbers stay as they are.

        Args:
            rows: such as `pooled`.
            party: whose.
        """
        is_own = rows[:, int(self.is_vertical)] % len(self.tables) == self.place_of(party)
        return np.asarray(rows[is_own], dtype=np.int64)

    def _table_of(self, party: str) -> Table:
        table = self.tables[party]
        declared = table.ratings
        assert declared is not None
        lower, upper = table.bounds[declared.rating]
        schema = RatingsSchema(
            items=declared.items,
            items_digest=digest_of_items(declared.items),
            users=declared.users,
            ratings_per_user=declared.ratings_per_user,
            lower=lower,
            upper=upper,
        )
        rows = self.of_party(self.pooled, party)
        names, users = np.unique(rows[:, 0].astype(str), return_inverse=True)
        items = rows[:, 1] // len(self.tables) if self.is_vertical else rows[:, 1]
        ratings = RatingRows(users.astype(np.int64), items, rows[:, 2].astype(np.float64), tuple(map(str, names)))
        return Table(
            BlockSchema(party=party, rows=table.rows, ratings=schema), np.empty((len(rows), 0)), ratings=ratings
        )


def write_student_parties(folder: Path, *, rows: int | None = None) -> RatingParties:
    """Write one table per hall, `<hall>.parquet`, with the ratings of a third of the students each.

    Args:
        folder: where to; must exist.
        rows: how many ratings in all, of the first students; all 73,421 where absent. A tenth is in no table.

    Raises:
        ValueError: fewer rows than 100, or more than there are.
    """
    return _write(folder, rows, HALLS, BY_STUDENT)


def write_lecturer_parties(folder: Path, *, rows: int | None = None) -> RatingParties:
    """Write one table per department, `<department>.parquet`, with the ratings of a third of the lecturers each.

    Arguments and errors as `write_student_parties`. A department's lecturers are called 0, 1, 2, ... at it.
    """
    return _write(folder, rows, DEPARTMENTS, BY_LECTURER)


def _write(folder: Path, rows: int | None, parties: Sequence[str], table: str) -> RatingParties:
    is_vertical, n = table == BY_LECTURER, len(parties)
    everything = _read(rows)
    is_held_out = np.random.default_rng(1).random(len(everything)) < HELD_OUT
    kept = everything[~is_held_out]
    tables = {}
    for place, party in enumerate(parties):
        own = kept[kept[:, int(is_vertical)] % n == place]
        path = folder / f"{party}.parquet"
        lecturers = own[:, 1] // n if is_vertical else own[:, 1]
        pl.DataFrame({STUDENT: own[:, 0], LECTURER: lecturers, RATING: own[:, 2]}).write_parquet(path)
        declared = LocalRatings(
            STUDENT,
            LECTURER,
            RATING,
            items=len(range(place, N_LECTURERS, n)) if is_vertical else N_LECTURERS,
            users=N_STUDENTS if is_vertical else DECLARED_STUDENTS,
            ratings_per_user=PER_STUDENT_AND_DEPARTMENT if is_vertical else PER_STUDENT,
        )
        unit = RATING_UNIT if is_vertical else PERSON_AT_PARTY_UNIT
        bounds, most = {RATING: BOUNDS}, (1, N_STUDENTS * PER_STUDENT)
        tables[party] = LocalTable(table, path, bounds, most, unit=unit, ratings=declared)
    return RatingParties(tables, kept, everything[is_held_out], is_vertical)


def _read(rows: int | None) -> NDArray[np.int64]:
    """Return students and lecturers as numbers from 0, and ratings: shape (rows, 3)."""
    with as_file(files("cli") / "data" / "insteval" / "insteval.csv.gz") as path:
        frame = pl.read_csv(path)
    if rows is not None and not 100 <= rows <= len(frame):
        raise ValueError(f"rows: {rows} is not between 100 and {len(frame)}")
    _, students = np.unique(frame["user"].to_numpy(), return_inverse=True)
    _, lecturers = np.unique(frame["item"].to_numpy(), return_inverse=True)
    found = np.column_stack([students, lecturers, frame["rating"].to_numpy()]).astype(np.int64)
    return found if rows is None else found[np.argsort(students, kind="stable")][:rows]
