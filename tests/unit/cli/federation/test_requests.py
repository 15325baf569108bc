import json
import stat

import pytest
from typer.testing import CliRunner

from cli.federation.requests import pki_app
from service.identity import Identity, Role
from service.tls import load_credentials


def run(*arguments, ok=True, **options):
    result = CliRunner().invoke(pki_app, [str(argument) for argument in arguments], **options)
    assert (result.exit_code == 0) == ok, result.output
    assert "Traceback" not in result.output
    return result


@pytest.fixture
def ca(tmp_path):
    run("init", "--federation", "acme", "--out", tmp_path / "ca")
    return tmp_path / "ca"


@pytest.fixture
def asked(tmp_path):
    arguments = ["--federation", "acme", "--member", "party/bank", "--out", tmp_path / "pki", "--format", "json"]
    shown = json.loads(run("request", *arguments).stdout)
    assert shown["written"] == [str(tmp_path / "pki" / "bank.key"), str(tmp_path / "pki" / "bank.csr")]
    return tmp_path / "pki" / "bank.csr", shown["fingerprint"]


def test_a_key_that_never_left_its_host_gets_a_certificate_that_loads(ca, asked, tmp_path):
    request, fingerprint = asked
    key = request.with_suffix(".key")
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    run("sign", request, "--ca", ca, "--fingerprint", fingerprint.upper().replace(" ", "-"), "--out", tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["bank.pem"]
    loaded = load_credentials(authority=ca / "ca.pem", certificate=tmp_path / "out" / "bank.pem", key=key)
    assert loaded.identity == Identity("acme", Role.PARTY, "bank")


def test_without_a_fingerprint_the_authority_is_asked_to_compare(ca, asked, tmp_path):
    request, fingerprint = asked
    refused = run("sign", request, "--ca", ca, "--out", tmp_path / "out", input="n\n", ok=False)
    assert f"fingerprint  {fingerprint}" in refused.stderr
    assert "party bank of federation acme" in refused.stderr
    assert "not confirmed; nothing was written" in refused.stderr
    assert not (tmp_path / "out").exists()
    run("sign", request, "--ca", ca, "--out", tmp_path / "out", input="y\n")
    assert (tmp_path / "out" / "bank.pem").exists()


def test_a_request_that_was_swapped_on_its_way_is_refused(ca, asked, tmp_path):
    _, fingerprint = asked
    run("request", "--federation", "acme", "--member", "party/bank", "--out", tmp_path / "mallory")
    swapped = tmp_path / "mallory" / "bank.csr"
    refused = run("sign", swapped, "--ca", ca, "--fingerprint", fingerprint, "--out", tmp_path / "out", ok=False)
    assert "which is not what you were told" in refused.stderr
    assert not (tmp_path / "out").exists()


def test_an_existing_key_is_replaced_by_force_alone(asked, tmp_path):
    request, _ = asked
    before = request.with_suffix(".key").read_bytes()
    again = ["request", "--federation", "acme", "--member", "party/bank", "--out", tmp_path / "pki"]
    assert "exists already; nothing was written" in run(*again, ok=False).stderr
    assert request.with_suffix(".key").read_bytes() == before
    run(*again, "--force")
    assert request.with_suffix(".key").read_bytes() != before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["request", "--federation", "acme", "--member", "bank", "--out", "OUT"], "'bank' is not a role"),
        (["request", "--federation", "acme", "--member", "party/", "--out", "OUT"], "party name ''"),
        (["request", "--federation", "A", "--member", "party/bank", "--out", "OUT"], "federation name 'A'"),
        (["sign", "absent.csr", "--ca", "CA", "--out", "OUT", "--fingerprint", "0"], "absent.csr: cannot be read"),
        (["sign", "CSR", "--ca", "OUT", "--out", "OUT", "--fingerprint", "0"], "there is no authority in"),
        (["sign", "CSR", "CSR", "--ca", "CA", "--out", "OUT", "--fingerprint", "0"], "1 are given for 2 requests"),
        (["sign", "CA.pem", "--ca", "CA", "--out", "OUT", "--fingerprint", "0"], "is not a signing request"),
    ],
)
def test_mistakes_are_named_and_nothing_is_written(ca, asked, tmp_path, arguments, words):
    names = {"OUT": tmp_path / "out", "CA": ca, "CSR": asked[0], "CA.pem": ca / "ca.pem"}
    refused = run(*(names.get(argument, argument) for argument in arguments), ok=False)
    assert refused.exit_code == 2
    assert words in refused.stderr
    assert not (tmp_path / "out").exists()
