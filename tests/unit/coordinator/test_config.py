from pathlib import Path

import pytest

from coordinator.config import CoordinatorConfig
from service.identity import Identity, Role
from service.settings import SettingsError

TEXT = """
name = "coordinator"
federation = "hospitals"
listen = "0.0.0.0:7400"
store = "jobs.sqlite"

[tls]
authority = "ca.pem"
certificate = "coordinator.pem"
key = "coordinator.key"

[[parties]]
name = "north"
address = "north:7401"

[[parties]]
name = "south"
address = "south:7401"

[analysts]
allowed = ["ada"]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "coordinator.toml"
    path.write_text(TEXT)
    return path


def refusal(file: Path) -> str:
    with pytest.raises(SettingsError) as caught:
        CoordinatorConfig.load(file)
    return str(caught.value)


def test_a_minimal_file_is_read_with_defaults(file: Path) -> None:
    config = CoordinatorConfig.load(file)
    assert config.roster == {"north": "north:7401", "south": "south:7401"}
    assert config.store == file.parent / "jobs.sqlite"
    assert config.tls.key == file.parent / "coordinator.key"
    assert (config.max_running_jobs, config.blas_threads, config.log_format) == (2, 1, "console")
    assert config.analysts.allowed == ("ada",)


def test_the_environment_overrides(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOIETY_COORDINATOR__MAX_RUNNING_JOBS", "5")
    monkeypatch.setenv("MOIETY_COORDINATOR__ANALYSTS__ALLOWED", '["grace"]')
    config = CoordinatorConfig.load(file)
    assert (config.max_running_jobs, config.analysts.allowed) == (5, ("grace",))


def test_two_parties_at_one_address_are_refused(file: Path) -> None:
    file.write_text(TEXT.replace("south:7401", "north:7401"))
    assert "'north' and 'south' have the same address north:7401; each has its own" in refusal(file)


def test_a_party_at_the_coordinators_own_address_is_refused(file: Path) -> None:
    file.write_text(TEXT.replace("south:7401", "0.0.0.0:7400"))
    assert "'south' and 'coordinator' have the same address 0.0.0.0:7400" in refusal(file)


def test_a_list_of_analysts_that_is_empty_is_refused(file: Path) -> None:
    file.write_text(TEXT.replace('allowed = ["ada"]', "allowed = []"))
    assert "analysts: allowed: name at least one analyst: an empty list would let nobody submit jobs" in refusal(file)


def test_a_party_named_twice_is_refused(file: Path) -> None:
    file.write_text(TEXT.replace('name = "south"', 'name = "north"'))
    assert "parties: 'north' appears more than once" in refusal(file)


@pytest.mark.parametrize(
    ("field", "line"),
    [
        ("name", 'name = "The Coordinator"'),
        ("blas_threads", "blas_threads = 0"),
        ("max_running_jobs", "max_running_jobs = 0"),
        ("log_format", 'log_format = "xml"'),
        ("listen", 'listen = "7400"'),
        ("max_running", "max_running = 3"),
    ],
)
def test_a_wrong_field_is_named(file: Path, field: str, line: str) -> None:
    kept = [before for before in TEXT.splitlines() if not before.startswith(line.split(" = ")[0] + " ")]
    file.write_text("\n".join([line, *kept] if field != "name" else [line, *TEXT.splitlines()[2:]]))
    assert refusal(file).startswith(f"{file}: {field}: ")


def test_an_empty_roster_is_refused(file: Path) -> None:
    head, rest = TEXT.split("[[parties]]", 1)
    file.write_text("parties = []\n" + head + "[analysts]" + rest.split("[analysts]")[1])
    assert refusal(file).startswith(f"{file}: parties, sum_members, survey_store: ")


MEMBERS = """
[[sum_members]]
name = "ann"
identity = "{}"

[[sum_members]]
name = "north"
role = "party"
identity = "{}"
""".format("0a" * 32, "0b" * 32)


def test_members_of_sums_are_devices_unless_the_file_says_parties(file: Path) -> None:
    file.write_text(TEXT + MEMBERS)
    assert CoordinatorConfig.load(file).sum_identities == {
        Identity("hospitals", Role.DEVICE, "ann"): b"\n" * 32,
        Identity("hospitals", Role.PARTY, "north"): b"\x0b" * 32,
    }


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ('role = "party"', 'role = "analyst"', "sum_members.1.role: must be 'device' or 'party'"),
        ('name = "north"\nrole', 'name = "ann"\nrole', "sum_members: 'ann' appears more than once"),
    ],
)
def test_a_member_of_another_role_and_a_name_of_two_roles_are_refused(
    file: Path, before: str, after: str, words: str
) -> None:
    file.write_text(TEXT + MEMBERS.replace(before, after))
    assert words in refusal(file)


def test_a_coordinator_for_surveys_alone_needs_neither_parties_nor_members_of_sums(file):
    head, _, rest = TEXT.partition("[[parties]]")
    analysts = rest[rest.index("[analysts]") :]
    file.write_text(head + analysts)
    assert "parties, sum_members, survey_store: set at least one of them" in refusal(file)
    file.write_text('survey_store = "surveys.sqlite"\n' + head + analysts)
    assert CoordinatorConfig.load(file).roster == {}


def with_store(file: Path, store: str, *more: str) -> Path:
    file.write_text("\n".join([*more, TEXT.replace('store = "jobs.sqlite"', f'store = "{store}"')]))
    return file


def test_a_store_in_postgresql_is_a_secret_and_surveys_keep_a_file_of_their_own(file: Path) -> None:
    url = "postgresql://moiety:hunter2@db.example/jobs"
    config = CoordinatorConfig.load(with_store(file, url, 'survey_store = "surveys.sqlite"', "lease_s = 20"))
    assert config.database is not None
    assert config.database.url.get_secret_value() == url
    assert config.database.patience_s == 20.0
    assert config.survey_path == file.parent / "surveys.sqlite"
    assert config.batch_path == file.parent / "surveys.batches.sqlite"
    assert "hunter2" not in repr(config)
    assert config.shown_instance


def test_surveys_and_batches_lie_with_the_jobs_where_no_file_is_named(file: Path) -> None:
    config = CoordinatorConfig.load(with_store(file, "postgresql://moiety@db.example/jobs"))
    assert (config.survey_path, config.batch_path) == (None, None)
    config = CoordinatorConfig.load(with_store(file, "postgresql://moiety@db.example/jobs", 'batch_store = "b.sqlite"'))
    assert (config.survey_path, config.batch_path) == (None, file.parent / "b.sqlite")


def test_a_store_in_a_file_has_no_database(file: Path) -> None:
    assert CoordinatorConfig.load(file).database is None


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (
            ('survey_store = "s"', 'store_password_file = "a"', 'store_password_variable = "B"'),
            "give at most one of them",
        ),
        (('survey_store = "s"', "lease_s = 0.5"), "lease_s: must be at least 1"),
    ],
)
def test_a_store_in_postgresql_that_is_half_configured_is_refused(
    file: Path, more: tuple[str, ...], words: str
) -> None:
    text = refusal(with_store(file, "postgresql://moiety:hunter2@db.example/jobs", *more))
    assert words in text
    assert "hunter2" not in text


def test_a_file_has_no_password(file: Path) -> None:
    assert "only a store in PostgreSQL" in refusal(with_store(file, "jobs.sqlite", 'store_password_variable = "A"'))
