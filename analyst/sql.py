"""SQL as a way to ask: a SELECT over tables of several owners, and the job that it becomes. Needs sqlglot.

What is none of our questions is refused by its name: nothing of a statement is left out silently.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from analyses.job.job import Job
from analyses.job.listing import ListedTable
from analyses.job.schema import ColumnSchema, columns_called
from analyses.pattern_count.plan import CROSS_TABLE
from analyses.registry import analysis_of
from analyst.catalogue import Catalogue
from analyst.question import checked

_ADMITTED: Mapping[type[Any], frozenset[str]] = {
    exp.Select: frozenset({"expressions", "from", "from_", "joins", "group", "having"}),
    exp.Join: frozenset({"this", "using", "kind"}),
    exp.Group: frozenset({"expressions"}),
    exp.Table: frozenset({"this", "db", "alias"}),
    exp.Column: frozenset({"this", "table"}),
    exp.Alias: frozenset({"this", "alias"}),
    exp.Count: frozenset({"this", "big_int"}),
    exp.Avg: frozenset({"this"}),
    exp.Sum: frozenset({"this"}),
    exp.Corr: frozenset({"this", "expression"}),
    exp.Median: frozenset({"this"}),
    exp.Quantile: frozenset({"this", "quantile"}),
    exp.Having: frozenset({"this"}),
    exp.GT: frozenset({"this", "expression"}),
    exp.GTE: frozenset({"this", "expression"}),
    exp.Literal: frozenset({"this", "is_string"}),
}
"""Parts of a statement that mean something here, to the parts that they may have."""


MOST_MULTIPLIED = 3
"""Most columns of groups whose products a job names, for means of any number; by more, values are counted."""

_SHOWN = "a SELECT shows the columns of GROUP BY and count(*), avg, sum, corr, median or quantile, and no rows"


class SqlError(ValueError):
    """The statement is none of our questions; the text names what is not, and what would be."""

    code: str = "sql-not-asked"


@dataclass(frozen=True)
class Meant:
    """What a statement means.

    Attributes:
        job: the job that it becomes.
        question: question to what the job releases; empty where the result is the answer.
        given: arguments of the question.
        notes: what a reader should know.
    """

    job: Job
    question: str = ""
    given: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Return the job as a file, with the commands that ask it."""
        comments = [f"# {note}" for note in self.notes]
        asked = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in self.given.items())
        after = [f"# moiety answer JOB {self.question} {asked}"] if self.question else []
        return ["# moiety job submit THIS_FILE", *after, *comments, "", *toml_of(self.job)]


def job_of_sql(text: str, catalogue: Catalogue, *, epsilon: float, delta: float, matching: str | None = None) -> Meant:
    """Return what a SELECT means.

    Args:
        text: one statement, such as `SELECT region, avg(charges) FROM clinic JOIN bank USING (id) GROUP BY region`. A
            table is `party` where the party lists one table, or `party.table`.
        catalogue: tables of all parties.
        epsilon: epsilon of the job.
        delta: delta of the job.
        matching: how rows are matched, `revealed` or `secret`; None for tables in the same order.

    Raises:
        SqlError: it is none of our questions.
        JobError: the job that it would become is not valid.
    """
    select = _parsed(text)
    tables = _tables(select, catalogue)
    keys = list(dict.fromkeys(_column(one, tables) for one in (select.args.get("group") or exp.Group()).expressions))
    shown: list[tuple[str, str]] = []
    found: dict[str, list[tuple[tuple[str, str], ...]]] = {}
    for one in select.expressions:
        what = one.this if isinstance(one, exp.Alias) else one
        if isinstance(what, exp.Column):
            shown.append(_column(what, tables))
        elif isinstance(what, exp.Count):
            if not isinstance(what.this, exp.Star):
                raise SqlError("count(COLUMN) is not offered: count(*) counts the rows that all owners have")
            found.setdefault("count", [])
        elif isinstance(what, exp.Median | exp.Quantile):
            q = what.args.get("quantile")
            found.setdefault(f"quantile {0.5 if q is None else _number(q):g}", []).append((_column(what.this, tables),))
        elif isinstance(what, exp.Avg | exp.Sum | exp.Corr):
            args = [part for part in (what.this, what.args.get("expression")) if part is not None]
            found.setdefault(what.key, []).append(tuple(_column(part, tables) for part in args))
        else:
            raise SqlError(f"{what.sql()[:80]} is not offered: {_SHOWN}")
    if sorted(shown) != sorted(keys) or not found:
        raise SqlError(_SHOWN)
    limit = _limit(select)
    analysis, question, given, wanted = _meaning(keys, found, tables, limit)
    return _meant(analysis, question, given, wanted, tables, (epsilon, delta), matching)


def _parsed(text: str) -> exp.Select:
    try:
        statements = sqlglot.parse(text)
    except SqlglotError as error:
        raise SqlError(f"this is no SQL: {str(error).splitlines()[0]}") from None
    except RecursionError:
        raise SqlError("this is no SQL that is offered: it is nested too deeply") from None
    if len(statements) != 1 or not isinstance(statements[0], exp.Select):
        kind = (
            "several statements"
            if len(statements) != 1
            else (statements[0].key.upper() if statements[0] else "nothing")
        )
        raise SqlError(f"{kind}: one SELECT is asked at a time, and nothing else")
    for one in statements[0].walk():
        if isinstance(one, exp.Identifier | exp.Star | exp.From | exp.TableAlias):
            continue
        if isinstance(one, exp.Count) and isinstance(one.this, exp.Distinct):
            raise SqlError(
                "count(DISTINCT ...) is not offered: rows of an id are one already, and values are those that owners "
                "declare; GROUP BY the column, with count(*), tells how many rows each has"
            )
        if type(one) not in _ADMITTED:
            raise SqlError(f"{one.key.upper()} is not offered: {one.sql()[:80]}")
        for name, part in one.args.items():
            if part and name not in _ADMITTED[type(one)]:
                raise SqlError(f"{name.strip('_').upper()} is not offered in {one.key.upper()}: {one.sql()[:80]}")
        if isinstance(one, exp.Join) and (one.args.get("kind") not in (None, "", "INNER") or not one.args.get("using")):
            raise SqlError("rows of owners are joined by JOIN ... USING (id), by what their owners declare as id")
        if isinstance(one, exp.Select) and one is not statements[0]:
            raise SqlError("SELECT within SELECT is not offered")
    return statements[0]


def _tables(select: exp.Select, catalogue: Catalogue) -> dict[str, tuple[str, ListedTable]]:
    """Return the tables by the name that columns have before them: alias, or party, in the order of the statement."""
    found: dict[str, tuple[str, ListedTable]] = {}
    for one in select.find_all(exp.Table, bfs=False):
        party = one.db or one.name
        listed = catalogue.parties.get(party)
        if not listed:
            raise SqlError(f"no party {party!r} lists a table; there are {', '.join(catalogue.parties) or 'none'}")
        if not one.db and len(listed) > 1:
            raise SqlError(f"party {party} lists several tables: write {party}.{next(iter(listed))}, or another one")
        name = one.name if one.db else next(iter(listed))
        if name not in listed:
            raise SqlError(f"party {party} lists no table {name!r}; it has {', '.join(listed)}")
        if party in {brought for brought, _ in found.values()}:
            raise SqlError(f"party {party} brings one table to a job, and is named twice")
        found[one.alias or party] = (party, listed[name])
    for join in select.args.get("joins") or ():
        named = [part.name for part in join.args["using"]]
        if len(named) != 1 or any(_has(table, named[0]) for _, table in found.values()):
            raise SqlError(
                f"USING ({', '.join(named)}): rows are joined by the one id that each owner declares, and by no column"
            )
    if len(found) < 2:
        raise SqlError("tables of two owners at least are joined; sums over one owner's rows are jobs of secure-sum")
    return found


def _column(named: exp.Expression, tables: Mapping[str, tuple[str, ListedTable]]) -> tuple[str, str]:
    """Return party and column of a name."""
    if not isinstance(named, exp.Column):
        raise SqlError(f"{named.sql()[:80]} is no column: expressions are columns that an owner declares")
    if named.table and named.table not in tables:
        raise SqlError(f"there is no table {named.table!r} in this statement")
    places = [tables[named.table]] if named.table else list(tables.values())
    having = [party for party, table in places if _has(table, named.name)]
    if len(having) != 1:
        where = ", ".join(party for party, _ in places)
        what = "several tables have" if having else "no table lists"
        raise SqlError(f"{what} the column {named.name!r}: {', '.join(having) or where}")
    return having[0], named.name


def _number(literal: exp.Expression) -> float:
    """Return the number of a literal."""
    if not isinstance(literal, exp.Literal) or literal.is_string:
        raise SqlError(f"{literal.sql()[:80]} is no number")
    number = float(literal.this)
    if not math.isfinite(number):
        raise SqlError(f"{literal.sql()[:80]} is no number that a job can hold")
    return number


def _limit(select: exp.Select) -> float | None:
    """Return the least noisy count of rows that HAVING asks for; None where it asks for none. Rows are whole."""
    having = select.args.get("having")
    if having is None:
        return None
    limit = having.this
    is_of_rows = isinstance(limit, exp.GT | exp.GTE) and isinstance(limit.this, exp.Count)
    if not is_of_rows or not isinstance(limit.this.this, exp.Star):
        raise SqlError(f"{having.sql()[:80]} is not offered: HAVING count(*) >= NUMBER is, of noisy counts")
    number = _number(limit.expression)
    return math.floor(number) + 1.0 if isinstance(limit, exp.GT) else number


def _has(table: ListedTable, name: str) -> bool:
    try:
        return bool(columns_called(table.block.columns, [name]))
    except KeyError:
        return False


Asked = tuple[str, str, dict[str, str], list[tuple[str, str]]]
"""Analysis, question to its release, arguments of that, and the columns that the job needs."""


def _meaning(
    keys: Sequence[tuple[str, str]],
    found: Mapping[str, Sequence[tuple[tuple[str, str], ...]]],
    tables: Mapping[str, tuple[str, ListedTable]],
    limit: float | None,
) -> Asked:
    kinds = set(found) - {"count"}
    numbers = [column for columns in found.values() for pair in columns for column in pair]
    having = {} if limit is None else {"at_least": f"{limit:.15g}"}
    if any(kind.startswith("quantile") for kind in kinds):
        return _quantile(keys, kinds, numbers, limit)
    if not keys:
        if having:
            raise SqlError("HAVING is offered with GROUP BY")
        if kinds == {"corr"}:
            columns = ",".join(f"{party}.{name}" for party, name in dict.fromkeys(numbers))
            return "second-moments", "correlation", {"columns": columns}, numbers
        if kinds <= {"avg", "sum"}:
            return "joint-mean" if kinds else "joint-count", "", {}, numbers
        raise SqlError("corr stands alone in a SELECT, without avg or sum")
    names = [f"{party}.{name}" for party, name in keys]
    columns = ",".join(names)
    if not kinds:
        if len(keys) == 1 and not having:
            return "joint-sum", "", {}, list(keys)
        is_whole = not having and {party for party, _ in tables.values()} == {party for party, _ in keys}
        question, given = ("", {}) if is_whole else ("groups", {"columns": columns, **having})
        return "cross-table", question, given, list(keys)
    if beside := ", ".join(sorted(kinds - {"avg", "sum"})):
        raise SqlError(f"{beside} by groups is not offered: ask avg, sum and count(*)")
    value, *others = dict.fromkeys(numbers)
    if others:
        raise SqlError("avg and sum of one column by groups are one question: ask further ones of the same release")
    _check_apart(keys, value)
    given = {"value": ".".join(value), **having}
    if len(keys) == 1:
        return "second-moments", "group-means", {**given, "by": columns}, [keys[0], value]
    if products := _products(keys, tables):
        return "second-moments", "group-means", {**given, "by": "*".join(names)}, [*products, value]
    return "cross-table", "group-means", {**given, "columns": columns}, [*keys, value]


def _products(keys: Sequence[tuple[str, str]], tables: Mapping[str, tuple[str, ListedTable]]) -> list[tuple[str, str]]:
    """Return the products that tell all combinations of one owner's categories and yes or no; none of other columns.

    The indicator of a no is 1 less that of a yes, so products without a yes or no are needed too: twice as many for
    each of them, so more than `MOST_MULTIPLIED` columns are counted.
    """
    if len(keys) > MOST_MULTIPLIED or len({party for party, _ in keys}) > 1:
        return []
    categories, yes_or_no = [], []
    (columns,) = (table.block.columns for party, table in tables.values() if party == keys[0][0])
    for _, name in keys:
        called = columns_called(columns, [name])
        if len(called) > 1 and all(one.is_value for one in called):
            categories.append(name)
        elif [(one.lower, one.upper) for one in called] == [(0.0, 1.0)]:
            yes_or_no.append(name)
        else:
            return []
    subsets = chain.from_iterable(combinations(yes_or_no, n) for n in range(len(yes_or_no) + 1))
    return [(keys[0][0], "*".join([*categories, *some])) for some in subsets if categories or some]


def _quantile(
    keys: Sequence[tuple[str, str]],
    kinds: set[str],
    numbers: Sequence[tuple[str, str]],
    limit: float | None,
) -> Asked:
    """Return the table that a quantile is asked of: its column holds integers, or bins by their numbers."""
    if len(kinds) > 1 or len(numbers) > 1:
        raise SqlError("one median or quantile is one question, without avg, sum or corr")
    if limit is not None:
        raise SqlError("HAVING is not offered with a quantile, which says how many rows each group has")
    _check_apart(keys, numbers[0])
    (kind,) = kinds
    given = {"value": ".".join(numbers[0]), "q": kind.partition(" ")[2]}
    by = {"columns": ",".join(f"{party}.{name}" for party, name in keys)} if keys else {}
    return "cross-table", "quantiles", {**given, **by}, [*keys, *numbers]


def _check_apart(keys: Sequence[tuple[str, str]], value: tuple[str, str]) -> None:
    if value in keys:
        raise SqlError(f"{'.'.join(value)} makes the groups: what is asked of them is about another column")


def _meant(
    analysis: str,
    question: str,
    given: Mapping[str, str],
    wanted: Sequence[tuple[str, str]],
    tables: Mapping[str, tuple[str, ListedTable]],
    privacy: tuple[float, float],
    matching: str | None,
) -> Meant:
    notes, inputs = [], []
    for party, table in tables.values():
        columns = list(dict.fromkeys(name for owner, name in wanted if owner == party))
        if not columns:
            first = min(table.block.columns, key=lambda one: _size(one, table.block.columns, analysis == CROSS_TABLE))
            columns = [first.source]
            notes.append(f"{party} brings {first.source}, as a job needs a column of each table")
        inputs.append({"party": party, "table": table.name, "columns": columns})
    fields: dict[str, Any] = {"analysis": analysis, "inputs": inputs, "parameters": {}}
    fields["privacy"] = {"epsilon": privacy[0], "delta": privacy[1]}
    if matching is not None:
        fields["matching"] = {"kind": matching}
    return Meant(checked(fields), question, given, tuple(notes))


def _size(column: ColumnSchema, columns: Sequence[ColumnSchema], counts: bool) -> float:
    """Return how much a column makes of a job that needs some column: encoded columns, or what there is to count."""
    encoded = sum(other.source == column.source for other in columns)
    if counts and not (column.lower.is_integer() and column.upper.is_integer()):
        return math.inf
    return max(encoded, column.upper - column.lower + 1) if counts else encoded


def with_computing(meant: Meant, parties: Sequence[str]) -> Meant:
    """Return the same with further parties that compute, where owners alone are too few to hide anything."""
    owners, fewest = [one.party for one in meant.job.inputs], analysis_of(meant.job).fewest_parties
    helpers = [party for party in parties if party not in owners][: max(0, fewest - len(owners))]
    if not helpers:
        return meant
    job = checked({**json.loads(meant.job.canonical_json()), "compute": [*owners, *helpers]})
    note = f"{', '.join(helpers)} computes with the owners, and brings nothing"
    return Meant(job, meant.question, meant.given, (*meant.notes, note))


def toml_of(job: Job) -> list[str]:
    """Return a job as lines of a job file."""
    fields = job.model_dump(mode="json", exclude_defaults=True, by_alias=True)
    sections: list[tuple[str, Mapping[str, Any]]] = [("[[inputs]]", one) for one in fields.pop("inputs")]
    sections += [(f"[{name}]", fields.pop(name)) for name in list(fields) if isinstance(fields[name], dict)]
    lines = [f"{name} = {json.dumps(value)}" for name, value in fields.items() if value is not None]
    for heading, values in sections:
        lines += [
            "",
            heading,
            *(f"{name} = {json.dumps(value)}" for name, value in values.items() if value is not None),
        ]
    return lines
