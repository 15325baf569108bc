import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from service.identity import Identity, Role
from service.pki import create_authority, issue
from service.tls import CredentialsError, load_credentials

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
DAY = datetime.timedelta(days=1)


@pytest.fixture
def files(tmp_path):
    authority = create_authority("acme", days=100, now=NOW)
    pair = issue(authority, Role.PARTY, "bank", days=10, now=NOW)
    paths = {"authority": tmp_path / "ca.pem", "certificate": tmp_path / "bank.pem", "key": tmp_path / "bank.key"}
    paths["authority"].write_bytes(authority.certificate_pem)
    paths["certificate"].write_bytes(pair.certificate_pem)
    paths["key"].touch(mode=0o600)
    paths["key"].write_bytes(pair.key_pem)
    return paths


def load(files, *, now=NOW):
    return load_credentials(**files, now=lambda: now)


def test_good_files_give_the_identity_of_the_certificate(files):
    credentials = load(files)
    assert credentials.identity == Identity("acme", Role.PARTY, "bank")
    assert credentials.not_valid_after == NOW + 10 * DAY
    assert "PRIVATE" not in repr(credentials)


def test_a_certificate_with_less_than_thirty_days_left_is_warned_of(files):
    credentials = load(files)
    end = credentials.not_valid_after
    assert credentials.expiry_warnings(NOW) == ["the certificate expires in 10 days: renew it"]
    assert credentials.expiry_warnings(end - 30 * DAY) == []
    (warning,) = credentials.expiry_warnings(end - 30 * DAY + datetime.timedelta(seconds=1))
    assert "in 29 days" in warning


@pytest.mark.parametrize("which", ["authority", "certificate", "key"])
def test_a_missing_file_is_named(files, which):
    files[which].unlink()
    with pytest.raises(CredentialsError, match=rf"{files[which].name} does not exist; .*`moiety pki"):
        load(files)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601])
def test_a_key_open_to_others_is_refused_with_the_command_that_helps(files, mode):
    files["key"].chmod(mode)
    with pytest.raises(CredentialsError, match=rf"mode {mode:04o}\); run: chmod 600 .*bank.key"):
        load(files)


@pytest.mark.parametrize("which", ["authority", "certificate"])
def test_a_file_that_is_no_certificate_is_named(files, which):
    files[which].write_text("hello")
    with pytest.raises(CredentialsError, match=f"{files[which].name} is not a PEM certificate"):
        load(files)


def test_a_file_that_is_no_key_is_named_without_its_content(files):
    files["key"].write_text("hello")
    with pytest.raises(CredentialsError, match=r"bank\.key is not a PEM private key") as caught:
        load(files)
    assert "hello" not in str(caught.value)


def test_the_key_of_another_certificate_is_refused(files):
    other = issue(create_authority("acme", days=1, now=NOW), Role.PARTY, "bank", days=1, now=NOW)
    files["key"].write_bytes(other.key_pem)
    with pytest.raises(CredentialsError, match=r"bank.key does not belong to the certificate .*bank.pem"):
        load(files)


def test_an_encrypted_key_is_refused(files):
    key = serialization.load_pem_private_key(files["key"].read_bytes(), password=None)
    encryption = serialization.BestAvailableEncryption(b"secret")
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    files["key"].write_bytes(pem)
    with pytest.raises(CredentialsError, match="is encrypted"):
        load(files)


def test_an_expired_certificate_is_refused_with_its_date(files):
    with pytest.raises(CredentialsError, match=r"bank.pem expired on 2026-01-11 00:00 UTC"):
        load(files, now=NOW + 11 * DAY)


def test_a_certificate_of_the_future_makes_one_look_at_the_clock(files):
    with pytest.raises(
        CredentialsError, match=r"is valid only from 2025-12-31 23:00 UTC on; is the clock of this machine right"
    ):
        load(files, now=NOW - DAY)


def test_a_certificate_of_another_authority_is_refused(files):
    files["authority"].write_bytes(create_authority("acme", days=100, now=NOW).certificate_pem)
    with pytest.raises(CredentialsError, match=r"bank.pem was not issued by the authority in .*ca.pem"):
        load(files)


def test_a_certificate_with_two_identities_is_refused(files):
    key, ca_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([])
    uris = [x509.UniformResourceIdentifier(f"spiffe://acme/party/{who}") for who in ("bank", "telco")]
    basic = x509.CertificateBuilder().issuer_name(name).subject_name(name).serial_number(1)
    basic = basic.not_valid_before(NOW).not_valid_after(NOW + DAY)
    authority = basic.public_key(ca_key.public_key()).sign(ca_key, hashes.SHA256())
    double = basic.public_key(key.public_key()).add_extension(x509.SubjectAlternativeName(uris), critical=False)
    files["authority"].write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    files["certificate"].write_bytes(double.sign(ca_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    files["key"].write_bytes(pem)
    with pytest.raises(CredentialsError, match="exactly one identity URI; this one states 2"):
        load(files)
