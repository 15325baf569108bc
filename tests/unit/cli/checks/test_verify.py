"""`moiety verify`: what is printed, and every exit code."""

import json

import pytest
from cryptography import x509
from signed_results import FEDERATION, NOW, Signing
from typer.testing import CliRunner

from cli.main import app
from service.pki import create_authority
from service.trust.revocation import create_list


@pytest.fixture
def authority():
    return create_authority(FEDERATION, days=30, now=NOW)


@pytest.fixture
def verified(tmp_path, authority):
    (tmp_path / "ca.pem").write_bytes(authority.certificate_pem)

    def run(text, *options):
        (tmp_path / "result.json").write_text(text)
        command = ["verify", str(tmp_path / "result.json"), "--authority", str(tmp_path / "ca.pem"), *map(str, options)]
        return CliRunner().invoke(app, command)

    return run


def test_a_result_that_holds_and_one_that_does_not(authority, verified):
    signing = Signing(authority)
    good = verified(signing.document())
    assert (good.exit_code, good.stderr) == (0, "")
    assert good.stdout.splitlines()[-1] == "the result holds"
    bad = verified(signing.document({"bank": None}))
    assert bad.exit_code == 1
    assert bad.stdout.splitlines()[-1] == "THE RESULT DOES NOT HOLD: 1 checks fail"
    assert "FAILS     bank, who brought a table, has signed no receipt" in bad.stdout
    assert json.loads(verified(signing.document(), "--format", "json").stdout)["holds"] is True


def test_a_revocation_list_is_read_and_compared(authority, verified, tmp_path):
    signing, path = Signing(authority), tmp_path / "revoked.pem"
    bank = signing.credentials("bank")
    serial = x509.load_pem_x509_certificate(bank.certificate_pem).serial_number
    text = signing.document({"bank": signing.signed("bank", bank)})
    for serials, exit_code in (([], 0), ([serial], 1)):
        path.write_bytes(create_list(authority, serials, days=1, now=NOW))
        found = verified(text, "--revoked", path)
        assert found.exit_code == exit_code
        assert "no revocation list was given" not in found.stdout


@pytest.mark.parametrize("text", ["", "{}", "7"])
def test_what_is_no_result_is_an_error_of_usage(verified, text):
    found = verified(text)
    assert found.exit_code == 2
    assert found.stderr.endswith("[result-unreadable]\n")


def test_files_that_cannot_be_used_are_named(authority, verified, tmp_path):
    text = Signing(authority).document()
    (tmp_path / "list.pem").write_text("none")
    found = verified(text, "--revoked", tmp_path / "list.pem")
    assert found.exit_code == 2
    assert "the revocation list cannot be used" in found.stderr
    assert verified(text, "--revoked", tmp_path / "missing").exit_code == 2
    (tmp_path / "ca.pem").write_text("none")
    found = CliRunner().invoke(app, ["verify", str(tmp_path / "result.json"), "--authority", str(tmp_path / "ca.pem")])
    assert found.exit_code == 2
    assert "authority's certificate is damaged" in found.stderr
