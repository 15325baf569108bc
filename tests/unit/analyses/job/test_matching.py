"""What a job may ask for about matching rows, and which tables serve it."""

from dataclasses import replace

import numpy as np
import pytest
from job_builders import PARTIES, make_job, make_schema

from analyses.job.declared_rows import declared_rows
from analyses.job.job import Job, JobError
from analyses.job.matching import MAX_MATCHED_ROWS, MatchingSchema
from analyses.job.plan import check_schemas
from analyses.job.row_ids import digests_of_ids
from analyses.job.schema import Table
from analyses.registry import ANALYSES

REVEALED = {"kind": "revealed"}
NAME_AND_BIRTH = MatchingSchema(recipe=(("nfkc", "letters"), ("date",)), reveal=True)


def schemas_of(*matching, rows=(5, 80)):
    return tuple(make_schema(p, rows=rows, matching=m) for p, m in zip(PARTIES, matching, strict=True))


def job_of(kind="revealed"):
    return make_job(matching={"kind": kind})


def test_a_job_that_does_not_match_shows_no_such_field():
    assert "matching" not in make_job().canonical_json()
    assert "matching" not in make_schema("bank").canonical_json()
    assert Job.from_json(job_of("secret").canonical_json()).matching.kind == "secret"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"kind": "secret", "keep": True}, "nobody has anything to keep"),
        ({"kind": "secret", "match": "job-1"}, "nobody has anything to keep"),
        ({"kind": "revealed", "keep": True, "match": "job-1"}, "either makes a match to keep, or names one"),
        ({"kind": "revealed", "match": "../job"}, "match"),
        ({"kind": "revealed", "match": ""}, "match"),
        ({"kind": "revealed", "keep": 1}, "keep"),
    ],
)
def test_a_job_keeps_a_revealed_match_or_names_one(fields, text):
    with pytest.raises(ValueError, match=text):
        make_job(matching=fields)


def test_what_is_kept_shows_in_the_json_of_its_jobs_and_of_no_other():
    plain = job_of().canonical_json()
    assert '"matching":{"kind":"revealed"}' in plain
    for fields in ({"keep": True}, {"match": "job-1"}):
        asked = make_job(matching={"kind": "revealed", **fields})
        assert Job.from_json(asked.canonical_json()) == asked
        assert asked.canonical_json() != plain


def test_tables_with_one_recipe_are_accepted():
    check_schemas(job_of(), schemas_of(*[NAME_AND_BIRTH] * 3))
    check_schemas(job_of("secret"), schemas_of(*[NAME_AND_BIRTH.model_copy(update={"reveal": False})] * 3))


def test_rules_for_rows_of_one_id_may_differ():
    others = NAME_AND_BIRTH.model_copy(update={"duplicates": "first", "missing": "leave out"})
    check_schemas(job_of(), schemas_of(NAME_AND_BIRTH, others, NAME_AND_BIRTH))


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (None, "table 'people' of party 'hospital' does not say what identifies its rows"),
        (
            NAME_AND_BIRTH.model_copy(update={"recipe": (("nfkc",), ("date",))}),
            r"'bank' and .* identify rows differently: 2 fields \(nfkc, letters; date\), and 2 fields \(nfkc; date\)",
        ),
        (NAME_AND_BIRTH.model_copy(update={"recipe": ((),)}), r"and 1 field \(as it is\)"),
        (NAME_AND_BIRTH.model_copy(update={"reveal": False}), "the owner of table 'people' of party 'hospital' does"),
    ],
)
def test_tables_that_cannot_be_matched_are_named_with_the_difference(other, text):
    with pytest.raises(JobError, match=text):
        check_schemas(job_of(), schemas_of(NAME_AND_BIRTH, other, NAME_AND_BIRTH))


def test_a_table_of_any_number_of_rows_cannot_be_matched():
    with pytest.raises(JobError, match="matching: table 'people' of party 'bank' does not declare"):
        check_schemas(job_of(), schemas_of(*[NAME_AND_BIRTH] * 3, rows=None))


def test_a_table_that_declares_more_rows_than_memory_is_there_for_cannot_be_matched():
    check_schemas(job_of(), schemas_of(*[NAME_AND_BIRTH] * 3, rows=(5, MAX_MATCHED_ROWS)))
    with pytest.raises(JobError, match=f"'bank' declares up to {MAX_MATCHED_ROWS + 1} rows, and at most"):
        check_schemas(job_of(), schemas_of(*[NAME_AND_BIRTH] * 3, rows=(5, MAX_MATCHED_ROWS + 1)))


def test_of_matched_rows_there_may_be_none_and_no_more_than_the_smallest_table_holds():
    members = [
        make_schema(p, rows=rows, matching=NAME_AND_BIRTH)
        for p, rows in zip(PARTIES, [(5, 70), (5, 80), (71, 90)], strict=True)
    ]
    found = declared_rows(job_of(), members)
    assert (found.least, found.most) == (0, 70)


@pytest.mark.parametrize("kind", ["revealed", "secret"])
def test_an_analysis_that_cannot_match_refuses_to(kind):
    names = [name for name, one in ANALYSES.items() if kind not in one.matching]
    assert "secure-sum" in names
    for name in names:
        with pytest.raises(JobError, match=f"matching: {name} cannot match rows in the way '{kind}'"):
            ANALYSES[name].check_matching(make_job(analysis=name, matching={"kind": kind}))


def test_digests_differ_if_and_only_if_fields_do():
    digests = digests_of_ids([["ab", "a", "ab", ""], ["c", "bc", "c", "abc"]])
    assert digests.shape == (4, 32)
    assert digests.dtype == np.uint8
    assert len({row.tobytes() for row in digests}) == 3
    assert digests[0].tobytes() == digests[2].tobytes()
    assert digests_of_ids([["abc"]])[0].tobytes() not in {row.tobytes() for row in digests}


def test_a_table_has_ids_if_and_only_if_it_says_so_and_shows_none():
    schema = make_schema("bank", rows=(1, 80), matching=NAME_AND_BIRTH)
    values, ids = np.zeros((2, len(schema.columns))), digests_of_ids([["ada", "ben"], ["1", "2"]])
    table = Table(schema, values, ids=ids)
    assert " ids=" not in repr(table)
    for wrong in (None, ids[:1], ids[:, :31]):
        with pytest.raises(ValueError, match="the table of bank"):
            replace(table, ids=wrong)
    with pytest.raises(ValueError, match="if and only if"):
        replace(table, schema=make_schema("bank", rows=(1, 80)))
