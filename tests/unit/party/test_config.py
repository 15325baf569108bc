from pathlib import Path

import pytest
from pydantic import ValidationError

from ledger.budget import Budget
from party.config import PartyConfig, load_party_config
from service.settings import SettingsError

PARTY_TOML = """
name = "north"
federation = "clinics"
data_dir = "north-data"

[tls]
authority = "ca.pem"
certificate = "north.pem"
key = "/etc/moiety/north.key"

[coordinator]
name = "coordinator"
address = "127.0.0.1:7100"

[peers]
south = "south.example.org:7101"
west = "[::1]:7103"

[[tables]]
name = "visits"
path = "visits.csv"
id_column = "patient"

[tables.bounds]
age = [0, 120]
"length of stay" = [0.0, 30.5]
"""


@pytest.fixture
def party_toml(tmp_path: Path) -> Path:
    path = tmp_path / "party.toml"
    path.write_text(PARTY_TOML)
    return path


def load(path: Path, overrides: dict[str, object] | None = None, **environ: str) -> PartyConfig:
    return load_party_config(path, overrides, environ=environ)


def test_reads_every_section_of_the_file(party_toml: Path) -> None:
    config = load(party_toml)
    assert (config.name, config.federation, config.coordinator.name) == ("north", "clinics", "coordinator")
    assert config.peers == {"south": "south.example.org:7101", "west": "[::1]:7103"}
    (table,) = config.tables
    assert (table.name, table.id_column) == ("visits", "patient")
    assert list(table.bounds) == ["age", "length of stay"]
    assert {column.name: column.upper for column in table.encoded}["length of stay"] == 30.5


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("[::1]:7103", "south.example.org:7101", "'south' and 'west' have the same address south.example.org:7101"),
        ("[::1]:7103", "127.0.0.1:7101", "'west' and 'north' have the same address 127.0.0.1:7101"),
        ("[::1]:7103", "127.0.0.1:7100", "'west' and 'coordinator' have the same address 127.0.0.1:7100"),
    ],
)
def test_two_services_at_one_address_are_refused(party_toml: Path, before: str, after: str, words: str) -> None:
    party_toml.write_text(PARTY_TOML.replace(before, after))
    with pytest.raises(SettingsError, match=words):
        load(party_toml)


WORKERS = 'kind = "processes", tls = { authority = "a", certificate = "b", key = "c" }'
RELAYS = '[[relays]]\nname = "hub"\nrole = "coordinator"\naddress = "127.0.0.1:7104"\n\n[peers]\n'


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ('"south.example.org:7101"', '"relay"', "peers|'south' is reached by a relay, and no relay is named"),
        ("data_dir =", 'reach = "dial-out"\ndata_dir =', "needs a relay: name one under"),
        ('"south.example.org:7101"', '"relais"', "an address is host:port"),
    ],
)
def test_a_member_behind_a_relay_needs_one(party_toml: Path, before: str, after: str, words: str) -> None:
    party_toml.write_text(PARTY_TOML.replace(before, after))
    with pytest.raises(SettingsError, match=words):
        load(party_toml)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ('listen = "0.0.0.0:7101"', "listens on loopback"),
        (f'engine = {{ {WORKERS}, host = "10.0.0.1" }}', "workers of a party that only dials out are reached by"),
    ],
)
def test_a_party_that_only_dials_out_listens_for_itself_alone(party_toml: Path, more: str, words: str) -> None:
    text = PARTY_TOML.replace("[peers]\n", RELAYS).replace("data_dir =", 'reach = "dial-out"\ndata_dir =')
    party_toml.write_text(text)
    assert [str(relay) for relay in load(party_toml).stays_at] == ["relay hub at 127.0.0.1:7104"]
    party_toml.write_text(text.replace("data_dir =", f"{more}\ndata_dir ="))
    with pytest.raises(SettingsError, match=words):
        load(party_toml)


def test_a_peer_behind_a_relay_is_dialled_by_the_relays_in_their_order(party_toml: Path) -> None:
    text = PARTY_TOML.replace("[peers]\n", RELAYS).replace('"south.example.org:7101"', '"relay"')
    party_toml.write_text(text)
    ways = {identity.name: str(way) for identity, (way,) in load(party_toml).dials.items()}
    assert ways["south"] == "by relay hub at 127.0.0.1:7104"
    assert ways["west"] == "[::1]:7103"


def test_what_the_file_leaves_out_has_cautious_defaults(party_toml: Path) -> None:
    config = load(party_toml)
    assert (config.listen, config.blas_threads, config.log_format) == ("127.0.0.1:7101", 1, "console")


def test_relative_paths_start_at_the_folder_of_the_file(party_toml: Path, tmp_path: Path) -> None:
    config = load(party_toml)
    assert config.data_dir == tmp_path / "north-data"
    assert config.tls.authority == tmp_path / "ca.pem"
    assert config.tls.key == Path("/etc/moiety/north.key")
    assert config.tables[0].path == tmp_path / "visits.csv"


def test_the_environment_overrides_the_file_in_every_section(party_toml: Path, tmp_path: Path) -> None:
    config = load(
        party_toml,
        MOIETY_PARTY__LISTEN="0.0.0.0:9000",
        MOIETY_PARTY__BLAS_THREADS="4",
        MOIETY_PARTY__TLS__AUTHORITY="other.pem",
        MOIETY_PARTY__PEERS__WEST="127.0.0.1:1",
        UNRELATED="x",
    )
    assert (config.listen, config.blas_threads, config.tls.authority) == ("0.0.0.0:9000", 4, tmp_path / "other.pem")
    assert config.peers == {"south": "south.example.org:7101", "west": "127.0.0.1:1"}


def test_flags_override_the_environment_and_absent_flags_do_not(party_toml: Path) -> None:
    config = load(
        party_toml,
        {"listen": "127.0.0.1:1", "tls.key": Path("/k.pem"), "log_format": None},
        MOIETY_PARTY__LISTEN="127.0.0.1:2",
        MOIETY_PARTY__LOG_FORMAT="json",
    )
    assert (config.listen, config.tls.key, config.log_format) == ("127.0.0.1:1", Path("/k.pem"), "json")


def test_a_party_that_only_computes_has_no_tables(party_toml: Path) -> None:
    party_toml.write_text(PARTY_TOML.split("[[tables]]")[0])
    assert load(party_toml).tables == ()


def test_the_configuration_cannot_be_changed_after_it_was_read(party_toml: Path) -> None:
    with pytest.raises(ValidationError, match="frozen"):
        load(party_toml).listen = "0.0.0.0:1"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("written", "instead", "complaint"),
    [
        ('name = "north"\n', 'name = "North!"\n', "name: .*got 'North!'"),
        ('federation = "clinics"\n', "", "federation: missing"),
        ('data_dir = "north-data"\n', 'data_dir = "north-data"\nlisten = "everywhere"\n', "listen: .*got 'everywhere'"),
        ('data_dir = "north-data"\n', 'data_dir = "d"\nblas_threads = 0\n', "blas_threads: .*got 0"),
        ('data_dir = "north-data"\n', 'data_dir = "d"\nlog_format = "xml"\n', "log_format: .*got 'xml'"),
        ('data_dir = "north-data"\n', 'data_dir = "d"\nthreads = 4\n', "threads: there is no such field"),
        ('west = "[::1]:7103"', 'west = "[::1]"', r"peers.west: .*got '\[::1\]'"),
        ('south = "south', 'north = "south', "peers: 'north' is this party itself"),
        ("age = [0, 120]", "age = [120, 0]", "column 'age': lower bound 120.0 is not below upper bound 0.0"),
        ("age = [0, 120]", "age = [0, inf]", "tables.0.bounds.age.1: must be a finite number, got inf"),
        ("age = [0, 120]", "age = [0]", "tables.0.bounds.age.1: missing"),
        ("age = [0, 120]", 'age = [0, "old"]', "tables.0.bounds.age.1: .*got 'old'"),
        ("age = [0, 120]", "patient = [0, 120]", "column 'patient' is the id column, so it must not have bounds"),
        ('age = [0, 120]\n"length of stay" = [0.0, 30.5]\n', "", "bounds, columns: at least one column is needed"),
        ("[tables.bounds]", 'on_request = ["sex"]\n[tables.bounds]', "on_request: column 'sex' has no bounds"),
        (
            "[[tables]]",
            '[[tables]]\nname = "visits"\npath = "v.csv"\nbounds.age = [0, 1]\n[[tables]]',
            "tables: 'visits' appears more than once",
        ),
        ("[peers]", "[peers", "not valid TOML"),
    ],
)
def test_a_wrong_field_is_named_with_the_file_and_its_value(
    party_toml: Path, written: str, instead: str, complaint: str
) -> None:
    assert written in PARTY_TOML
    party_toml.write_text(PARTY_TOML.replace(written, instead, 1))
    with pytest.raises(SettingsError, match=rf"party\.toml: .*{complaint}"):
        load(party_toml)


def test_a_wrong_value_of_the_environment_is_refused(party_toml: Path) -> None:
    with pytest.raises(SettingsError, match=r"blas_threads: .*got 'many'"):
        load(party_toml, MOIETY_PARTY__BLAS_THREADS="many")


def test_a_misspelt_environment_variable_is_refused(party_toml: Path) -> None:
    with pytest.raises(SettingsError, match="lissen: there is no such field"):
        load(party_toml, MOIETY_PARTY__LISSEN="0.0.0.0:1")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"absent\.toml: there is no such file"):
        load(tmp_path / "absent.toml")


def test_a_first_budget_whose_delta_no_job_could_have_is_refused(party_toml: Path) -> None:
    text = PARTY_TOML.replace("[tables.bounds]", "rows = [10, 1000]\n\n[tables.bounds]")
    assert "rows" in text
    party_toml.write_text(text + BUDGET.replace("1e-6", "0.001"))
    with pytest.raises(
        SettingsError, match=r"first_budget.delta: must be below 1 / 1000, because the table may have 1000 rows"
    ):
        load(party_toml)


def test_the_example_can_be_read() -> None:
    config = load(Path(__file__).parents[3] / "examples" / "party.toml")
    assert config.name == "host"
    assert "logged_in" in config.tables[0].bounds


BUDGET = """
[tables.first_budget]
period = "2026"
epsilon = 4
delta = 1e-6
"""


def test_without_sections_the_owner_is_asked_about_every_job_and_no_table_has_a_budget(party_toml: Path) -> None:
    config = load(party_toml)
    assert config.policy.automatic is None
    assert config.tables[0].first_budget is None


def test_a_first_budget_is_read(party_toml: Path) -> None:
    party_toml.write_text(PARTY_TOML + BUDGET)
    first = load(party_toml).tables[0].first_budget
    assert first is not None
    assert first.as_budget() == Budget("record of the joint table", "2026", 4.0, 1e-6)


def test_the_ledger_lies_in_the_data_folder_unless_told_otherwise(party_toml: Path, tmp_path: Path) -> None:
    config = load(party_toml)
    assert config.ledger_path == tmp_path / "north-data" / "ledger.sqlite"
    assert config.counter_path == tmp_path / "north-data" / "ledger.counter"
    config = load(party_toml, MOIETY_PARTY__LEDGER__COUNTER="/mnt/other/counter", MOIETY_PARTY__LEDGER__PATH="l.db")
    assert (config.ledger_path, config.counter_path) == (tmp_path / "l.db", Path("/mnt/other/counter"))


def test_the_password_of_a_ledgers_database_is_not_shown(party_toml: Path) -> None:
    config = load(party_toml, MOIETY_PARTY__LEDGER__URL="postgresql://north:hunter2@db/ledger")
    assert config.ledger.url is not None
    assert config.ledger.url.get_secret_value().endswith("hunter2@db/ledger")
    assert "hunter2" not in repr(config)


@pytest.mark.parametrize(
    ("section", "complaint"),
    [
        (BUDGET.replace("= 4", "= -4"), "first_budget: epsilon: must be positive"),
        (
            BUDGET + 'unit = "people"\n',
            "first_budget.unit: 'people' is not a unit of a budget; the units are 'record of",
        ),
        (BUDGET.replace("= 4", "= nan"), "first_budget: epsilon: must be finite"),
        (BUDGET.replace("= 4", "= inf"), "first_budget: epsilon: must be finite"),
        (BUDGET.replace("= 4", "= 1e-310"), "not a subnormal number"),
        (BUDGET.replace("= 4", '= "4"'), "first_budget.epsilon: must be a number"),
        (BUDGET.replace("= 4", "= true"), "first_budget.epsilon: must be a number"),
        (BUDGET.replace("1e-6", "1.0"), "delta: must be below 1"),
        (BUDGET.replace('period = "2026"', ""), "first_budget.period: missing"),
        ('[ledger]\npath = "l"\nurl = "postgresql://x/y"\n', "path, url: give at most one of them"),
        ('[policy.limits]\nanalysts = ["a"]\n[policy.automatic]\nanalysts = ["b"]\nmax_epsilon_per_job = 1\n', "'b'"),
        ('[policy.limits.columns]\nstays = ["age"]\n', "there is no table 'stays'"),
    ],
)
def test_a_wrong_budget_ledger_or_policy_keeps_the_service_from_starting(
    party_toml: Path, section: str, complaint: str
) -> None:
    party_toml.write_text(PARTY_TOML + section)
    with pytest.raises(SettingsError, match=rf"party\.toml: .*{complaint}"):
        load(party_toml)


@pytest.mark.parametrize("name", ["carrier", "host", "monitor"])
def test_the_configurations_of_the_containers_have_a_policy_and_a_budget(name: str) -> None:
    config = load(Path(__file__).parents[3] / "deploy" / "compose" / f"{name}.toml")
    assert config.policy.automatic is not None
    assert config.tables[0].first_budget is not None


PERSONS = 'person_column = "insured"\nmost_rows_per_person = 3\n'


def with_persons(text: str) -> str:
    return PARTY_TOML.replace('id_column = "patient"\n', 'id_column = "patient"\n' + text)


def test_a_table_says_whose_its_rows_are_and_how_many_count(party_toml: Path) -> None:
    party_toml.write_text(with_persons(PERSONS))
    (table,) = load(party_toml).tables
    assert (table.person_column, table.most_rows_per_person) == ("insured", 3)
    assert table.key_columns == ("patient", "insured")
    party_toml.write_text(with_persons(PERSONS.replace("insured", "patient")))
    assert load(party_toml).tables[0].key_columns == ("patient",)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('person_column = "insured"\n', "person_column, most_rows_per_person: give both or neither"),
        ("most_rows_per_person = 3\n", "person_column, most_rows_per_person: give both or neither"),
        (PERSONS.replace("3", "0"), "most_rows_per_person"),
        (PERSONS.replace("3", "65537"), "most_rows_per_person"),
        (PERSONS.replace("insured", "age"), "column 'age' is the person column, so it must not have bounds"),
    ],
)
def test_persons_that_cannot_be_protected_are_refused_by_name(party_toml: Path, text: str, what: str) -> None:
    party_toml.write_text(with_persons(text))
    with pytest.raises(SettingsError, match=what):
        load(party_toml)


def test_a_party_takes_part_in_batches_where_its_owner_says_so(party_toml: Path) -> None:
    assert load(party_toml).batches is None
    party_toml.write_text(PARTY_TOML + "\n[batches]\n")
    rules = load(party_toml).batches
    assert rules is not None
    assert (rules.smallest_cohort, rules.exact_sums) == (10, False)
    party_toml.write_text(PARTY_TOML + "\n[batches]\nsmallest_cohort = 1\n")
    with pytest.raises(SettingsError, match=r"batches\.smallest_cohort"):
        load(party_toml)
