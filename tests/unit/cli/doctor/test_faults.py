"""Faults planted in a federation in which all else is right, and what `moiety doctor` says of each."""

import contextlib
import re
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography import x509
from deadlines import GENEROUS_S
from doctor_peers import (
    LOOPBACK,
    authority_of,
    black_hole,
    by_tls,
    closed,
    now,
    plain_text,
    serving,
    silent,
    stranger,
    write_pair,
)
from ledgers import budget

from cli.doctor import files
from ledger.ledger import Ledger, open_ledger
from service.identity import Role
from service.pki import issue
from service.trust.revocation import create_list

MEMBERS = {
    "bank": "bank/party.toml",
    "coordinator": "coordinator/coordinator.toml",
    "analyst": "analyst/client.toml",
}
LIST = "revocation list"
NOBODY_S = 1.0
"""Where nobody ever answers, one need not wait for long; other members may then be called silent, too."""


@dataclass
class Place:
    """Where a fault is planted: the copied folders, and what lasts as long as the test."""

    acme: Path
    ports: dict[str, int]
    stack: ExitStack
    monkeypatch: pytest.MonkeyPatch

    @property
    def bank(self) -> Path:
        return self.acme / "bank"

    def edit(self, file: str, old: str, new: str) -> None:
        path = self.acme / file
        text = path.read_text()
        assert old in text, f"{old!r} is not in {file}"
        path.write_text(text.replace(old, new, 1))

    def line(self, number: int, text: str) -> None:
        """Replace a line of the bank's table."""
        path = self.bank / "people.csv"
        lines = path.read_text().splitlines()
        lines[number - 1] = text
        path.write_text("\n".join(lines) + "\n")

    def clinic_at(self, address: str) -> None:
        self.edit("bank/party.toml", f'clinic = "{LOOPBACK}:{self.ports["clinic"]}"', f'clinic = "{address}"')

    def instead_of_clinic(self, listener: AbstractContextManager[int]) -> None:
        self.clinic_at(f"{LOOPBACK}:{self.stack.enter_context(listener)}")

    def certify(self, role: Role = Role.PARTY, name: str = "bank", *, days: int = 90, begin: int = 0) -> None:
        """Give the bank another certificate of the federation's authority."""
        pair = issue(authority_of(self.acme), role, name, days=days, now=now(begin))
        write_pair(pair, self.bank / "pki" / "bank.pem", self.bank / "pki" / "bank.key")

    def name_list(self) -> None:
        self.edit(CONFIG, "[tls]\n", '[tls]\nrevoked = "pki/revoked.pem"\n')

    def write_list(self, *, days: int = 30, begin: int = 0, revokes_bank: bool = False) -> None:
        """Give the bank a revocation list."""
        self.name_list()
        own = x509.load_pem_x509_certificate((self.bank / "pki" / "bank.pem").read_bytes())
        serials = [own.serial_number] if revokes_bank else []
        pem = create_list(authority_of(self.acme), serials, days=days, now=now(begin))
        (self.bank / "pki" / "revoked.pem").write_bytes(pem)

    def shop_again(self) -> int:
        """Serve the shop at another port, too: two peers at one address are refused."""
        return self.stack.enter_context(serving(self.acme, ["shop"]))[0]

    @property
    def ledger_files(self) -> list[Path]:
        """The bank's ledger, which `moiety new` has begun, and its counter."""
        return [self.bank / "data" / "ledger.sqlite", self.bank / "data" / "ledger.counter"]

    def open_ledger(self) -> AbstractContextManager[Ledger]:
        path, counter = self.ledger_files
        return contextlib.closing(open_ledger("bank", path=path, url=None, counter=counter, holder="test"))


@dataclass(frozen=True)
class Fault:
    """One line of the table.

    Attributes:
        label: of the case.
        plant: brings it about.
        check: that must find it.
        found: words of what it says.
        fix: words of the fix.
        outcome: of the check.
        member: whose configuration is examined.
        timeout_s: of the command.
    """

    label: str
    plant: Callable[[Place], object]
    check: str
    found: str
    fix: str
    outcome: str = "failed"
    member: str = "bank"
    timeout_s: float = GENEROUS_S


def fill(path: str, content: bytes) -> Callable[[Place], object]:
    return lambda place: (place.acme / path).write_bytes(content)


def drop(path: str) -> Callable[[Place], object]:
    return lambda place: (place.acme / path).unlink()


def edit(file: str, old: str, new: str) -> Callable[[Place], object]:
    return lambda place: place.edit(file, old, new)


def line(number: int, text: str) -> Callable[[Place], object]:
    return lambda place: place.line(number, text)


def recode(encoding: str, old: str = ",", new: str = ",") -> Callable[[Place], object]:
    def plant(place: Place) -> None:
        path = place.bank / "people.csv"
        path.write_bytes(path.read_text().replace(old, new).encode(encoding))

    return plant


def of_kind(declared: str, *plants: Callable[[Place], object]) -> Callable[[Place], object]:
    """Give the column of visits a kind, and plant faults."""

    def plant(place: Place) -> None:
        place.edit(CONFIG, "visits = [0, 20]\n", "")
        place.edit(CONFIG, "amount = [0, 500]\n", f"amount = [0, 500]\n\n[tables.columns]\nvisits = {declared}\n")
        for one in plants:
            one(place)

    return plant


def matched(*plants: Callable[[Place], object]) -> Callable[[Place], object]:
    """Let ids be matched, whatever their capitals, and plant faults."""

    def plant(place: Place) -> None:
        section = '[tables.matching]\ncolumns = ["id"]\nnormalise = ["trim", "lower"]\nduplicates = "refuse"\n\n'
        place.edit(CONFIG, 'id_column = "id" ', "# ")
        place.edit(CONFIG, "[tables.first_budget]", f"{section}[tables.first_budget]")
        for one in plants:
            one(place)

    return plant


def instead(listener: Callable[[], AbstractContextManager[int]]) -> Callable[[Place], object]:
    return lambda place: place.instead_of_clinic(listener())


def of_a_stranger(place: Place) -> None:
    _, pair = stranger(Role.PARTY, "clinic")
    place.instead_of_clinic(by_tls(place.acme, pair, speaks=["h2"]))


def expired_peer(place: Place) -> None:
    pair = issue(authority_of(place.acme), Role.PARTY, "clinic", days=1, now=now(-9))
    place.instead_of_clinic(by_tls(place.acme, pair, speaks=["h2"]))


def early_peer(place: Place) -> None:
    pair = issue(authority_of(place.acme), Role.PARTY, "clinic", days=9, now=now(5))
    place.instead_of_clinic(by_tls(place.acme, pair, speaks=["h2"]))


def another_service(place: Place) -> None:
    pair = issue(authority_of(place.acme), Role.PARTY, "clinic", days=9, now=now())
    place.instead_of_clinic(by_tls(place.acme, pair))


def peer_trusts_others(place: Place) -> None:
    other, _ = stranger(Role.PARTY, "bank")
    pair = issue(authority_of(place.acme), Role.PARTY, "clinic", days=9, now=now())
    place.instead_of_clinic(by_tls(place.acme, pair, trusts=other.certificate_pem, speaks=["h2"]))


def stopping_peer(place: Place) -> None:
    (port,) = place.stack.enter_context(serving(place.acme, ["clinic"], is_stopping=True))
    place.clinic_at(f"{LOOPBACK}:{port}")


def foreign_certificate(place: Place) -> None:
    _, pair = stranger(Role.PARTY, "bank")
    write_pair(pair, place.bank / "pki" / "bank.pem", place.bank / "pki" / "bank.key")


def other_key(place: Place) -> None:
    pair = issue(authority_of(place.acme), Role.PARTY, "bank", days=9, now=now())
    (place.bank / "pki" / "bank.key").write_bytes(pair.key_pem)


def two_certificates(place: Place) -> None:
    path = place.bank / "pki" / "bank.pem"
    path.write_bytes(path.read_bytes() * 2)


def taken_port(place: Place) -> None:
    port = place.stack.enter_context(plain_text())
    place.edit("bank/party.toml", f'listen = "{LOOPBACK}:{place.ports["bank"]}"', f'listen = "{LOOPBACK}:{port}"')


def analyst_with_a_partys_certificate(place: Place) -> None:
    pair = issue(authority_of(place.acme), Role.PARTY, "bank", days=90, now=now())
    pki = place.acme / "analyst" / "pki"
    write_pair(pair, pki / "analyst.pem", pki / "analyst.key")


def no_coordinator(place: Place) -> None:
    port = place.stack.enter_context(closed())
    place.edit("analyst/client.toml", f":{place.ports['coordinator']}", f":{port}")


def password_for_all(place: Place) -> None:
    with (place.bank / "party.toml").open("a") as file:
        file.write('\n[ledger]\nurl = "postgresql://bank:secret@127.0.0.1:1/ledger"\n')


def old_ledger(place: Place) -> None:
    path, _ = place.ledger_files
    copy = path.read_bytes()
    with place.open_ledger() as ledger:
        ledger.set_budget("people", budget(2.0), "more")
    path.write_bytes(copy)


def lost_counter(place: Place) -> None:
    place.ledger_files[1].unlink()


def lost_ledger(place: Place) -> None:
    place.ledger_files[0].unlink()


def damaged_ledger(place: Place) -> None:
    place.ledger_files[0].write_bytes(b"no database at all" * 300)


def without_ledger(place: Place) -> None:
    for path in place.ledger_files:
        path.unlink()


def empty_ledger(place: Place) -> None:
    without_ledger(place)
    place.open_ledger().__exit__(None, None, None)


def second_table(place: Place) -> None:
    with (place.bank / "party.toml").open("a") as file:
        file.write(
            '\n[[tables]]\nname = "visits"\npath = "people.csv"\nrows = [1, 9999]\nbounds = { visits = [0, 20] }\n'
        )


def other_budget(place: Place) -> None:
    with place.open_ledger() as ledger:
        ledger.set_budget("people", budget(1.5, period="later"), "less")


def full_disk(place: Place) -> None:
    place.monkeypatch.setattr(files, "MIN_FREE_BYTES", 1 << 80)


CONFIG, TABLE = "bank/party.toml", "bank/people.csv"

FAULTS = [
    # the configuration
    Fault("no file", drop(CONFIG), "configuration", "there is no such file", "Correct"),
    Fault("not TOML", fill(CONFIG, b"name = bank"), "configuration", "not valid TOML", "Correct"),
    Fault("UTF-16", fill(CONFIG, 'name = "bank"'.encode("utf-16")), "configuration", "UTF-16", "Correct"),
    Fault("nobody's file", fill(CONFIG, b"x = 1"), "configuration", "no field tells", "Correct"),
    Fault("unknown field", edit(CONFIG, "data_dir", "data_dri"), "configuration", "no such field", "party.toml"),
    Fault("no port", lambda place: place.clinic_at("10.0.0.2"), "configuration", "port is missing", "party.toml"),
    Fault("password for all", password_for_all, "configuration", "may hold a password", "chmod 600", "warning"),
    Fault(
        "nobody may ask",
        edit("coordinator/coordinator.toml", 'allowed = ["analyst"]', "allowed = []"),
        "configuration",
        "nobody submit",
        "Correct",
        member="coordinator",
    ),
    # files
    Fault(
        "data folder is a file",
        edit(CONFIG, '"data"', '"people.csv"'),
        "data folder",
        "is a file, not a folder",
        "Remove or rename",
    ),
    Fault(
        "data folder open to others",
        lambda place: (place.bank / "data").chmod(0o755),
        "data folder",
        "open to other users (mode 0755)",
        "chmod 700",
        "warning",
    ),
    Fault(
        "no data folder",
        lambda place: (place.acme / "coordinator" / "data").rmdir(),
        "data folder",
        "does not exist",
        "Make the folder",
        member="coordinator",
    ),
    Fault("full disk", full_disk, "disk space", "may not fit", "Free some room"),
    # certificates
    Fault("no authority", drop("bank/pki/ca.pem"), "authority", "does not exist", "Copy the certificate"),
    Fault("no PEM", fill("bank/pki/ca.pem", b"x"), "authority", "not a PEM certificate", "Copy the certificate"),
    Fault("no certificate", drop("bank/pki/bank.pem"), "certificate", "does not exist", "moiety pki sign"),
    Fault("two certificates", two_certificates, "certificate", "holds 2 certificates", "moiety pki sign"),
    Fault("expired", lambda place: place.certify(days=1, begin=-9), "certificate", "expired on", "sign a new request"),
    Fault(
        "expires soon",
        lambda place: place.certify(days=12),
        "certificate",
        "valid for 11 more days",
        "sign a new request",
        "warning",
    ),
    Fault("clock", lambda place: place.certify(begin=5), "clock", "valid only from", "Set the clock"),
    Fault("another authority", foreign_certificate, "chain", "was not issued by the authority", "for its certificate"),
    Fault(
        "another member's",
        lambda place: place.certify(name="shop"),
        "identity",
        "spiffe://acme/party/shop, and the configuration is for spiffe://acme/party/bank",
        "own certificate",
    ),
    Fault(
        "an analyst with a party's certificate",
        analyst_with_a_partys_certificate,
        "identity",
        "is for an analyst of acme",
        "own certificate",
        member="analyst",
    ),
    Fault("no key", drop("bank/pki/bank.key"), "key", "does not exist", "moiety pki request"),
    Fault(
        "key open to others",
        lambda place: (place.bank / "pki" / "bank.key").chmod(0o644),
        "key rights",
        "mode 0644",
        "chmod 600",
    ),
    Fault("no list", lambda place: place.name_list(), LIST, "does not exist", "moiety pki revoke"),
    Fault("old list", lambda place: place.write_list(begin=-9, days=2), LIST, "it expired on", "moiety pki revoke"),
    Fault(
        "list expires soon",
        lambda place: place.write_list(days=3),
        LIST,
        "valid for 2 more days",
        "moiety pki revoke",
        "warning",
    ),
    Fault(
        "revoked", lambda place: place.write_list(revokes_bank=True), LIST, "bank.pem is revoked", "a new certificate"
    ),
    Fault("key of another", other_key, "key", "does not belong to the certificate", "Put the key of"),
    # connections
    Fault("port taken", taken_port, "port", "taken, and not by this service", "End the program"),
    Fault(
        "another machine's address",
        lambda place: place.edit(CONFIG, f'"{LOOPBACK}:{place.ports["bank"]}"', '"192.0.2.7:7101"'),
        "port",
        "not an address of this machine",
        "0.0.0.0 for all",
    ),
    Fault(
        "listens on loopback only",
        lambda place: place.clinic_at("192.0.2.7:7102"),
        "inbound",
        "on this machine only, and clinic is on another",
        "Listen at 0.0.0.0",
        timeout_s=NOBODY_S,
    ),
    Fault("TCP refused", instead(closed), "reach clinic", "is refused: nothing listens", "Start clinic"),
    Fault("TCP dropped", instead(black_hole), "reach clinic", "packets are dropped", "firewalls", timeout_s=NOBODY_S),
    Fault(
        "unknown name",
        lambda place: place.clinic_at("clinic.invalid:7102"),
        "reach clinic",
        "the name clinic.invalid cannot be resolved",
        "DNS",
    ),
    Fault("no TLS", instead(plain_text), "reach clinic", "does not speak TLS", "no proxy"),
    Fault("silence", instead(silent), "reach clinic", "then says nothing", "whether it hangs", timeout_s=NOBODY_S),
    Fault("peer of another authority", of_a_stranger, "reach clinic", "another authority than ours", "fingerprints"),
    Fault("peer expired", expired_peer, "reach clinic", "expired on", "renew its certificate"),
    Fault("peer not yet valid", early_peer, "reach clinic", "not yet valid", "Check the clock"),
    Fault(
        "another member there",
        lambda place: place.clinic_at(f"{LOOPBACK}:{place.shop_again()}"),
        "reach clinic",
        "is spiffe://acme/party/shop, and not spiffe://acme/party/clinic",
        "Correct the address of clinic",
    ),
    Fault("peer refuses us", peer_trusts_others, "reach clinic", "refuses our certificate", "whether its ca.pem"),
    Fault("another service", another_service, "reach clinic", "does not answer as a service", "compare versions"),
    Fault("peer stops", stopping_peer, "reach clinic", "is not serving", "Wait"),
    Fault("no coordinator", no_coordinator, "reach coordinator", "is refused", "Start coordinator", member="analyst"),
    # tables
    Fault("no table", drop(TABLE), "file of people", "does not exist", "Put the table there"),
    Fault(
        "a table's long name",
        edit(CONFIG, 'path = "people.csv"', f'path = "{300 * "n"}.csv"'),
        "file of people",
        "does not exist or cannot be looked at",
        "Put the table there",
    ),
    Fault(
        "a spreadsheet",
        edit(CONFIG, 'path = "people.csv"', 'path = "people.xlsx"'),
        "file of people",
        "unknown format",
        "Save it as .csv",
    ),
    Fault("empty table", fill(TABLE, b""), "file of people", "is empty", "Export the table again"),
    Fault(
        "semicolons", recode("utf-8", ",", ";"), "file of people", "UTF-8 text, semicolons between", 'delimiter = ";"'
    ),
    Fault("table in UTF-16", recode("utf-16"), "file of people", "UTF-16 text", "Save it as UTF-8"),
    Fault(
        "table in Latin-1",
        recode("latin-1", "person-007", "Zo\u00eb"),
        "file of people",
        "line 8 has bytes that are not UTF-8; it seems to be Latin-1",
        "Save it as UTF-8",
    ),
    Fault(
        "bounds for an absent column",
        edit(CONFIG, "visits = ", "Visits = "),
        "columns of people",
        "bounds or a kind for 'Visits', and the file has no such column; the file has 'visits'",
        "Correct the name",
    ),
    Fault("a column twice", line(1, "id,visits,visits"), "columns of people", "no such column", "Correct the name"),
    Fault(
        "not a number",
        line(5, "person-004,1 kg,3"),
        "values of people",
        "not numbers: line 5, visits: '1 kg'",
        "Write plain numbers",
    ),
    Fault(
        "a decimal comma",
        line(5, 'person-004,"1,5",3'),
        "values of people",
        "a comma before their fraction: line 5, visits: '1,5'",
        "decimal_comma = true",
    ),
    Fault("an empty value", line(9, "person-008,,3"), "values of people", "line 9, visits: ''", "Fill them in"),
    Fault("NaN", line(9, "person-008,nan,3"), "values of people", "line 9, visits: 'nan'", "Fill them in"),
    Fault("too many fields", line(7, "person-006,1,2,3"), "lines of people", "line 7", "Quote values"),
    Fault(
        "an id twice",
        line(12, "person-001,1,2"),
        "ids of people",
        "an earlier row has already: line 12, id: 'person-001'",
        "one row only",
    ),
    Fault(
        "two rows of one person",
        matched(line(12, "Person-001,1,2")),
        "ids of people",
        "whose id an earlier row has already: line 12, id: 'Person-001'",
        "Is that one person with several rows?",
    ),
    Fault(
        "nobody's row",
        matched(line(12, " ,1,2")),
        "ids of people",
        "lack what identifies them: line 12, id: ''",
        'missing = "leave out"',
    ),
    Fault(
        "rows that may be revealed",
        matched(edit(CONFIG, '"refuse"', '"first"\nmissing = "leave out"\nreveal = true'), line(12, ",1,2")),
        "ids of people",
        "4999 ids in 'id'; 1 rows without one are left out; where a job asks for it, the other owners learn",
        "Could it harm somebody",
        "warning",
    ),
    Fault(
        "a number that can mean two things",
        line(5, 'person-004,"1,234",3'),
        "values of people",
        "can mean two things, or with a sign of a currency or of percent: line 5, visits: '1,234'",
        "thousands",
    ),
    Fault(
        "a value of another kind",
        of_kind('{ kind = "number", bounds = [0, 20], missing = "column" }', line(5, "person-004,often,3")),
        "kinds of people",
        "not of the kind that the column's section declares: line 5, visits: 'often'",
        "`others`",
    ),
    Fault(
        "a gap",
        of_kind('{ kind = "number", bounds = [0, 20] }', line(5, "person-004,,3")),
        "gaps of people",
        "gaps that the column's section refuses: line 5, visits: ''",
        "missing =",
    ),
    Fault(
        "a category of which no value is declared",
        of_kind('{ kind = "category", values = ["few", "many"], others = "other" }'),
        "lost values of people",
        "visits: 5000 of 5000 values are not of the declared kind; the commonest: ",
        "Correct `values`",
        "warning",
    ),
    Fault(
        "UTF-8 read as Windows-1252",
        recode("utf-8", "person-007", "Zo\u00c3\u00ab"),
        "encoding of people",
        "id: a letter such as an umlaut stands there as two characters",
        "Declare encoding",
        "warning",
    ),
    Fault(
        "ids in capitals and in small letters",
        line(5, "PERSON-004,1,3"),
        "spelling of ids of people",
        "0 % with capitals, 100 % with small letters",
        'the step "lower"',
        "warning",
    ),
    Fault("no id", line(12, ",1,2"), "ids of people", "line 12, id", "what identifies it"),
    Fault(
        "out of bounds",
        line(3, "person-002,21,-4"),
        "values of people",
        "2 values are outside their bounds and are clipped: line 3, visits: 21; line 3, amount: -4",
        "Correct the values",
        "warning",
    ),
    Fault(
        "too few rows",
        edit(CONFIG, "rows = [100,", "rows = [6000,"),
        "rows of people",
        "5000 rows, and 6000 to 10000 are declared",
        "Correct the table",
    ),
    Fault(
        "no declared rows",
        edit(CONFIG, "rows = [100, 10_000]", ""),
        "rows of people",
        "sums, means and histograms only",
        "Declare",
        "warning",
    ),
    # what services keep
    Fault("no budget", second_table, "budget of visits", "no budget is set", "moiety budget", "warning"),
    Fault("one file twice", second_table, "tables and ledger", "read the same data", "the same id_space", "warning"),
    Fault(
        "a first budget without effect",
        other_budget,
        "tables and ledger",
        "the ledger holds epsilon 1.5",
        "correct or delete it",
        "warning",
    ),
    Fault("no ledger", without_ledger, "ledger", "no job with noise", "moiety budget init"),
    Fault("an empty ledger", empty_ledger, "ledger", "has no entry", "moiety budget init"),
    Fault("counter beside the ledger", lambda place: None, "counter", "on the same disk", "another disk", "warning"),
    Fault("an old ledger", old_ledger, "ledger", "restored from an old copy", "newest copy"),
    Fault("a damaged ledger", damaged_ledger, "ledger", "is damaged", "newest copy"),
    Fault("a lost counter", lost_counter, "ledger", "is the ledger complete", "moiety budget adopt"),
    Fault("a lost ledger", lost_ledger, "ledger", "remembers a ledger", "newest copy"),
    Fault(
        "a damaged store",
        fill("coordinator/data/jobs.sqlite", b"no database at all" * 300),
        "store of jobs",
        "not a database",
        "rename it",
        member="coordinator",
    ),
]

CONSEQUENCES = {
    **dict.fromkeys(
        ("no authority", "no PEM", "no certificate", "two certificates", "no key", "key of another"), "port|reach"
    ),
    **dict.fromkeys(("expired", "clock", "another authority", "another member's"), "port|reach"),
    **dict.fromkeys(("TCP dropped", "silence", "listens on loopback only"), "port|reach"),
    "revoked": "port",  # the own service shows it
    "an analyst with a party's certificate": "reach",
    **dict.fromkeys(("password for all", "data folder is a file"), "ledger"),
    "another machine's address": "inbound",
    "unknown name": "inbound",
}
"""Case to the other checks that may fail with it."""


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.label)
def test_a_fault_is_found_and_its_fix_named(fault, acme, whole, doctor, monkeypatch):
    with ExitStack() as stack:
        fault.plant(Place(acme, whole.ports, stack, monkeypatch))
        code, checks = doctor(acme / MEMBERS[fault.member], timeout_s=fault.timeout_s)
    assert fault.check in checks, list(checks)
    check = checks[fault.check]
    assert check["outcome"] == fault.outcome, check
    assert fault.found in check["found"]
    assert fault.fix in check["fix"]
    others = {name for name, one in checks.items() if one["outcome"] == "failed"} - {fault.check}
    assert [name for name in others if not re.match(CONSEQUENCES.get(fault.label, "$"), name)] == []
    is_unreadable = fault.check == "configuration" and fault.outcome == "failed"
    assert code == (2 if is_unreadable else 1 if "failed" in {one["outcome"] for one in checks.values()} else 0)


def test_forty_faults_or_more_are_planted():
    assert len(FAULTS) >= 40
    assert len({fault.label for fault in FAULTS}) == len(FAULTS)


def test_the_operations_page_has_every_check_and_no_other(acme, doctor, monkeypatch):
    """Those of a device are seen in `test_doctor.py`."""
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")  # else nothing is said of proxies
    page = (Path(__file__).parents[4] / "docs" / "operations.md").read_text(encoding="utf-8")
    told = {name for row in re.findall(r"^\| (`.*?) \|", page, re.MULTILINE) for name in re.findall("`(.*?)`", row)}
    made = {name for file in MEMBERS.values() for name in doctor(acme / file)[1]} | {fault.check for fault in FAULTS}
    made |= {"signing key", "roster", "record NAME"}
    assert told - {"ledger.sqlite"} == {
        re.sub(" of (people|visits)$", " of TABLE", re.sub("^reach .*", "reach NAME", name)) for name in made
    }


@pytest.fixture
def addresses(acme, whole):
    """Addresses of coordinators of which all members know: the one that leads, one that stands by, one that is gone."""
    with serving(acme, ["coordinator"], is_stopping=True) as (standing_by,), closed() as gone:
        ports = (whole.ports["coordinator"], standing_by, gone)
        yield tuple(f"{LOOPBACK}:{port}" for port in ports)


@pytest.mark.parametrize("file", ["bank/party.toml", "analyst/client.toml"])
@pytest.mark.parametrize(
    ("order", "outcome", "words"),
    [
        ((1, 0), "ok", "coordinator at {1} answers but is not serving.*; coordinator serves at {0} and accepts"),
        (
            (0, 2),
            "warning",
            "coordinator serves at {0} and accepts this member .round trip .* ms.; TCP to {2} is refused",
        ),
        ((1, 2), "failed", "coordinator serves at none of its addresses: coordinator at {1} answers.*; TCP to {2}"),
    ],
)
def test_of_several_addresses_one_must_serve_and_the_others_stand_by(
    acme, doctor, addresses, file, order, outcome, words
):
    path = acme / file
    text, told = path.read_text(), ", ".join(f'"{addresses[place]}"' for place in order)
    path.write_text(text.replace(f'address = "{addresses[0]}"', f"address = [{told}]"))
    code, checks = doctor(path, "--quick")
    assert checks["reach coordinator"]["outcome"] == outcome
    assert re.search(words.format(*map(re.escape, addresses)), checks["reach coordinator"]["found"])
    assert ("Start coordinator" in checks["reach coordinator"].get("fix", "")) == (2 in order)
    assert code == (outcome == "failed")
