"""SELECTs as the jobs that they become; and what is none of our questions, by its name."""

import pytest

from analyses.job.job import Job, JobError
from analyses.job.listing import ListedTable, Listing
from analyses.job.schema import BlockSchema, ColumnSchema
from analyst.catalogue import Catalogue
from analyst.planning import plan_of
from analyst.sql import SqlError, job_of_sql, toml_of, with_computing
from transport.calls.coordinator_client import PartyTables

COLUMNS = {
    "bank": {"people": {"charges": (0, 500), "age": (0, 100), "owns": (0, 1)}},
    "clinic": {"people": {"age": (0, 100), "region=north": (0, 1), "region=south": (0, 1), "ill": (0, 1)}},
    "shop": {"people": {"visits": (0, 30)}, "sales": {"price": (0, 9)}},
}


def listed(party, name):
    columns = tuple(
        ColumnSchema(name=one, lower=low, upper=high, group="region" if "=" in one else None)
        for one, (low, high) in COLUMNS[party][name].items()
    )
    block = BlockSchema(party=party, columns=columns, has_ids=True, rows=(1000, 100_000))
    return ListedTable(name=name, block=block, usual=tuple(COLUMNS[party][name]), admitted={})


CATALOGUE = Catalogue.of(
    {
        party: PartyTables(
            Listing(party=party, tables=tuple(listed(party, name) for name in tables)).canonical_json(), ""
        )
        for party, tables in COLUMNS.items()
    }
)
JOINED = "FROM clinic JOIN bank USING (id)"


def meant(text, **more):
    return job_of_sql(text, CATALOGUE, epsilon=1.0, delta=1e-6, **more)


@pytest.mark.parametrize(
    ("text", "analysis", "brought", "question", "given"),
    [
        (
            f"SELECT region, avg(charges) {JOINED} GROUP BY region",
            "second-moments",
            {"clinic": ["region"], "bank": ["charges"]},
            "group-means",
            {"value": "bank.charges", "by": "clinic.region"},
        ),
        (
            "select avg(b.charges) as mean, sum(c.age), count(*) from clinic c inner join bank b using (id)",
            "joint-mean",
            {"clinic": ["age"], "bank": ["charges"]},
            "",
            {},
        ),
        (f"SELECT count(*) {JOINED}", "joint-count", {"clinic": ["age"], "bank": ["charges"]}, "", {}),
        (
            f"SELECT region, count(*) {JOINED} GROUP BY region",
            "joint-sum",
            {"clinic": ["region"], "bank": ["charges"]},
            "",
            {},
        ),
        (
            f"SELECT region, owns, count(*) {JOINED} GROUP BY owns, region",
            "cross-table",
            {"clinic": ["region"], "bank": ["owns"]},
            "",
            {},
        ),
        (
            f"SELECT ill, owns, count(*) {JOINED} GROUP BY ill, owns HAVING count(*) >= 2000001",
            "cross-table",
            {"clinic": ["ill"], "bank": ["owns"]},
            "groups",
            {"columns": "clinic.ill,bank.owns", "at_least": "2000001"},
        ),
        (
            f"SELECT region, avg(charges) {JOINED} GROUP BY region HAVING count(*) > 50",
            "second-moments",
            {"clinic": ["region"], "bank": ["charges"]},
            "group-means",
            {"value": "bank.charges", "by": "clinic.region", "at_least": "51"},
        ),
        (
            f"SELECT region, owns, quantile(visits, 0.25) {JOINED} JOIN shop.people USING (id) GROUP BY region, owns",
            "cross-table",
            {"clinic": ["region"], "bank": ["owns"], "shop": ["visits"]},
            "quantiles",
            {"value": "shop.visits", "q": "0.25", "columns": "clinic.region,bank.owns"},
        ),
        (
            f"SELECT region, avg(charges), sum(charges) {JOINED} GROUP BY region",
            "second-moments",
            {"clinic": ["region"], "bank": ["charges"]},
            "group-means",
            {"value": "bank.charges", "by": "clinic.region"},
        ),
        (
            f"SELECT ill, owns, sum(visits) {JOINED} JOIN shop.people USING (id) GROUP BY ill, owns HAVING count(*)>19",
            "cross-table",
            {"clinic": ["ill"], "bank": ["owns"], "shop": ["visits"]},
            "group-means",
            {"value": "shop.visits", "columns": "clinic.ill,bank.owns", "at_least": "20"},
        ),
        (
            f"SELECT ill, count(*) {JOINED} GROUP BY ill HAVING count(*) > 5",
            "cross-table",
            {"clinic": ["ill"], "bank": ["owns"]},
            "groups",
            {"columns": "clinic.ill", "at_least": "6"},
        ),
        (
            f"SELECT region, ill, count(*) {JOINED} GROUP BY region, ill",
            "cross-table",
            {"clinic": ["region", "ill"], "bank": ["owns"]},
            "groups",
            {"columns": "clinic.region,clinic.ill"},
        ),
        (
            f"SELECT region, ill, owns, count(*) {JOINED} GROUP BY region, owns, ill, owns",
            "cross-table",
            {"clinic": ["region", "ill"], "bank": ["owns"]},
            "",
            {},
        ),
        (
            f"SELECT region, ill, clinic.age, owns, count(*) {JOINED} GROUP BY region, ill, clinic.age, owns",
            "cross-table",
            {"clinic": ["region", "ill", "age"], "bank": ["owns"]},
            "",
            {},
        ),
        (
            f"SELECT region, ill, avg(charges) {JOINED} GROUP BY region, ill",
            "second-moments",
            {"clinic": ["region", "region*ill"], "bank": ["charges"]},
            "group-means",
            {"value": "bank.charges", "by": "clinic.region*clinic.ill"},
        ),
        (
            f"SELECT clinic.age, region, sum(owns) {JOINED} GROUP BY clinic.age, region",
            "cross-table",
            {"clinic": ["age", "region"], "bank": ["owns"]},
            "group-means",
            {"value": "bank.owns", "columns": "clinic.age,clinic.region"},
        ),
        (
            f"SELECT region, ill, owns, median(clinic.age) {JOINED} GROUP BY region, ill, owns",
            "cross-table",
            {"clinic": ["region", "ill", "age"], "bank": ["owns"]},
            "quantiles",
            {"value": "clinic.age", "q": "0.5", "columns": "clinic.region,clinic.ill,bank.owns"},
        ),
        (
            f"SELECT median(clinic.age) {JOINED}",
            "cross-table",
            {"clinic": ["age"], "bank": ["owns"]},
            "quantiles",
            {"value": "clinic.age", "q": "0.5"},
        ),
        (
            "SELECT corr(charges, visits) FROM bank JOIN shop.people USING (id)",
            "second-moments",
            {"bank": ["charges"], "shop": ["visits"]},
            "correlation",
            {"columns": "bank.charges,shop.visits"},
        ),
    ],
)
def test_a_statement_becomes_a_job_that_can_be_planned_and_a_question_to_it(text, analysis, brought, question, given):
    found = meant(text)
    assert found.job.analysis == analysis
    assert {one.party: list(one.columns) for one in found.job.inputs} == brought
    assert (found.question, found.given) == (question, given)
    whole = with_computing(found, ["bank", "clinic", "shop"])
    assert len(whole.job.compute_parties) == 3
    assert plan_of(whole.job, CATALOGUE).columns
    text = "\n".join(whole.lines())
    assert Job.from_toml(text) == whole.job
    assert (f"# moiety answer JOB {question}" in text) == bool(question)


def test_matching_is_asked_for_and_three_owners_need_no_other():
    found = meant("SELECT avg(visits) FROM clinic JOIN bank USING (id) JOIN shop.people USING (id)", matching="secret")
    assert found.job.matching.kind == "secret"
    assert with_computing(found, ["bank", "clinic", "shop", "telco"]) is found
    assert Job.from_toml("\n".join(toml_of(found.job))) == found.job
    assert found.notes == (
        "clinic brings age, as a job needs a column of each table",
        "bank brings charges, as a job needs a column of each table",
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELEC 1", "this is no SQL|one SELECT is asked"),
        ("SELECT", "shows the columns|no SQL|needs|tables of two owners"),
        ("DROP TABLE clinic", "DROP: one SELECT is asked at a time"),
        (f"SELECT count(*) {JOINED}; SELECT 1", "several statements: one SELECT"),
        (f"SELECT count(*) {JOINED} WHERE ill = 1", "WHERE is not offered in SELECT"),
        (f"SELECT ill, avg(charges) {JOINED} GROUP BY ill HAVING avg(charges) > 5", "is not offered: HAVING count"),
        (f"SELECT ill, avg(charges) {JOINED} GROUP BY ill HAVING count(*) < 5", "LT is not offered"),
        (f"SELECT ill, avg(charges) {JOINED} GROUP BY ill HAVING count(*) > 'x'", "'x' is no number"),
        (f"SELECT ill, avg(charges) {JOINED} GROUP BY ill HAVING count(*) > 1e999", "1e999 is no number that a job"),
        ("SELECT count(*) FROM clinic JOIN bank USING (age)", r"USING \(age\): rows are joined by the one id"),
        ("SELECT count(*) FROM clinic JOIN bank USING (patient, owns)", r"USING \(patient, owns\): rows are joined by"),
        ("SELECT " + "(" * 20_000 + "1" + ")" * 20_000, "nested too deeply"),
        (f"SELECT count(*) {JOINED} HAVING count(*) > 5", "HAVING is offered with GROUP BY"),
        (f"SELECT count(DISTINCT charges) {JOINED}", "rows of an id are one already"),
        (f"SELECT ill, owns, median(visits) {JOINED} GROUP BY ill, owns", "no table lists the column 'visits'"),
        (f"SELECT ill, median(ill) {JOINED} GROUP BY ill", "clinic.ill makes the groups"),
        (
            f"SELECT ill, median(owns) {JOINED} GROUP BY ill HAVING count(*) > 5",
            "HAVING is not offered with a quantile",
        ),
        (f"SELECT ill, median(owns), avg(charges) {JOINED} GROUP BY ill", "one median or quantile is one question"),
        (f"SELECT count(*) {JOINED} ORDER BY 1", "ORDER is not offered in SELECT"),
        (f"SELECT count(*) {JOINED} LIMIT 1", "LIMIT is not offered in SELECT"),
        (f"SELECT DISTINCT ill, count(*) {JOINED} GROUP BY ill", "DISTINCT is not offered in SELECT"),
        (f"WITH x AS (SELECT 1) SELECT count(*) {JOINED}", "WITH is not offered in SELECT"),
        ("SELECT count(*) FROM clinic LEFT JOIN bank USING (id)", "SIDE is not offered in JOIN"),
        ("SELECT count(*) FROM clinic JOIN bank ON clinic.id = bank.id", "ON is not offered in JOIN"),
        ("SELECT count(*) FROM clinic, bank", r"joined by JOIN \.\.\. USING"),
        ("SELECT count(*) FROM (SELECT * FROM clinic) JOIN bank USING (id)", "SUBQUERY is not offered"),
        (f"SELECT max(charges) {JOINED}", "MAX is not offered"),
        (f"SELECT avg(charges + 1) {JOINED}", "ADD is not offered"),
        (f"SELECT avg(DISTINCT charges) {JOINED}", "DISTINCT is not offered"),
        (f"SELECT sum(charges) FILTER (WHERE ill = 1) {JOINED}", "FILTER is not offered"),
        (f"SELECT avg(charges) OVER (PARTITION BY region) {JOINED}", "WINDOW is not offered"),
        (f"SELECT count(charges) {JOINED}", r"count\(COLUMN\) is not offered"),
        (f"SELECT charges {JOINED}", "and no rows"),
        (f"SELECT * {JOINED}", "and no rows|not offered|no column"),
        (f"SELECT ill, avg(charges) {JOINED} GROUP BY region", "shows the columns of GROUP BY"),
        (
            f"SELECT region, corr(charges, clinic.age) {JOINED} GROUP BY region",
            "corr by groups is not offered: ask avg",
        ),
        (f"SELECT region, owns, avg(owns) {JOINED} GROUP BY region, owns", "bank.owns makes the groups"),
        (f"SELECT region, avg(charges), sum(owns) {JOINED} GROUP BY region", "avg and sum of one column by groups"),
        (f"SELECT corr(charges, visits), avg(charges) {JOINED}", "no table lists the column 'visits'"),
        (f"SELECT corr(charges, bank.age), avg(charges) {JOINED}", "corr stands alone"),
        (f"SELECT avg(age) {JOINED}", "several tables have the column 'age': clinic, bank"),
        (f"SELECT avg(x.age) {JOINED}", "no table 'x' in this statement"),
        (f"SELECT avg(wealth) {JOINED}", "no table lists the column 'wealth': clinic, bank"),
        ("SELECT count(*) FROM clinic JOIN shop USING (id)", "shop lists several tables: write shop.people"),
        ("SELECT count(*) FROM clinic JOIN shop.stock USING (id)", "shop lists no table 'stock'; it has people, sales"),
        ("SELECT count(*) FROM clinic JOIN telco USING (id)", "no party 'telco' lists a table; there are bank"),
        ("SELECT count(*) FROM shop.sales a JOIN shop.people b USING (id)", "shop brings one table to a job"),
        ("SELECT avg(age) FROM clinic", "tables of two owners at least"),
    ],
)
def test_what_is_none_of_our_questions_is_refused_by_its_name(text, said):
    with pytest.raises(SqlError, match=said):
        meant(text)


def test_a_job_that_is_not_valid_is_refused_as_any_job():
    with pytest.raises(JobError, match="epsilon"):
        job_of_sql(f"SELECT count(*) {JOINED}", CATALOGUE, epsilon=-1.0, delta=1e-6)
