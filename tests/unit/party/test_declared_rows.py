"""What a party does with the rows that its owner declares: in its configuration, with its file, with its budget."""

import gzip

import numpy as np
import pytest
from job_builders import PARTIES, make_job, make_schema
from ledgers import budget
from party_federation import Federation
from pydantic import ValidationError

from analyses.job.job import JobInput
from analyses.job.schema import Table, digest_of_ids
from party.admission import RefusalError
from party.tables.table import UnusableTableError, describe_table, load_table

WANTED = JobInput(party="north", table="visits", columns=("age",))


@pytest.mark.parametrize("name", ["visits.csv", "visits.csv.gz"])
def test_a_table_is_read_within_its_declaration_and_refused_outside_with_party_table_and_no_number(
    make_config, tmp_path, name
):
    config = make_config(path=name, rows=[2, 4])
    said = set()
    for n_rows in range(1, 7):
        text = ("age,stay\n" + "41,2\n" * n_rows).encode()
        (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
        if 2 <= n_rows <= 4:
            assert load_table(config, WANTED).n_rows == n_rows
            continue
        with pytest.raises(UnusableTableError) as raised:
            load_table(config, WANTED)
        said.add(str(raised.value))
        assert raised.value.detail == "its number of rows is outside the range that its owner declares"
    assert said == {
        "table 'visits' of party 'north' cannot be used; its owner finds the reason in the log of the service"
    }


def test_the_declaration_is_part_of_the_public_schema(make_config, tmp_path):
    (tmp_path / "visits.csv").write_text("age,stay\n41,2\n")
    assert describe_table(make_config(rows=[1, 4]), WANTED).rows == (1, 4)
    assert describe_table(make_config(), WANTED).rows is None


@pytest.mark.parametrize("rows", [[4, 3], [0, 4], [3], [1, 1 << 41], ["few", "many"]])
def test_a_declaration_that_no_table_can_keep_is_refused_by_name(make_config, rows):
    with pytest.raises(ValidationError, match="rows"):
        make_config(rows=rows)


@pytest.mark.parametrize("most", [50, 100])
async def test_a_delta_is_compared_with_the_most_rows_declared_whatever_the_table_holds(tmp_path, most):
    said = set()
    for n_rows in (30, 31, 50):
        tables = {}
        for party in PARTIES:
            ids = digest_of_ids(map(str, range(n_rows)))
            tables[party] = Table(make_schema(party, rows=(10, most)), np.zeros((n_rows, 2)), ids)
        folder = tmp_path / str(n_rows)
        folder.mkdir()
        federation = Federation(tables, folder)
        federation.ledgers["bank"].set_budget("people", budget(100.0, delta=1 / 60), "test")
        try:
            await federation.reserve(make_job(parameters={"components": 2, "gamma": 1024}))
            said.add("")
        except RefusalError as error:
            said.add(str(error))
    (text,) = said
    assert (text == "") == (most == 50)
    assert text == "" or f"must be below 1 / {most} " in text


async def test_where_no_rows_are_declared_only_the_owner_hears_that_the_budgets_delta_is_too_large(tmp_path, capsys):
    said = {}
    for n_rows in (30, 3000):
        ids = digest_of_ids(map(str, range(n_rows)))
        tables = {p: Table(make_schema(p, rows=None), np.zeros((n_rows, 2)), ids) for p in PARTIES}
        folder = tmp_path / str(n_rows)
        folder.mkdir()
        federation = Federation(tables, folder)
        federation.ledgers["bank"].set_budget("people", budget(100.0, delta=1 / 300), "test")
        job = make_job(analysis="secure-sum", parameters={"max_rows": 5000, "units": 16})
        events, _ = await federation.run(job)
        said[n_rows] = (events, capsys.readouterr().out.count("delta is not below 1 / (rows of the table)"))
    assert said[30][0] == said[3000][0]
    assert (said[30][1], said[3000][1]) == (0, 1)
