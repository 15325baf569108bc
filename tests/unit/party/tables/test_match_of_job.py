"""What an owner checks of a job that names a kept match, and what it keeps after one that makes it."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from analyses.job.job import Job
from analyses.job.schema import BlockSchema
from party.tables.config import TableConfig
from party.tables.kept_matches import KeptMatches
from party.tables.match_of_job import MatchOfJob, MatchRefusedError, check_kept_match, shown_matches
from party.tables.matching_config import MatchingConfig
from party.tables.table import UnusableTableError, describe_table, load_table
from service.codes.coded_text import told

PARTIES = ("bank", "clinic", "shop")
ROWS = np.array([2, 0], dtype=np.int64)
ORIGIN = bytes(range(32))


@dataclass
class Owner:
    """As much of a party's configuration as the room needs."""

    data_dir: Path
    tables: tuple = ()
    name: str = "bank"
    table_memory_mib: int = 1


class Unversioned(TableConfig):
    """A table like one in a database: nobody can tell whether it is as it was."""

    def make_source(self):
        source = super().make_source()
        object.__setattr__(source, "version", lambda: None)
        return source


def write(owner, ids):
    (owner.data_dir / "people.csv").write_text("id,x\n" + "".join(f"{one},{one % 2}\n" for one in ids))


def owner_of(tmp_path, kind=TableConfig, steps=("integer",)):
    matching = MatchingConfig(columns=("id",), normalise=steps, reveal=True)
    config = {"name": "people", "path": tmp_path / "people.csv", "bounds": {"x": (0, 1)}, "rows": (1, 9)}
    return Owner(tmp_path, (kind(**config, matching=matching),))


@pytest.fixture(params=[TableConfig, Unversioned])
def owner(tmp_path, request):
    found = owner_of(tmp_path, request.param)
    write(found, [5, 6, 7, 8])
    return found


def job(table="people", parties=PARTIES, **matching):
    inputs = [{"party": party, "table": table if party == "bank" else "theirs"} for party in parties]
    fields = {"analysis": "pca", "inputs": inputs, "compute": PARTIES, "matching": {"kind": "revealed", **matching}}
    return Job.model_validate(fields | {"privacy": {"epsilon": 1.0, "delta": 1e-6}})


def brought(asked):
    return asked.inputs[0]


def keep(owner, asked=None):
    """Run the part of a job that keeps a match, where rows 2 and 0 are everybody's."""
    asked = asked or job(keep=True)
    match = MatchOfJob.begin(owner, asked)
    table = match.given_to(load_table(owner, brought(asked)))
    table.match.rows, table.match.origin = ROWS, ORIGIN
    with match.kept_with("job-1", table):
        assert KeptMatches(owner.data_dir).ids() == ["job-1"]


def check(owner, asked):
    check_kept_match(owner, asked, describe_table(owner, brought(asked)))


def given(owner, asked):
    return MatchOfJob.begin(owner, asked).given_to(load_table(owner, brought(asked)))


def test_what_a_job_has_kept_comes_with_the_table_of_a_job_that_names_it(owner):
    keep(owner)
    asked = job(match="job-1")
    check(owner, asked)
    table = given(owner, asked)
    assert (table.match.rows.tolist(), table.match.origin) == (ROWS.tolist(), ORIGIN)
    assert shown_matches(owner)[0] | {"kept_at_s": 0} == {
        "match": "job-1",
        "kept_at_s": 0,
        "inputs": {"bank": "people", "clinic": "theirs", "shop": "theirs"},
        "table": "people",
        "rows": 2,
        "state": "usable",
    }


@pytest.mark.parametrize("matching", [{}, {"kind": "secret"}])
def test_a_job_that_neither_keeps_nor_names_a_match_has_no_part_of_one(owner, matching):
    assert MatchOfJob.begin(owner, job(**matching)) is None
    check(owner, job(**matching))


def test_a_party_that_only_computes_keeps_nothing_and_needs_nothing(owner):
    for asked in (job(parties=PARTIES[1:], keep=True), job(parties=PARTIES[1:], match="job-1")):
        assert MatchOfJob.begin(owner, asked) is None
        check_kept_match(owner, asked, BlockSchema(party="bank"))


def test_a_job_that_names_a_match_or_found_none_keeps_none(owner):
    keep(owner)
    before = KeptMatches(owner.data_dir).find("job-1")
    named = job(match="job-1")
    with MatchOfJob.begin(owner, named).kept_with("job-2", given(owner, named)):
        pass
    making = job(keep=True)
    with MatchOfJob.begin(owner, making).kept_with("job-3", given(owner, making)):
        pass
    assert KeptMatches(owner.data_dir).ids() == ["job-1"]
    assert KeptMatches(owner.data_dir).find("job-1") == before


def test_nothing_is_kept_of_a_job_whose_cost_could_not_be_committed(owner):
    asked = job(keep=True)
    match = MatchOfJob.begin(owner, asked)
    table = match.given_to(load_table(owner, brought(asked)))
    table.match.rows, table.match.origin = ROWS, ORIGIN
    with pytest.raises(ValueError, match="the ledger"), match.kept_with("job-1", table):
        raise ValueError("the ledger says no")
    assert KeptMatches(owner.data_dir).ids() == []


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (job(match="job-9"), "bank keeps no match job-9"),
        (job(match="job-1", parties=PARTIES[:2]), "match job-1 is of other parties or other tables than the job"),
        (job(match="job-1", parties=("bank", "clinic", "baker")), "match job-1 is of other parties or other tables"),
    ],
)
def test_a_match_that_is_not_there_or_of_others_is_refused(owner, asked, text):
    keep(owner)
    with pytest.raises(MatchRefusedError, match=text) as caught:
        check(owner, asked)
    assert told(caught.value).endswith("[match-refused]")


def test_another_recipe_is_refused(owner):
    keep(owner)
    other = owner_of(owner.data_dir, type(owner.tables[0]), steps=("trim",))
    with pytest.raises(MatchRefusedError, match="bank changed its matching rules since match job-1"):
        check(other, job(match="job-1"))


def test_a_source_that_was_written_anew_is_refused_before_it_is_read(tmp_path):
    owner = owner_of(tmp_path)
    write(owner, [5, 6, 7, 8])
    keep(owner)
    write(owner, [5, 6, 7, 8, 9])
    with pytest.raises(MatchRefusedError, match="the table of bank was written anew since match job-1"):
        check(owner, job(match="job-1"))
    (tmp_path / "people.csv").unlink()
    with pytest.raises(MatchRefusedError, match="the table of bank was written anew since match job-1"):
        check(owner, job(match="job-1"))
    assert [one["state"] for one in shown_matches(owner)] == ["table changed"]


@pytest.mark.parametrize("ids", [[5, 6, 7, 8, 9], [5, 6, 7], [6, 5, 7, 8], [5, 6, 7, 80]])
def test_where_no_source_tells_the_rows_themselves_do_and_others_are_told_what_they_always_are(tmp_path, ids):
    owner = owner_of(tmp_path, Unversioned)
    write(owner, [5, 6, 7, 8])
    keep(owner)
    write(owner, ids)
    asked = job(match="job-1")
    check(owner, asked)
    with pytest.raises(UnusableTableError) as caught:
        given(owner, asked)
    assert str(caught.value) == str(UnusableTableError("table 'people' of party 'bank'", "anything"))
    assert "its rows are not those of match job-1, or in another order" in caught.value.detail


def test_a_source_that_changes_between_version_and_reading_makes_no_usable_match(tmp_path):
    owner = owner_of(tmp_path)
    write(owner, [5, 6, 7, 8])
    asked = job(keep=True)
    match = MatchOfJob.begin(owner, asked)
    write(owner, [5, 6, 7, 8, 9])
    table = match.given_to(load_table(owner, brought(asked)))
    table.match.rows, table.match.origin = ROWS, ORIGIN
    with match.kept_with("job-1", table):
        assert KeptMatches(owner.data_dir).ids() == ["job-1"]
    with pytest.raises(MatchRefusedError, match="written anew"):
        check(owner, job(match="job-1"))


def test_what_goes_or_breaks_after_the_job_was_accepted_is_told_to_the_owner_alone(owner):
    keep(owner)
    asked = job(match="job-1")
    begun = MatchOfJob.begin(owner, asked)
    path = owner.data_dir / "matches" / "job-1.match"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(UnusableTableError) as caught:
        begun.given_to(load_table(owner, brought(asked)))
    assert "is damaged" in caught.value.detail
    assert "damaged" not in str(caught.value)
    path.unlink()
    with pytest.raises(UnusableTableError) as caught:
        MatchOfJob.begin(owner, asked)
    assert "bank keeps no match job-1" in caught.value.detail


def test_rows_that_the_table_does_not_have_are_refused(owner):
    keep(owner)
    store = KeptMatches(owner.data_dir)
    head = store.find("job-1")
    fields = head.model_dump(include={"inputs", "table", "recipe", "version", "ids_digest"})
    store.keep("job-1", np.array([0, 4]), **fields, origin=ORIGIN)
    with pytest.raises(UnusableTableError) as caught:
        given(owner, job(match="job-1"))
    assert "names rows that it does not have" in caught.value.detail
