"""What an analyst can ask about: the tables of all parties, and the plan of a job that is made from them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from analyses.job.job import Job, JobError
from analyses.job.listing import ListedBudget, ListedTable, Listing
from analyses.job.matching import recipe_in_words
from analyses.job.schema import BlockSchema
from results.generic.html import page_of
from transport.calls.coordinator_client import PartyTables

if TYPE_CHECKING:
    import polars

HEADINGS = ("party", "table", "column", "lower", "upper", "rows", "analyses")

MOST_NAMES_TOLD = 20
"""Names that an error lists where none is like the one that was given."""


@dataclass(frozen=True)
class Catalogue:
    """The tables that an analyst may use.

    Attributes:
        parties: name of a party to its tables, by name.
        problems: name of a party that has not answered to the reason.
    """

    parties: Mapping[str, Mapping[str, ListedTable]]
    problems: Mapping[str, str]

    @classmethod
    def of(cls, said: Mapping[str, PartyTables]) -> "Catalogue":
        """Return what the parties have said; what cannot be read is a problem of its party."""
        parties: dict[str, dict[str, ListedTable]] = {}
        problems: dict[str, str] = {}
        for party, tables in said.items():
            if tables.problem:
                problems[party] = tables.problem
                continue
            try:
                listing = Listing.from_json(tables.listing_json)
            except JobError:
                problems[party] = f"the tables that party {party} lists cannot be read"
            else:
                parties[party] = {table.name: table for table in listing.tables}
        return cls(parties, problems)

    def __iter__(self) -> Iterator[tuple[str, ListedTable]]:
        """Yield party and table."""
        return ((party, table) for party, tables in self.parties.items() for table in tables.values())

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        columns = {name: [row[at] for row in self.rows()] for at, name in enumerate(HEADINGS)}
        return page_of("Tables", columns, [f"{party}: {problem}" for party, problem in self.problems.items()])

    def rows(self) -> list[tuple[Any, ...]]:
        """Return a row per column of a table, under `HEADINGS`."""
        found = []
        for party, table in self:
            rows = "" if table.block.rows is None else f"{table.block.rows[0]} to {table.block.rows[1]}"
            analyses = ", ".join(table.admitted)
            ratings = table.block.ratings
            columns = [(one.name, one.lower, one.upper) for one in table.block.columns]
            if ratings is not None:
                columns = [("ratings", ratings.lower, ratings.upper)]
            found += [(party, table.name, *column, rows, analyses) for column in columns]
        return found

    def to_polars(self) -> "polars.DataFrame":
        """Return a row per column of a table."""
        import polars

        kinds = [polars.Float64 if name in ("lower", "upper") else polars.String for name in HEADINGS]
        return polars.DataFrame(self.rows(), schema=dict(zip(HEADINGS, kinds, strict=True)), orient="row")

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON data."""
        return {
            "parties": {
                party: [
                    table.model_dump(mode="json") | ({} if table.budget is None else {"more_jobs": _more(table.budget)})
                    for table in tables.values()
                ]
                for party, tables in self.parties.items()
            },
            "problems": dict(self.problems),
        }

    def lines(self) -> list[str]:
        """Return it as text: a block for each table."""
        lines: list[str] = []
        for party, table in self:
            lines += [f"{party}.{table.name}: {_about(table)}", *_columns(table), *_analyses(table), *_budget(table)]
        lines += [f"{party}: {problem}" for party, problem in self.problems.items()]
        return lines or ["no party lists a table that you may use"]

    def schemas_of(self, job: Job) -> list[BlockSchema]:
        """Return what each member of a job would bring, in the order of `job.members`.

        Raises:
            JobError: a party, table or column is not in the catalogue; names it.
        """
        brought = {one.party: one for one in job.inputs}
        schemas = []
        for party in job.members:
            if party not in brought:
                schemas.append(BlockSchema(party=party))
                continue
            if party in self.problems:
                raise JobError(f"inputs: {self.problems[party]}")
            one = brought[party]
            if party not in self.parties:
                raise JobError(f"inputs: there is no party {party!r} in the roster{_other(party, self.parties)}")
            table = self.parties[party].get(one.table)
            if table is None:
                what = f"party {party!r} lists no table {one.table!r} that you may use"
                raise JobError(f"inputs: {what}{_other(one.table, self.parties[party])}")
            if not (one.columns or table.usual) and table.block.ratings is None:
                which = f"columns of table {one.table!r} of party {party!r}"
                raise JobError(f"inputs: {which} are given on request only: the job must name those that it uses")
            try:
                schemas.append(table.schema_of(one))
            except KeyError as error:
                name = error.args[0]
                is_filter = name == one.where
                what = f"lists no {'filter' if is_filter else 'column'} {name!r}"
                told = _other(name, table.filters if is_filter else [each.name for each in table.block.columns])
                raise JobError(f"inputs: table {one.table!r} of party {party!r} {what}{told}") from None
        return schemas


def _other(name: str, listed: Iterable[str]) -> str:
    """Return which of the names that the caller may see was meant, or all where there are few."""
    known = sorted(listed)
    if close := get_close_matches(name, known, 1):
        return f"; did you mean {close[0]!r}?"
    return f"; it has {', '.join(map(repr, known))}" if 0 < len(known) <= MOST_NAMES_TOLD else ""


def _about(table: ListedTable) -> str:
    block, parts = table.block, []
    if block.rows is not None:
        parts.append(f"{block.rows[0]} to {block.rows[1]} rows")
    if block.has_ids:
        parts.append("rows have ids")
    if block.matching is not None:
        how = "each owner learns which" if block.matching.reveal else "in secret only"
        parts.append(f"rows can be matched by {recipe_in_words(block.matching.recipe)}, {how}")
    parts += [f"where = {name!r} if {text}" for name, text in table.filters.items()]
    if block.most_rows_per_person is not None:
        parts.append(f"at most {block.most_rows_per_person} rows of a person count")
    if block.ratings is not None:
        parts.append(f"ratings of {block.ratings.items} items by at most {block.ratings.users} users")
    return ", ".join(parts) or "nothing is said of its rows"


def _columns(table: ListedTable) -> list[str]:
    if table.block.ratings is not None:
        return [f"  ratings from {table.block.ratings.lower:g} to {table.block.ratings.upper:g}"]
    return [
        f"  {one.name}: {one.lower:g} to {one.upper:g}{'' if one.name in table.usual else ', if asked for by name'}"
        for one in table.block.columns
    ]


def _analyses(table: ListedTable) -> list[str]:
    lines = []
    for consent, words in (("at once", "at once, within limits on epsilon"), ("owner", "if its owner agrees")):
        names = [name for name, found in table.admitted.items() if found == consent]
        if names:
            lines.append(f"  {words}: {', '.join(names)}")
    return [*lines, "  exact answers are allowed"] if table.may_be_exact else lines


def _more(budget: ListedBudget) -> dict[str, int]:
    from dp.cost.more_jobs import more_usual_jobs

    return more_usual_jobs(budget.epsilon, budget.delta, budget.remaining_part)


def _budget(table: ListedTable) -> list[str]:
    from dp.cost.more_jobs import room_in_words

    budget = table.budget
    if budget is None:
        return []
    left, whole = budget.remaining_epsilon, budget.epsilon
    lines = [f"  budget: about {left:.4g} of epsilon {whole:g} remains, per {budget.unit}, period {budget.period!r}"]
    room = room_in_words(budget.epsilon, budget.delta, budget.remaining_part)
    return [*lines, f"  room for about {room}, until the period ends"] if room else lines
