import asyncio
import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest
import structlog
from deadlines import GENEROUS_S
from doctor_peers import authority_of, now, write_pair
from typer.testing import CliRunner

from analyses.job.job import JobInput
from cli.doctor.member import role_of
from cli.main import app
from device.config import DeviceConfig, write_identity_key
from device.running import run_device
from entropy import SystemEntropy
from party.config import load_party_config
from party.tables.table import UnusableTableError, load_table
from service.identity import Role
from service.pki import issue
from service.reach.check import Check, Outcome, failed
from service.signing_request import read_request

EXAMPLES = Path(__file__).parents[4] / "examples"
REPOSITORY = EXAMPLES.parent
NUMERIC = ("numpy", "scipy", "polars", "numba", "dp_accounting")


@pytest.fixture
def device(acme, whole) -> Path:
    """A device of the federation: its folder, with a record of three numbers."""
    folder = acme / "ann"
    (folder / "pki").mkdir(parents=True)
    (folder / "data").mkdir(mode=0o700)
    write_pair(
        issue(authority_of(acme), Role.DEVICE, "ann", days=90, now=now()),
        folder / "pki" / "ann.pem",
        folder / "pki" / "ann.key",
    )
    (folder / "pki" / "ca.pem").write_bytes((acme / "authority" / "ca.pem").read_bytes())
    public = write_identity_key(folder / "ann.identity", SystemEntropy()).hex()
    (folder / "roster.toml").write_text(
        f'[[members]]\nname = "ann"\nidentity = "{public}"\n[[members]]\nname = "ben"\nidentity = "{"22" * 32}"\n'
    )
    (folder / "steps.json").write_text('{"values": [1, 2, 3]}')
    (folder / "device.toml").write_text(
        'name = "ann"\nfederation = "acme"\ndata_dir = "data"\nidentity_file = "ann.identity"\nroster = "roster.toml"\n'
        f'coordinator = {{ name = "coordinator", address = "127.0.0.1:{whole.ports["coordinator"]}" }}\n'
        'tls = { authority = "pki/ca.pem", certificate = "pki/ann.pem", key = "pki/ann.key" }\n'
        '[[records]]\nname = "steps"\npath = "steps.json"\nlength = 3\n'
    )
    return folder


@pytest.mark.parametrize(
    ("file", "warned"),
    [("bank/party.toml", ["counter"]), ("coordinator/coordinator.toml", []), ("analyst/client.toml", [])],
)
def test_where_nothing_is_wrong_nothing_is_said_to_be(acme, doctor, file, warned):
    code, checks = doctor(acme / file)
    assert [name for name, check in checks.items() if check["outcome"] != "ok"] == warned
    assert code == 0
    assert sum(name.startswith("reach") for name in checks) == (1 if "client" in file else 3)


def test_a_device_is_checked_with_its_signing_key_roster_and_records(device, doctor):
    code, checks = doctor(device / "device.toml")
    assert {name: check["found"] for name, check in checks.items() if check["outcome"] != "ok"} == {}
    assert code == 0
    assert {"signing key", "roster", "record steps", "ledger", "reach coordinator"} <= set(checks)


@pytest.mark.real_time
async def test_a_device_that_starts_warns_of_a_certificate_with_few_days_left(acme, device):
    pki = device / "pki"
    write_pair(issue(authority_of(acme), Role.DEVICE, "ann", days=12, now=now()), pki / "ann.pem", pki / "ann.key")
    with structlog.testing.capture_logs() as logs:
        running = asyncio.create_task(run_device(DeviceConfig.load(device / "device.toml")))
        try:
            async with asyncio.timeout(GENEROUS_S):
                while "the certificate expires in 11 days: renew it" not in [line["event"] for line in logs]:
                    assert not running.done(), running
                    await asyncio.sleep(0.01)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


def test_faults_that_only_a_device_has_are_found(device, doctor):
    (device / "ann.identity").chmod(0o640)
    (device / "steps.json").write_text('{"values": [1, 2]}')
    code, checks = doctor(device / "device.toml")
    assert code == 1
    assert "chmod 600" in checks["signing key"]["fix"]
    assert "would count as zeros" in checks["record steps"]["found"]
    (device / "ann.identity").chmod(0o600)
    roster = device / "roster.toml"
    roster.write_text(roster.read_text().replace('"ann"', '"eve"'))
    _, checks = doctor(device / "device.toml")
    assert "does not list ann" in checks["roster"]["found"]
    assert "Agree with the other members" in checks["roster"]["fix"]


def test_an_own_certificate_that_has_expired_is_refused_by_real_services_and_that_is_said(acme, doctor):
    pki = acme / "bank" / "pki"
    write_pair(issue(authority_of(acme), Role.PARTY, "bank", days=1, now=now(-9)), pki / "bank.pem", pki / "bank.key")
    _, checks = doctor(acme / "bank" / "party.toml")
    assert "clinic at" in checks["reach clinic"]["found"]
    assert "refuses our certificate" in checks["reach clinic"]["found"]


def test_ids_and_values_of_a_table_are_told_with_their_lines_also_after_a_quoted_line_break(acme, doctor):
    path = acme / "bank" / "people.csv"
    lines = path.read_text().splitlines()
    lines[1], lines[3] = '"person\n-001",1,2', "person-003,many,2"
    path.write_text("\n".join(lines) + "\n")
    _, checks = doctor(acme / "bank" / "party.toml")
    assert "line 5, visits: 'many'" in checks["values of people"]["found"]


def test_of_a_parquet_file_rows_are_told(acme, doctor):
    bank = acme / "bank"
    frame = pl.read_csv(bank / "people.csv")
    (bank / "party.toml").write_text((bank / "party.toml").read_text().replace('"people.csv"', '"people.parquet"'))
    frame.write_parquet(bank / "people.parquet")
    code, checks = doctor(bank / "party.toml")
    assert code == 0, checks
    visits = [None, float("nan"), 99.0, *frame["visits"][3:]]
    ids = ["person-002", *frame["id"][1:]]
    frame.with_columns(visits=pl.Series(visits), id=pl.Series(ids)).write_parquet(bank / "people.parquet")
    _, checks = doctor(bank / "party.toml")
    assert "row 2, id: 'person-002'" in checks["ids of people"]["found"]
    assert "row 2, visits: 'nan'" in checks["values of people"]["found"]
    frame.with_columns(visits=pl.Series([21.0, *frame["visits"][1:]])).write_parquet(bank / "people.parquet")
    code, checks = doctor(bank / "party.toml")
    assert code == 0
    assert "row 1, visits: 21" in checks["values of people"]["found"]


def test_of_many_faults_five_are_told_and_the_others_counted_and_none_changes_the_terminal(acme, doctor):
    path = acme / "bank" / "people.csv"
    lines = path.read_text().splitlines()
    lines[1:9] = [f"person-{number},\x1b[2J,1" for number in range(8)]
    path.write_text("\n".join(lines) + "\n")
    _, checks = doctor(acme / "bank" / "party.toml")
    found = checks["values of people"]["found"]
    assert found.count("line") == 5
    assert found.endswith("and 3 more")
    assert "\x1b" not in found


def test_bytes_that_are_not_utf_8_keep_jobs_from_a_table_also_in_a_column_without_bounds(acme, doctor):
    path = acme / "bank" / "people.csv"
    lines = path.read_bytes().splitlines()
    lines = [b"id,name,visits,amount", *(line.replace(b",", b",Zo\xeb,", 1) for line in lines[1:])]
    path.write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(UnusableTableError):
        load_table(load_party_config(acme / "bank" / "party.toml"), JobInput(party="bank", table="people"))
    _, checks = doctor(acme / "bank" / "party.toml")
    assert "line 2 has bytes that are not UTF-8" in checks["file of people"]["found"]


def command(*arguments: object) -> None:
    done = CliRunner().invoke(app, [str(one) for one in arguments])
    assert done.exit_code == 0, done.output


def test_a_certificate_is_renewed_as_the_operations_page_says(acme, doctor):
    bank = acme / "bank"
    command("pki", "request", "--federation", "acme", "--member", "party/bank", "--out", bank / "renewed")
    fingerprint = read_request((bank / "renewed" / "bank.csr").read_bytes()).fingerprint
    signed = acme / "certificates"
    sign = ["pki", "sign", bank / "renewed" / "bank.csr", "--ca", acme / "authority", "--out", signed]
    command(*sign, "--fingerprint", fingerprint)
    before = (bank / "pki" / "bank.key").read_bytes()
    (bank / "renewed" / "bank.key").replace(bank / "pki" / "bank.key")
    (signed / "bank.pem").replace(bank / "pki" / "bank.pem")
    assert (bank / "pki" / "bank.key").read_bytes() != before
    code, checks = doctor(bank / "party.toml")
    assert code == 0, checks


def test_a_ledger_is_backed_up_and_restored_as_the_operations_page_says(acme, doctor, tmp_path):
    bank = acme / "bank"
    config = ["--config", bank / "party.toml"]
    budget = ["budget", "set", "people", *config, "--delta", "1e-6", "--period", "first"]
    command(*budget, "--epsilon", "1.0", "--reason", "first")
    path = bank / "data" / "ledger.sqlite"
    with closing(sqlite3.connect(path)) as used, closing(sqlite3.connect(tmp_path / "copy")) as copy:
        used.backup(copy)
    command(*budget, "--epsilon", "2.0", "--reason", "after the copy")
    (tmp_path / "copy").replace(path)
    code, checks = doctor(bank / "party.toml")
    assert code == 1
    assert "restored from an old copy" in checks["ledger"]["found"]
    command("budget", "adopt", *config, "--reason", "the disk failed")
    code, checks = doctor(bank / "party.toml")
    assert code == 0, checks


@pytest.mark.parametrize(("file", "role"), [("party", "party"), ("coordinator", "coordinator"), ("device", "device")])
def test_the_role_is_told_by_the_file(file, role):
    assert role_of(EXAMPLES / f"{file}.toml") is Role(role)


def test_a_role_that_is_given_counts(acme, doctor):
    code, checks = doctor(acme / "bank" / "party.toml", "--role", "coordinator")
    assert code == 2
    assert "there is no such field" in checks["configuration"]["found"]


def test_the_environment_overrides_the_file_as_for_the_service(acme, doctor, monkeypatch):
    monkeypatch.setenv("MOIETY_PARTY__TLS__KEY", "pki/nowhere.key")
    _, checks = doctor(acme / "bank" / "party.toml", "--quick")
    assert "nowhere.key" in checks["key"]["found"]


def test_quick_leaves_out_what_needs_numbers(acme, doctor):
    _, checks = doctor(acme / "bank" / "party.toml", "--quick")
    assert "ledger" not in checks
    assert not [name for name in checks if "people" in name]


def test_forty_columns_show_every_word_and_no_longer_line(acme, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    (acme / "bank" / "pki" / "bank.key").chmod(0o644)
    arguments = ["doctor", "--quick", "--config", str(acme / "bank" / "party.toml"), "--timeout", str(GENEROUS_S)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 1
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 40
    whole = " ".join(done.stdout.split())
    assert "failed key rights: " in whole
    assert "-> Run chmod 600" in whole
    assert lines[-1].strip() == "13 ok, 0 warnings, 1 failed"


@pytest.mark.parametrize("arguments", [("bank/party.toml", "--quick"), ("coordinator/coordinator.toml",)])
def test_no_numeric_library_is_loaded_unless_tables_are_checked(acme, arguments):
    code = (
        "import json, sys\nfrom cli.main import app\n"
        f"try: app(['doctor', '--format', 'json', '--timeout', '{GENEROUS_S}', '--config', *sys.argv[1:]])\n"
        f"except SystemExit: pass\nsys.stderr.write(json.dumps([m for m in {NUMERIC!r} if m in sys.modules]))"
    )
    command = [sys.executable, "-c", code, str(acme / arguments[0]), *arguments[1:]]
    done = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, timeout=GENEROUS_S, check=True)
    assert len(json.loads(done.stdout)["checks"]) > 10
    assert json.loads(done.stderr) == []


def test_a_check_names_a_fix_where_something_is_wrong_and_only_there():
    with pytest.raises(ValueError, match="needs a fix"):
        Check("port", Outcome.WARNING, "it is taken")
    with pytest.raises(ValueError, match="needs a fix"):
        Check("port", Outcome.OK, "it is free", "Rest.")
    assert failed("port", "it is taken", "End it.").as_dict()["outcome"] == "failed"


def with_proxy(path: Path, *lines: str) -> None:
    path.write_text("\n".join([path.read_text(), "[proxy]", *lines, ""]))


def test_a_password_of_the_proxy_that_lies_open_or_is_missing_is_said_and_nobody_is_dialled_without_it(acme, doctor):
    path = acme / "bank" / "party.toml"
    with_proxy(path, 'url = "http://bank@127.0.0.1:9"', 'password_file = "word"')
    _, checks = doctor(path, "--quick")
    assert "cannot be read" in checks["proxies"]["found"]
    (path.parent / "word").write_text("sesame")
    (path.parent / "word").chmod(0o644)
    code, checks = doctor(path, "--quick")
    assert (code, checks["proxies"]["outcome"]) == (1, "failed")
    assert "open to other users" in checks["proxies"]["found"]
    for name in ("coordinator", "clinic", "shop"):
        assert "it was not dialled" in checks[f"reach {name}"]["found"]
    assert "sesame" not in json.dumps(checks)
    (path.parent / "word").chmod(0o600)
    _, checks = doctor(path, "--quick")
    assert checks["proxies"]["outcome"] == "ok"
    assert "our proxy cannot be reached (127.0.0.1:9" in checks["reach clinic"]["found"]


def test_a_password_in_the_url_of_the_proxy_is_refused_and_not_repeated(acme, doctor):
    path = acme / "bank" / "party.toml"
    with_proxy(path, 'url = "http://bank:sesame@127.0.0.1:9"')
    code, checks = doctor(path, "--quick")
    assert code == 2
    assert "password_file" in checks["configuration"]["found"]
    assert "sesame" not in json.dumps(checks)


def test_members_of_the_own_network_are_dialled_directly_and_doctor_says_which(acme, doctor):
    path = acme / "bank" / "party.toml"
    with_proxy(path, 'url = "http://127.0.0.1:9"', 'direct = ["127.0.0.0/8"]')
    code, checks = doctor(path, "--quick")
    assert code == 0, checks
    found = "members are called through the proxy 127.0.0.1:9, and directly where they are on 127.0.0.0/8"
    assert checks["proxies"]["found"] == found
