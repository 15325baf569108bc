"""Reads what a table holds: the columns, rows and ids that a job asks for.

Needs polars, and is imported where a table is read (`party.tables.table.load_table`).
"""

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from analyses.job.row_ids import Persons, digest_of_ids
from analyses.job.schema import BlockSchema, ColumnSchema, Table
from party.tables.config import TableConfig, TableOwner
from party.tables.filters import Mask
from party.tables.id_column import IdColumn, has_empty, is_text
from party.tables.identify import Identified, check_identified, fields_of, identify, one_row_each
from party.tables.kept_values import KeptValues
from party.tables.ratings import read_ratings
from party.tables.ratings_config import RatingsTableConfig
from party.tables.rows_of_source import OUT_OF_RANGE, read_rows, with_products, without_products
from party.tables.sources.source import SourceError
from party.tables.spelling.ids import as_written


def read_contents(table: TableConfig, schema: BlockSchema, where: str | None, owner: TableOwner) -> Table:
    """Load a table that has been described; see `party.tables.table.load_table`.

    Args:
        table: the owner's declaration.
        schema: which columns.
        where: the name of a filter of the table, or None.
        owner: whose folder and memory take the values.

    Raises:
        SourceError: whatever is wrong with the source, for the owner alone.
    """
    if isinstance(table, RatingsTableConfig):
        ratings = read_ratings(table)
        if not schema.admits(len(ratings.values)):
            raise SourceError(OUT_OF_RANGE)
        return Table(schema, np.empty((len(ratings.values), 0)), ratings=ratings)
    # Rows of one id become one before their values are multiplied: the product must be that of the row that counts.
    wanted = schema.columns if table.matching is None else without_products(table, schema.columns)
    kept = _place_for(wanted, owner)
    most = schema.rows[1] if schema.rows is not None and table.matching is None else None
    conditions = {} if where is None else table.filters[where]
    in_memory, ids = table.key_columns, None
    if table.id_column is not None and table.matching is None:  # ids that only say which order the rows have
        in_memory = (table.person_column,) if table.person_column is not None else ()
        ids = IdColumn(table.id_column, table.make_source())
    read = read_rows(table, wanted, in_memory, kept, most, conditions, ids)
    keys = {name: _as_text(table, one) if name in table.text_columns else one for name, one in read.keys.items()}
    of_rows, found = _of_what_passes(table, keys, read.passes)
    if ids is not None:
        ids.check()
    values = read.values
    if table.matching is not None and found is not None:
        values = one_row_each(table.matching, found, values, wanted)
        if wanted != schema.columns:
            values = with_products(table, values, wanted, schema.columns, _place_for(schema.columns, owner))
    left_out = 0 if found is None else kept.n_rows - len(found.rows)
    digest = b""
    if table.id_column is not None:
        digest = ids.digest() if ids is not None else digest_of_ids(of_rows[table.id_column])
    persons = None if table.person_column is None else Persons.of(of_rows[table.person_column])
    values.setflags(write=False)
    return Table(
        schema,
        values,
        digest,
        persons,
        ids=None if found is None else found.ids,
        gaps=read.gaps,
        others=read.others,
        filtered=len(read.passes) - kept.n_rows,
        left_out=left_out,
        merged=kept.n_rows - left_out - len(values),
    )


def _place_for(columns: Sequence[ColumnSchema], owner: TableOwner) -> KeptValues:
    return KeptValues(len(columns), owner.table_memory_mib << 20, owner.data_dir)


def _of_what_passes(
    table: TableConfig, keys: Mapping[str, pl.Series], passes: Mask
) -> tuple[Mapping[str, pl.Series], Identified | None]:
    """Check a table by all of its rows, and return the keys of those that pass, and which of those have which id.

    What rules a table out must not depend on what passes: a job with a filter would tell, by failing, whether two of
    the rows that pass have the same id.

    Args:
        table: the owner's declaration.
        keys: keys of all rows.
        passes: which of them pass the job's filter, shape (rows,).

    Raises:
        SourceError: the rows break a rule of the declaration, whether they pass or not.
    """
    fields: list[pl.Series] = []
    found, of_rows, n_rows = None, keys, len(passes)
    if table.matching is not None:
        fields = fields_of(table.matching, [keys[name] for name in table.matching.columns])
        found = identify(fields)
        check_identified(table.matching, found, n_rows)
        if not len(found.ids):
            raise SourceError("none of its rows has an id")
        of_rows, n_rows = _of_one_row_each(table, found, keys), len(found.ids)
    if table.rows is not None and not table.rows[0] <= n_rows <= table.rows[1]:
        raise SourceError(OUT_OF_RANGE)
    for name in of_rows:
        if name in table.text_columns:
            _check_key(table, of_rows[name])
    if passes.all():
        return of_rows, found
    passing = np.flatnonzero(passes)
    keys = {name: one.gather(passing) for name, one in keys.items()}
    if found is None:
        return keys, None
    found = identify([one.gather(passing) for one in fields])
    return _of_one_row_each(table, found, keys), found


def _of_one_row_each(table: TableConfig, found: Identified, keys: Mapping[str, pl.Series]) -> dict[str, pl.Series]:
    """Return ids and persons of the rows that stand for each id.

    Raises:
        SourceError: rows of one id name different persons, so that one row would be made of several persons'.
    """
    if table.person_column is not None:
        persons = keys[table.person_column].gather(found.rows)
        if persons.ne_missing(keys[table.person_column].gather(np.repeat(found.first, found.sizes))).any():
            raise SourceError(f"rows of the same id name different persons in column {table.person_column!r}")
    return {name: keys[name].gather(found.first) for name in table.text_columns}


def _as_text(table: TableConfig, column: pl.Series) -> pl.Series:
    if not is_text(column):
        role = _role(table, column.name)
        raise SourceError(f"{role} column {column.name!r} holds neither text nor whole numbers")
    return as_written(column.cast(pl.String))


def _role(table: TableConfig, name: str) -> str:
    return "id" if name == table.id_column else "person"


def _check_key(table: TableConfig, key: pl.Series) -> None:
    if has_empty(key):
        raise SourceError(f"{_role(table, key.name)} column {key.name!r} has an empty value")
    if key.name == table.id_column and key.n_unique() != len(key):
        raise SourceError(f"id column {key.name!r} names a row twice")
