import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from service.errors import UnauthenticatedError
from service.pki import create_authority, issue
from service.trust.revocation import RevocationList, create_list, read_list

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
DAY = datetime.timedelta(days=1)
AUTHORITY = create_authority("acme", days=100, now=NOW)
CERTIFICATE = x509.load_pem_x509_certificate(AUTHORITY.certificate_pem)


def test_a_list_says_what_is_revoked_and_until_when():
    known = read_list(create_list(AUTHORITY, [5, 7, 5], days=30, now=NOW), CERTIFICATE, NOW)
    assert known.serials == {5, 7}
    assert known.not_valid_after == NOW + 30 * DAY
    known.check(6, "bank", NOW)
    with pytest.raises(UnauthenticatedError, match="the certificate of bank is revoked"):
        known.check(7, "bank", NOW)


def test_what_was_revoked_stays_so_in_later_lists_and_their_numbers_grow():
    before = read_list(create_list(AUTHORITY, [5], days=30, now=NOW), CERTIFICATE)
    for now in (NOW, NOW - 9 * DAY, NOW + DAY):  # whatever the clock does
        after = read_list(create_list(AUTHORITY, [6], days=30, now=now, before=before), CERTIFICATE)
        assert after.serials == {5, 6}
        assert after.number > before.number
    lost = read_list(create_list(AUTHORITY, [6], days=30, now=NOW + DAY), CERTIFICATE)
    assert lost.number > before.number


def test_an_expired_list_accepts_nobody():
    known = RevocationList(1, frozenset(), NOW)
    known.check(6, "bank", NOW)
    with pytest.raises(
        UnauthenticatedError, match="nobody is accepted: the revocation list here expired on 2026-01-01"
    ):
        known.check(6, "bank", NOW + datetime.timedelta(seconds=1))


@pytest.mark.parametrize(
    ("now", "words"), [(NOW + 31 * DAY, "it expired on 2026-01-31"), (NOW - DAY, "it is valid only from 2025-12-31")]
)
def test_a_list_that_is_not_valid_now_is_not_read(now, words):
    with pytest.raises(ValueError, match=words):
        read_list(create_list(AUTHORITY, [], days=30, now=NOW), CERTIFICATE, now)


def test_a_list_of_somebody_else_is_not_read():
    twin = create_authority("acme", days=100, now=NOW)  # of the same name
    member = issue(AUTHORITY, "party", "bank", days=10, now=NOW)
    for signer in (twin, create_authority("other", days=100, now=NOW), member):
        with pytest.raises(ValueError, match="it was not signed by the federation's authority"):
            read_list(create_list(signer, [], days=30, now=NOW), CERTIFICATE, NOW)


def test_a_list_that_was_changed_is_not_read():
    pem = create_list(AUTHORITY, [0x1234567890], days=30, now=NOW)
    der = x509.load_pem_x509_crl(pem).public_bytes(serialization.Encoding.DER)
    changed = x509.load_der_x509_crl(der.replace(bytes.fromhex("1234567890"), bytes.fromhex("1234567891")))
    with pytest.raises(ValueError, match="it was not signed by"):
        read_list(changed.public_bytes(serialization.Encoding.PEM), CERTIFICATE, NOW)
    with pytest.raises(ValueError, match="it is not a PEM revocation list"):
        read_list(b"-----BEGIN X509 CRL-----", CERTIFICATE, NOW)


def builder():
    made = x509.CertificateRevocationListBuilder().issuer_name(CERTIFICATE.subject)
    return made.last_update(NOW).next_update(NOW + DAY)


def signed(made) -> bytes:
    key = serialization.load_pem_private_key(AUTHORITY.key_pem, password=None)
    return made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def test_lists_of_other_tools_are_read_if_they_are_whole_and_numbered():
    assert read_list(signed(builder().add_extension(x509.CRLNumber(3), critical=False)), CERTIFICATE, NOW).number == 3
    with pytest.raises(ValueError, match="it has no number"):
        read_list(signed(builder()), CERTIFICATE, NOW)
    part = builder().add_extension(x509.CRLNumber(3), critical=False)
    part = part.add_extension(x509.DeltaCRLIndicator(2), critical=True)
    with pytest.raises(ValueError, match="not a complete list"):
        read_list(signed(part), CERTIFICATE, NOW)
