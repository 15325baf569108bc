"""Checks of a party's tables, for the owner's eyes only: what is wrong with them is told with lines and values.

Services must not say so much: to them a table is usable or not, and their logs name columns only. The verdict here is
theirs, from `party.tables.table.load_table`; where it is bad, the file is searched once more for all that is wrong.
"""

import contextlib
import difflib
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from analyses.job.job import JobInput
from cli.doctor.csv_faults import Faults, Kind, Wanted, Wording, find_faults, guess_form, lines_of_rows
from cli.doctor.id_spellings import check_id_spellings, check_text_columns
from cli.doctor.lost_values import check_lost_values, check_ratings
from mpc.public_text import made_public
from party.tables.encoding import encode
from party.tables.identify import fields_of, identify
from party.tables.kinds import DateKind
from party.tables.ratings_config import RatingsTableConfig
from party.tables.sources.csv_file import CsvFile, why_no_names
from party.tables.sources.file import TableFile
from party.tables.sources.source import SourceError, TableSource
from party.tables.spelling.ids import as_written
from party.tables.table import TableError, UnusableTableError, load_table
from service.reach.check import Check, failed, passed, warning

if TYPE_CHECKING:
    from analyses.job.schema import Table
    from party.config import PartyConfig
    from party.tables.config import TableConfig

MAX_SHOWN = 5
"""Number of lines of one kind of fault that are shown; the others are counted."""

MAX_VALUE_CHARACTERS = 40


def check_tables(config: "PartyConfig") -> list[Check]:
    """Check every table of a party: the file, its columns, its values, its rows."""
    return [check for table in config.tables for check in check_table(config, table)]


def check_table(config: "PartyConfig", table: "TableConfig") -> list[Check]:
    """Check one table, whatever its reader raises: libraries panic with errors that are no `Exception`."""
    try:
        return _checks(config, table)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        found = f"reading it failed: {type(error).__name__}"
        return [failed(f"values of {table.name}", found, f"Export the table that {table.name} names again.")]


def _checks(config: "PartyConfig", table: "TableConfig") -> list[Check]:
    """Check one table; later checks are left out where an earlier one leaves them without sense."""
    checks, names, file = _source(table)
    if any(check.outcome == "failed" for check in checks):
        return checks
    if names is not None:
        checks.append(_columns(table, names))
        if checks[-1].outcome == "failed":
            return checks
    try:
        columns = () if isinstance(table, RatingsTableConfig) else table.source_columns
        loaded = load_table(config, JobInput(party=config.name, table=table.name, columns=columns))
    except UnusableTableError as error:
        return [*checks, *_faults(table, file, error.detail)]
    except TableError as error:
        return [*checks, failed(f"values of {table.name}", str(error), f"Correct the section of {table.name}.")]
    if isinstance(table, RatingsTableConfig):
        return [*checks, *check_ratings(table, loaded), *check_lost_values(table)]
    checks += [_values(table, file, loaded), *check_lost_values(table), *check_text_columns(table)]
    return [*checks, _rows(table, loaded), *_ids(table, loaded), *check_id_spellings(table)]


def _source(table: "TableConfig") -> tuple[list[Check], list[str] | None, CsvFile | None]:
    """Check that the rows can be found; of a CSV file return the columns' names and the file, too."""
    name = f"file of {table.name}"
    try:
        source = table.make_source()
    except SourceError as error:
        return (
            [
                failed(
                    name,
                    f"{table.path}: {error}",
                    "Save it as .csv, .tsv, .parquet or .arrow, or describe [tables.source].",
                )
            ],
            None,
            None,
        )
    if not source.is_there():
        where = source.path if isinstance(source, TableFile) else "what [tables.source] names"
        if (reason := _reason(source)) is not None:
            return [failed(name, f"{where} cannot be read: {reason}", "Correct [tables.source].")], None, None
        fix = f"Put the table there, or correct the path of {table.name} in the configuration."
        return [failed(name, f"{where} does not exist or cannot be looked at", fix)], None, None
    if not isinstance(source, CsvFile):
        where = str(source.path) if isinstance(source, TableFile) else type(source).__name__
        return [passed(name, f"{where} is there")], None, None
    form = guess_form(source)
    found = f"{source.path}: {form.found}"
    if form.fix:
        return [failed(name, found, form.fix)], None, None
    return [passed(name, found)], form.names, source


def _reason(source: TableSource) -> str | None:
    """Return why a source that is no file cannot be read, in its own words; they name no password."""
    if isinstance(source, TableFile):
        return None
    try:
        source.count_rows()
    except SourceError as error:
        return str(error)
    return None


def _columns(table: "TableConfig", names: Sequence[str]) -> Check:
    name = f"columns of {table.name}"
    keys = table.key_columns
    if isinstance(table, RatingsTableConfig):
        keys = (table.user, table.item)
    wanted = (*keys, *table.source_columns)
    times = Counter(names)
    missing = [column for column in wanted if column not in times]
    repeated = [column for column in wanted if times[column] > 1]
    if missing:
        near = difflib.get_close_matches(missing[0].casefold(), [one.strip().casefold() for one in names], 1)
        meant = [one for one in names if near and one.strip().casefold() == near[0]]
        hint = f"; the file has {meant[0][:MAX_VALUE_CHARACTERS]!r}" if meant else ""  # spaces are to be seen
        if meant and meant[0] != meant[0].strip():
            hint += ", with a space at an end"
        hint += f"; {doubt}" if (doubt := why_no_names(names)) else ""
        absent = ", ".join(map(repr, missing))
        found = f"the configuration has {_what(table, missing[0])} {absent}, and the file has no such column{hint}"
        return failed(name, found, "Correct the name in the configuration or in the first line of the file.")
    if repeated:
        fix = "Give every column of the file a name of its own."
        return failed(name, f"the file has the column {repeated[0]!r} more than once", fix)
    unused = sorted(set(names).difference(wanted), key=list(names).index)
    found = f"all {len(wanted)} columns of the configuration are in the file"
    if unused:
        found += f"; without bounds, so no job can use them: {', '.join(map(_shown, unused[:MAX_SHOWN]))}"
    return passed(name, found)


def _what(table: "TableConfig", column: str) -> str:
    return "bounds or a kind for" if column in table.source_columns else "the id, person or matching column"


def _faults(table: "TableConfig", file: CsvFile | None, detail: str) -> list[Check]:
    """Say what is wrong with a table that no job can use."""
    if isinstance(table, RatingsTableConfig):
        wanted = Wanted(tuple(table.bounds), (table.user, table.item), None, True)
    else:
        merges = table.matching is not None and table.matching.duplicates != "refuse"
        wanted = Wanted(tuple(table.bounds), table.text_columns, None if merges else table.id_column, False)
    faults = find_faults(file, wanted) if file is not None else _faults_of_columns(table, wanted)
    if not isinstance(table, RatingsTableConfig):
        _add_faults_of_kinds(table, file, faults)
        _add_faults_of_ids(table, file, faults)
    checks = _checks_of(table, faults)
    if faults.broken:
        checks.append(failed(f"lines of {table.name}", faults.broken, f"Export {table.name} again."))
    if file is None and not checks and not faults.n_rows:
        fix = f"Correct what the section of {table.name} says, or what it names."
        return [failed(f"values of {table.name}", detail, fix)]
    if table.rows is not None and not table.rows[0] <= faults.n_rows <= table.rows[1]:
        checks.append(_rows_outside(table, faults.n_rows))
    if not checks:
        checks.append(failed(f"values of {table.name}", detail, f"Correct the table that {table.name} names."))
    return checks


def _faults_of_columns(table: "TableConfig", wanted: Wanted) -> Faults:
    """Find in a source that has no lines the rows that no job can use, as far as its columns can be read."""
    faults = Faults(unit="row")
    with contextlib.suppress(SourceError):
        for column in table.make_source().read(wanted.numbers, wanted.texts):
            faults.n_rows = len(column)
            is_text = column.name in wanted.texts
            missing = column.is_null() | (column.cast(pl.String) == "") if is_text else column.is_null()
            found = {Kind.NO_ID if is_text else Kind.EMPTY: missing}
            if column.dtype.is_float() and not is_text:
                found[Kind.NAN] = column.is_nan()
            if column.name == wanted.id_column:
                names = as_written(column.cast(pl.String))
                found[Kind.REPEATED] = names.is_not_null() & ~names.is_first_distinct()
            for kind, rows in found.items():
                for row in rows.arg_true():
                    faults.add(kind, int(row) + 1, column.name, "" if column[row] is None else str(column[row]))
    return faults


def _add_faults_of_kinds(table: "TableConfig", file: CsvFile | None, faults: Faults) -> None:
    """Find the values that the owner's own declaration of kinds refuses, by the encoding of the service."""
    with contextlib.suppress(SourceError):
        source = table.make_source()
        for column in source.read((), tuple(table.columns)):
            faults.n_rows = len(column)
            comma, mark = source.has_decimal_comma, source.thousands_mark
            encoding = encode(table.columns[column.name], column, decimal_comma=comma, thousands=mark)
            of_kinds = (
                (Kind.GAP, encoding.gaps),
                (Kind.MARKED, encoding.unclear),
                (Kind.OTHER, encoding.others & ~encoding.unclear),
            )
            for kind, mask in of_kinds:
                rows = [int(row) for row in np.flatnonzero(mask & encoding.refused)]
                for line, row in zip(lines_of_rows(file, rows), rows, strict=True):
                    value = "" if column[row] is None else str(column[row])
                    faults.add(kind, int(line.rpartition(" ")[2]), column.name, value)


def _add_faults_of_ids(table: "TableConfig", file: CsvFile | None, faults: Faults) -> None:
    """Find the rows that lack an id or repeat one, where the owner's declaration refuses them."""
    matching = table.matching
    if matching is None:
        return
    with contextlib.suppress(SourceError):
        columns = list(table.make_source().read((), matching.columns))
        found = identify(fields_of(matching, columns))
        faults.n_rows = len(columns[0])
        refused: list[tuple[Kind, list[int]]] = []
        if matching.missing == "refuse":
            refused.append((Kind.UNIDENTIFIED, sorted({*range(len(columns[0]))} - {*found.rows.tolist()})))
        if matching.duplicates == "refuse":
            refused.append((Kind.SAME_ID, sorted({*found.rows.tolist()} - {*found.first.tolist()})))
        for kind, rows in refused:
            for line, row in zip(lines_of_rows(file, rows), rows, strict=True):
                value = ", ".join("" if one[row] is None else str(one[row]) for one in columns)
                faults.add(kind, int(line.rpartition(" ")[2]), ", ".join(matching.columns), value)


def _checks_of(table: "TableConfig", faults: Faults) -> list[Check]:
    checks = []
    for kind, places in faults.by_kind.items():
        what: Wording = kind.value
        told = [
            f"{faults.unit} {one.line}" + (f", {one.column}: {_shown(one.value)}" if one.column else f" {one.value}")
            for one in places
        ]
        more = f"; and {len(places) - MAX_SHOWN} more" if len(places) > MAX_SHOWN else ""
        found = f"{what.found}: {'; '.join(told[:MAX_SHOWN])}{more}"
        checks.append(failed(f"{what.name} of {table.name}", found, what.fix))
    return checks


def _values(table: "TableConfig", file: CsvFile | None, loaded: "Table") -> Check:
    """Tell which values are outside their bounds: they are clipped, which is allowed and seldom meant."""
    name = f"values of {table.name}"
    lower = np.array([column.lower for column in loaded.schema.columns])
    upper = np.array([column.upper for column in loaded.schema.columns])
    rows, places = np.nonzero((loaded.values < lower) | (loaded.values > upper))
    if not len(rows):
        return passed(name, "all values of the columns are as declared: of their kinds and within their bounds")
    lines = lines_of_rows(file, [int(row) for row in rows[:MAX_SHOWN]])
    told = [
        f"{line}, {loaded.schema.columns[place].name}: {_told(table, loaded, int(row), int(place))}"
        for line, row, place in zip(lines, rows, places, strict=False)
    ]
    more = f"; and {len(rows) - MAX_SHOWN} more" if len(rows) > MAX_SHOWN else ""
    found = f"{len(rows)} values are outside their bounds and are clipped: {'; '.join(told)}{more}"
    return warning(name, found, "Correct the values, or the bounds where the meaning of the column allows for more.")


def _told(table: "TableConfig", loaded: "Table", row: int, place: int) -> str:
    """Return a value as its owner knows it: a date as a date."""
    value, column = float(loaded.values[row, place]), loaded.schema.columns[place]
    kind = table.columns.get(column.source)
    if isinstance(kind, DateKind):
        with contextlib.suppress(OverflowError):
            return f"{kind.origin + timedelta(days=value)}"
    return f"{value:g}"


def _rows(table: "TableConfig", loaded: "Table") -> Check:
    n_rows = len(loaded.values)
    if table.rows is None:
        return warning(
            f"rows of {table.name}",
            f"{n_rows} rows, and the configuration declares none: the table serves sums, means and histograms only",
            f"Declare the least and the most rows that {table.name} may have: rows = [LEAST, MOST].",
        )
    return passed(f"rows of {table.name}", f"{n_rows} rows, within the declared {table.rows[0]} to {table.rows[1]}")


def _ids(table: "TableConfig", loaded: "Table") -> list[Check]:
    """Tell what became of rows without an id and of several of one, and ask what only the owner can know."""
    matching = table.matching
    if matching is None:
        return []
    found = f"{loaded.n_rows} ids in {', '.join(map(_shown, matching.columns))}"
    if loaded.left_out:
        found += f"; {loaded.left_out} rows without one are left out"
    if loaded.merged:
        found += f"; {loaded.merged} rows became one with an earlier row of the same id"
    if not matching.reveal:
        return [passed(f"ids of {table.name}", f"{found}; they are matched in secret only")]
    return [
        warning(
            f"ids of {table.name}",
            f"{found}; where a job asks for it, the other owners learn which of their rows all owners have, you among "
            "them, and no epsilon covers that (reveal)",
            "Could it harm somebody that your table has a row about them? Then declare reveal = false, which leaves "
            "secret matching.",
        )
    ]


def _rows_outside(table: "TableConfig", n_rows: int) -> Check:
    assert table.rows is not None, "rows are outside of a declaration"
    found = f"{n_rows} rows, and {table.rows[0]} to {table.rows[1]} are declared: no job gets the table"
    return failed(f"rows of {table.name}", found, f"Correct the table, or `rows` in the section of {table.name}.")


def _shown(value: str) -> str:
    """Return a value of a table as text that cannot change what a terminal shows."""
    return repr(made_public(value, MAX_VALUE_CHARACTERS))
