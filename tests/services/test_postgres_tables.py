"""Tables in a PostgreSQL server, a DuckDB file and a lake: from rows to the result of a job, and what goes wrong."""

import json
import threading
import traceback
from datetime import date
from urllib.parse import urlsplit

import numpy as np
import polars as pl
import pytest
from commands import moiety as run_command
from federation import Analyst, all_text, pca_job, random_values, tables_of
from forked_services import ForkedDeployment

from demo.local_deployment import LocalTable
from party.tables.encoding import encode
from party.tables.kinds import DateKind
from party.tables.sources.source import SourceError
from party.tables.sources.sql import binary_copy, postgres_table
from party.tables.sources.sql.postgres_table import PostgresTable

PASSWORD = "s3cret-word"
N_ROWS = 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("postgres")


@pytest.fixture(scope="module")
def admin(cluster):
    """The URL of the server's owner; the user `reader` needs a password and may read, and only read."""
    import psycopg

    with psycopg.connect(cluster, autocommit=True) as database:
        database.execute(
            f"""
            CREATE ROLE reader LOGIN PASSWORD '{PASSWORD}';
            CREATE TABLE odd (id TEXT, age INT, weight NUMERIC, height FLOAT8, vip BOOL, born DATE, seen TIMESTAMP,
                note TEXT);
            INSERT INTO odd VALUES
                ('b', 1, 1.5, 'Infinity', TRUE, '2020-01-02', '2020-01-02 10:00', E'x,"y\\nz'),
                ('a', NULL, 'NaN', 2.5, NULL, '1999-01-01', NULL, ''),
                ('B', 3, 3, 3, FALSE, NULL, NULL, NULL);
            CREATE TABLE people (id TEXT, x0 FLOAT8, x1 FLOAT8);
            CREATE SEQUENCE counter;
            CREATE TABLE hidden (age INT);
            GRANT SELECT ON odd, people TO reader;
            GRANT USAGE ON SEQUENCE counter TO reader;
            """
        )
        with database.cursor().copy("COPY people FROM STDIN") as copy:
            for i, row in enumerate(random_values((N_ROWS, 2), 1).tolist()):
                copy.write_row((f"row-{i:03}", *row))
    return cluster


@pytest.fixture
def url(admin):
    return f"postgresql://reader@{urlsplit(admin).netloc.partition('@')[2]}/postgres"


@pytest.fixture
def source(url, folder):
    (folder / "password").write_text(f"{PASSWORD}\n")

    def source(**fields):
        return PostgresTable(**{"url": url, "password_file": folder / "password", **fields})

    return source


def read(source, numbers=(), texts=()):
    return {column.name: column.to_list() for column in source.read(numbers, texts)}


def refusal(source, numbers=("age",)):
    with pytest.raises(SourceError) as caught:
        read(source, numbers)
    assert PASSWORD not in "".join(traceback.format_exception(caught.value)) + repr(source)
    return str(caught.value)


def test_values_come_in_their_types_and_in_the_order_that_is_declared(source):
    table = source(table="public.odd", order_by=("id",))
    assert table.is_there()
    assert table.count_rows() == 3
    found = read(table, ("age", "height", "vip"), ("weight", "vip", "born", "seen", "note", "id")[:1])
    assert found["age"] == [3.0, None, 1.0]
    assert found["height"] == [3.0, 2.5, float("inf")]
    assert found["vip"] == [0.0, None, 1.0]
    assert found["weight"] == ["3", "NaN", "1.5"]
    texts = read(table, (), ("vip", "born", "seen", "note", "id"))
    assert texts["vip"] == [False, None, True]
    assert [str(day) for day in texts["born"]] == ["None", "1999-01-01", "2020-01-02"]
    assert [str(day) for day in texts["seen"]] == ["None", "None", "2020-01-02"]
    assert texts["note"] == [None, "", 'x,"y\nz']
    assert texts["id"] == ["B", "a", "b"]  # by bytes, as files are sorted


@pytest.mark.parametrize("of_role", [False, True])
@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "America/Los_Angeles", "UTC"])
def test_the_day_of_a_point_in_time_is_not_that_of_the_session(source, admin, monkeypatch, zone, of_role):
    import psycopg

    query = "SELECT TIMESTAMPTZ '2020-06-01 22:30+00' AS seen, (TIMESTAMPTZ '2020-06-01 22:30+00')::date AS day"
    if of_role:
        with psycopg.connect(admin, autocommit=True) as database:
            database.execute(f"ALTER ROLE reader SET TimeZone = '{zone}'")
    else:
        monkeypatch.setenv("PGTZ", zone)
    try:
        seen, day = source(query=query).read((), ("seen", "day"))
    finally:
        with psycopg.connect(admin, autocommit=True) as database:
            database.execute("ALTER ROLE reader RESET TimeZone")
    assert str(day[0]) == "2020-06-01"  # the owner's own query, too
    for declared, expected in ((None, 152), ("Asia/Tokyo", 153), ("America/New_York", 152)):
        kind = DateKind(kind="date", bounds=(date(2020, 1, 1), date(2020, 12, 31)), zone=declared)
        assert encode(kind, seen).columns["seen"].tolist() == [expected]


def test_rows_come_in_pieces_and_are_one_table(source, monkeypatch):
    monkeypatch.setattr(postgres_table, "CHUNK_BYTES", 100)
    found = read(source(table="people", order_by=("id",)), ("x0", "x1"), ("id",))
    assert found["id"] == [f"row-{i:03}" for i in range(N_ROWS)]
    assert np.array_equal(np.array([found["x0"], found["x1"]]).T, random_values((N_ROWS, 2), 1))
    assert read(source(query="SELECT * FROM people WHERE false"), ("x0",)) == {"x0": []}


def test_every_value_is_the_one_that_the_database_holds(source, admin, monkeypatch):
    """Doubles of random bits, texts of what CSV has marks for, and gaps, beside what the driver reads row by row."""
    import psycopg

    rng = np.random.default_rng(3)
    doubles = rng.integers(0, 2**64, 1000, dtype=np.uint64).view(np.float64).tolist()
    pieces = ["", "a", '"', '""', ",", "\n", "\r\n", "\t", " ", "\\", "NULL", "ü", "名", "0"]
    texts = ["".join(rng.choice(pieces, rng.integers(0, 5))) for _ in range(2000)]
    rows = [
        tuple(
            None if rng.random() < 0.2 else value
            for value in (
                double,
                texts[2 * i],
                texts[2 * i + 1],
                bool(rng.integers(2)),
                int(rng.integers(-(2**62), 2**62)),
            )
        )
        for i, double in enumerate(doubles)
    ]
    with psycopg.connect(admin, autocommit=True) as database:
        database.execute("CREATE TABLE mixed (n INT, x FLOAT8, a TEXT, b VARCHAR, c BOOL, big BIGINT, day DATE)")
        database.execute("GRANT SELECT ON mixed TO reader")
        with database.cursor().copy("COPY mixed (n, x, a, b, c, big) FROM STDIN") as copy:
            for i, row in enumerate(rows):
                copy.write_row((i, *row))
        database.execute("UPDATE mixed SET day = DATE '0001-01-01' + n * 3000 WHERE n % 7 > 0")
        days = database.execute("SELECT (day - DATE '1970-01-01') FROM mixed ORDER BY n").fetchall()
    monkeypatch.setattr(postgres_table, "CHUNK_BYTES", 5000)
    table = source(table="mixed", order_by=("n",))
    found = read(table, ("x", "big"), ("a", "c", "b", "day"))
    assert list(map(repr, found["x"])) == [repr(row[0]) for row in rows]
    assert found["big"] == [None if row[4] is None else float(row[4]) for row in rows]
    assert list(zip(found["a"], found["b"], found["c"], strict=True)) == [row[1:4] for row in rows]
    assert pl.Series(found["day"], dtype=pl.Date).cast(pl.Int32).to_list() == [day for (day,) in days]
    assert read(table, (), ("a",))["a"] == [row[1] for row in rows]  # alone: a gap is a line with nothing in it


def test_a_query_derives_columns_and_may_end_as_it_likes(source):
    for end in (";", " -- the youngest", ""):
        assert read(source(query=f"SELECT age * 2 AS twice FROM odd WHERE age < 3{end}"), ("twice",)) == {
            "twice": [2.0]
        }


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"query": "INSERT INTO people VALUES ('q') RETURNING x0 AS age"}, "not a single SELECT"),
        ({"query": "WITH w AS (DELETE FROM people RETURNING 1 AS age) SELECT * FROM w"}, "writes"),
        ({"query": "SELECT nextval('counter') AS age"}, "its query writes"),
        ({"query": "SELECT 1 AS age; DROP TABLE people"}, "not a single SELECT"),
        ({"query": "SELECT years AS age FROM odd"}, "a column that the database does not have"),
        ({"query": "SELECT x0 FROM people"}, "column 'age' is missing"),
        ({"query": "SELECT note AS age FROM odd"}, "column 'age' is not numeric"),
        ({"query": "SELECT 1 AS age, 2 AS age"}, "column 'age' appears more than once"),
        ({"query": "SELECT 1 / 0 AS age"}, "refuses (22012)"),
        ({"query": "SELECT 1 / (5000 - i) AS age FROM generate_series(1, 9999) AS i"}, "refuses (22012)"),  # amid rows
        ({"query": "SELECT 1 AS age FROM pg_sleep(300)", "timeout_s": 1}, "longer than timeout_s"),
        ({"query": "SELECT i AS age, pg_sleep(0.001) FROM generate_series(1, 99999) AS i", "timeout_s": 1}, "longer"),
        ({"table": "nowhere"}, "no such table"),
        ({"table": "hidden"}, "not read it"),
        ({"table": "odd", "password_file": None}, "does not answer"),
        ({"table": "odd", "password_file": None, "password_variable": "MOIETY_TEST_WRONG"}, "refuses the user or the"),
        ({"table": "odd", "password_file": None, "password_variable": "MOIETY_TEST_NONE"}, "variable of its password"),
        ({"table": "odd", "url": f"postgresql://x:{PASSWORD}@127.0.0.1:9/postgres"}, "does not answer"),
        ({"table": "odd", "url": f"{PASSWORD} is no URL"}, "does not answer"),
    ],
)
def test_what_goes_wrong_is_said_in_words_of_our_own(source, monkeypatch, fields, said):
    monkeypatch.setenv("MOIETY_TEST_WRONG", "another word")
    assert said in refusal(source(**fields))


def test_the_password_comes_from_a_file_or_the_environment(source, monkeypatch, tmp_path):
    monkeypatch.setenv("MOIETY_TEST_RIGHT", PASSWORD)
    assert source(table="odd", password_file=None, password_variable="MOIETY_TEST_RIGHT").is_there()
    assert "missing or unreadable" in refusal(source(table="odd", password_file=tmp_path / "absent"))


def test_a_database_that_goes_away_in_the_middle_is_no_shorter_table(source, admin, monkeypatch):
    import psycopg

    killed = threading.Event()
    plain = binary_copy._frame

    def kill_then_read(*args, **options):
        if not killed.is_set():
            with psycopg.connect(admin, autocommit=True) as database:
                database.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'reader'")
            killed.set()
        return plain(*args, **options)

    monkeypatch.setattr(postgres_table, "CHUNK_BYTES", 1 << 16)
    monkeypatch.setattr(binary_copy, "_frame", kill_then_read)
    many = source(query="SELECT i AS age FROM generate_series(1, 5000000) AS i")
    assert "went away while it was read" in refusal(many)
    assert killed.is_set()


def test_what_others_write_meanwhile_is_not_half_read(source, admin, monkeypatch):
    import psycopg

    def write():
        with psycopg.connect(admin, autocommit=True) as database:
            database.execute("INSERT INTO people VALUES ('late', 0, 0)")

    types = PostgresTable._types

    def write_after(self, cursor, wanted):
        found = types(self, cursor, wanted)  # the transaction has begun, and seen its one state
        write()
        return found

    monkeypatch.setattr(PostgresTable, "_types", write_after)
    try:
        assert len(read(source(table="people"), ("x0",))["x0"]) == N_ROWS
    finally:
        with psycopg.connect(admin, autocommit=True) as database:
            database.execute("DELETE FROM people WHERE id = 'late'")


PARTIES = ("alpha", "beta", "gamma")


def section(**fields):
    lines = [f"{name} = {json.dumps(value)}" for name, value in {**fields, "order_by": ["id"]}.items()]
    return "\n[tables.source]\n" + "\n".join(lines) + "\n"


def test_a_job_reads_tables_from_a_database_a_duckdb_file_and_a_lake(url, folder, source, admin, tmp_path):
    import duckdb
    import psycopg

    source(table="people")  # writes the file of the password
    values = {name: random_values((N_ROWS, 2), seed) for seed, name in enumerate(PARTIES, start=1)}
    tables = tables_of(values, tmp_path)
    ids = [f"row-{i:03}" for i in range(N_ROWS)]
    frames = {n: pl.read_csv(tables[n][0].path).with_columns(id=pl.Series(ids)).reverse() for n in PARTIES[1:]}
    with duckdb.connect(str(tmp_path / "beta.duckdb")) as database:
        database.execute("CREATE TABLE people (id VARCHAR, x0 DOUBLE, x1 DOUBLE)")
        database.executemany("INSERT INTO people VALUES (?, ?, ?)", frames["beta"].rows())
    frames["gamma"].write_delta(str(tmp_path / "gamma lake"))
    sections = {
        "alpha": section(kind="postgres", url=url, password_file=str(folder / "password"), table="people"),
        "beta": section(kind="duckdb", path=str(tmp_path / "beta.duckdb"), table="people"),
        "gamma": section(kind="delta", path=str(tmp_path / "gamma lake")),
    }
    for name, [file] in tables.items():
        tables[name] = [LocalTable("people", None, file.bounds, file.rows, "id", sections=sections[name])]
    (tmp_path / "run").mkdir()
    with ForkedDeployment(tmp_path / "run", tables, budget=(1e6, 1e-6)) as running:
        analyst, config = Analyst(running), str(running.config_path("alpha"))
        view = analyst.run(pca_job(PARTIES, privacy={"epsilon": 5000.0, "delta": 1e-6}))
        assert view.state == "DONE", view.reason
        joint = np.hstack([values[name] for name in PARTIES])
        assert np.allclose(json.loads(view.result_json)["mean"], joint.mean(axis=0), atol=0.05)
        before = budget_of(config)
        assert before["spent_epsilon"] > 0
        with psycopg.connect(admin, autocommit=True) as database:
            database.execute("REVOKE SELECT ON people FROM reader")
        try:
            view = analyst.run(pca_job(PARTIES))
            told = run_command("doctor", "--config", config).stdout
        finally:
            with psycopg.connect(admin, autocommit=True) as database:
                database.execute("GRANT SELECT ON people TO reader")
        assert view.state == "FAILED"
        assert "table 'people' of party 'alpha' cannot be used" in view.reason
        assert "database" not in view.reason
        assert "its database lets this user not read it" in all_text(running)
        assert "its database lets this user not read it" in told
        assert budget_of(config)["spent_epsilon"] == before["spent_epsilon"]
        assert PASSWORD not in all_text(running) + told


def budget_of(config):
    return json.loads(run_command("budget", "show", "--config", config, "--format", "json").stdout)["budgets"][0]
