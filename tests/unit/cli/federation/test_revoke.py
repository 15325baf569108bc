import json
import stat

import pytest
from cryptography import x509
from typer.testing import CliRunner

from cli.federation.revoke import pki_app
from service.tls import CredentialsError, load_credentials


def run(*arguments, ok=True):
    result = CliRunner().invoke(pki_app, [str(argument) for argument in arguments])
    assert (result.exit_code == 0) == ok, result.output
    assert "Traceback" not in result.output
    return result


@pytest.fixture
def ca(tmp_path):
    run("init", "--federation", "acme", "--out", tmp_path / "ca")
    run("issue", "--ca", tmp_path / "ca", "--member", "party/bank", "--member", "party/shop", "--out", tmp_path)
    return tmp_path / "ca"


def load(ca, name):
    files = {"certificate": ca.parent / f"{name}.pem", "key": ca.parent / f"{name}.key"}
    return load_credentials(authority=ca / "ca.pem", **files, revoked=ca / "revoked.pem")


def serial_of(path):
    return f"{x509.load_pem_x509_certificate(path.read_bytes()).serial_number:x}"


def test_a_revoked_certificate_is_named_in_the_list_and_its_holder_cannot_start(ca):
    shown = json.loads(run("revoke", "--ca", ca, ca.parent / "bank.pem", "--format", "json").stdout)
    assert shown["written"] == [str(ca / "revoked.pem")]
    assert shown["serials"] == [serial_of(ca.parent / "bank.pem")]
    assert stat.S_IMODE((ca / "revoked.pem").stat().st_mode) == 0o644
    assert load(ca, "shop").revoked.number == shown["number"]
    with pytest.raises(CredentialsError, match=r"bank\.pem is revoked, says .*revoked\.pem; ask the authority"):
        load(ca, "bank")


def test_a_list_is_renewed_without_a_certificate_and_continued_with_a_serial_number(ca):
    assert "0 revoked" in run("revoke", "--ca", ca).stdout
    number = serial_of(ca.parent / "bank.pem")
    assert "1 revoked" in run("revoke", "--ca", ca, "--serial", number.upper()).stdout
    assert "2 revoked" in run("revoke", "--ca", ca, "--serial", "01:02:fF").stdout
    known = load(ca, "shop").revoked
    assert known.serials == {int(number, 16), 0x102FF}


def test_what_cannot_be_revoked_is_refused_and_the_list_stays(ca, tmp_path):
    run("revoke", "--ca", ca, "--serial", "77")
    before = (ca / "revoked.pem").read_bytes()
    run("init", "--federation", "acme", "--out", tmp_path / "other")
    run("issue", "--ca", tmp_path / "other", "--member", "party/bank", "--out", tmp_path / "theirs")
    for argument, words in (
        (tmp_path / "theirs" / "bank.pem", "not a certificate that this authority signed"),
        (tmp_path / "bank.key", "not a certificate that this authority signed"),
        (tmp_path / "absent.pem", "cannot be read"),
        (ca / "ca.pem", "is the authority itself"),
        ("--serial=xyz", "not a hexadecimal serial number"),
        ("--serial=0", "not a hexadecimal serial number"),
        (f"--serial={'f' * 41}", "not a hexadecimal serial number"),
    ):
        assert words in run("revoke", "--ca", ca, argument, ok=False).stderr
    assert (ca / "revoked.pem").read_bytes() == before


def test_a_list_that_is_not_ours_is_not_overwritten(ca, tmp_path):
    run("init", "--federation", "acme", "--out", tmp_path / "other")
    run("revoke", "--ca", tmp_path / "other")
    (ca / "revoked.pem").write_bytes((tmp_path / "other" / "revoked.pem").read_bytes())
    assert "cannot be continued" in run("revoke", "--ca", ca, ok=False).stderr
