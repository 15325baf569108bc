"""The demo's ratings: who holds which, what is declared, and what is held out."""

import numpy as np
import polars as pl
import pytest

from demo.data_sets.ratings import (
    BOUNDS,
    DECLARED_STUDENTS,
    N_LECTURERS,
    N_STUDENTS,
    write_lecturer_parties,
    write_student_parties,
)

WRITERS = {"horizontal": write_student_parties, "vertical": write_lecturer_parties}


@pytest.fixture(scope="module", params=WRITERS)
def parties(request, tmp_path_factory):
    return WRITERS[request.param](tmp_path_factory.mktemp(request.param))


def test_every_rating_is_held_by_one_party_or_held_out(parties):
    together = np.concatenate([parties.of_party(parties.pooled, party) for party in parties.tables])
    assert len(together) == len(parties.pooled)
    everything = np.concatenate([together, parties.held_out])
    assert len(everything) == len(np.unique(everything[:, :2], axis=0)) == 73_421
    assert 0.09 < len(parties.held_out) / len(everything) < 0.11
    assert set(everything[:, 2]) == set(range(int(BOUNDS[0]), int(BOUNDS[1]) + 1))


def test_a_party_has_no_more_users_and_items_than_it_declares(parties):
    for party, table in parties.tables.items():
        written = pl.read_parquet(table.path)
        declared = table.ratings
        assert written[declared.item].max() < declared.items
        if parties.is_vertical:
            assert written[declared.user].max() < declared.users == N_STUDENTS
        else:
            assert written[declared.user].n_unique() <= declared.users == DECLARED_STUDENTS
        assert len(written) == len(parties.of_party(parties.pooled, party))
        assert table.usual_bounds == {}
    declared_items = [table.ratings.items for table in parties.tables.values()]
    assert sum(declared_items) == N_LECTURERS if parties.is_vertical else set(declared_items) == {N_LECTURERS}


def test_tables_in_memory_hold_what_is_written(parties):
    for table in parties.in_memory():
        local = parties.tables[table.schema.party]
        written = pl.read_parquet(local.path)
        rows = table.ratings
        assert [int(rows.user_names[place]) for place in rows.users] == written[local.ratings.user].to_list()
        assert rows.items.tolist() == written[local.ratings.item].to_list()
        assert rows.values.tolist() == written[local.ratings.rating].to_list()


def test_fewer_ratings_are_those_of_the_first_students(tmp_path):
    few = write_student_parties(tmp_path, rows=200)
    assert len(few.pooled) + len(few.held_out) == 200
    assert few.pooled[:, 0].max() < 30
    with pytest.raises(ValueError, match="rows: 99 is not between 100 and 73421"):
        write_student_parties(tmp_path, rows=99)
