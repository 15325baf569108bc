"""A synthetic table as an analyst's program has it: its rows, and how far they are from what was measured."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analyses.kept_moments.answer import AnswerError
from analyses.kept_moments.synthetic.question import SyntheticAnswer
from analyses.kept_moments.synthetic.rows import DrawnColumn
from results.generic.answer import ReleaseAnswer

if TYPE_CHECKING:
    import polars

SUFFIXES = (".csv", ".parquet")


class SyntheticTable(ReleaseAnswer):
    """Rows like those of a release. Its table says how far each marginal is from what was measured.

    Attributes:
        found: what was computed.
    """

    found: SyntheticAnswer

    def __init__(self, found: SyntheticAnswer, title: str, cost: Sequence[str]) -> None:
        super().__init__(found, title, cost)

    @cached_property
    def rows(self) -> "polars.DataFrame":
        """The rows: a column for each of the owners', `party.column`.

        Categories are texts, a yes or no is 1 or 0, numbers and values of bins are floats; a gap, and a value that was
        not released, is null.
        """
        import polars

        return polars.DataFrame({column.source.name: _series(column) for column in self.found.drawn})

    def write(self, path: str | Path) -> None:
        """Write the rows to a file, CSV or Parquet as its name ends.

        Raises:
            AnswerError: the name ends otherwise.
            OSError: the file cannot be written.
        """
        check_suffix(path)
        if Path(path).suffix == ".csv":
            self.rows.write_csv(Path(path))
        else:
            self.rows.write_parquet(Path(path))


def check_suffix(path: str | Path) -> None:
    """Refuse a name of a file that tells no format.

    Raises:
        AnswerError: it ends neither in `.csv` nor in `.parquet`.
    """
    if Path(path).suffix not in SUFFIXES:
        raise AnswerError(f"{str(path)!r} must end in {' or '.join(SUFFIXES)}, which tells the format of the rows")


def _series(column: DrawnColumn) -> Any:
    import polars

    gaps = polars.Series(column.is_gap)
    if column.source.kind == "yes/no":
        return polars.Series(1 - column.states)
    if column.source.kind != "category":
        return polars.Series(column.values).set(gaps, None)
    labels = polars.Series([*column.source.labels, None], dtype=polars.String)
    return labels.gather(polars.Series(column.states))
