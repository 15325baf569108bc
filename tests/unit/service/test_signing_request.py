import dataclasses
import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from service.certificate_rules import check_member
from service.identity import Identity, Role, identity_of
from service.pki import create_authority
from service.signing_request import certify_request, create_request, read_request

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
BANK = Identity("acme", Role.PARTY, "bank")


@pytest.fixture(scope="module")
def pair():
    return create_request(BANK)


def csr(*uris, key=None):
    key = key or ec.generate_private_key(ec.SECP256R1())
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    if uris:
        names = [x509.UniformResourceIdentifier(uri) for uri in uris]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def test_the_certificate_is_of_the_members_own_key_and_states_what_was_asked(pair):
    authority = create_authority("acme", days=10, now=NOW)
    pem = certify_request(authority, read_request(pair.certificate_pem), days=5, now=NOW)
    certificate = x509.load_pem_x509_certificate(pem)
    key = serialization.load_pem_private_key(pair.key_pem, password=None)
    assert certificate.public_key() == key.public_key()
    assert identity_of(certificate) == BANK
    check_member(certificate, dials=True, serves=True)
    assert b"PRIVATE" not in pem + pair.certificate_pem


def test_a_request_of_another_federation_is_refused(pair):
    other = create_authority("zenith", days=10, now=NOW)
    with pytest.raises(ValueError, match="for federation acme, but this is the authority of zenith"):
        certify_request(other, read_request(pair.certificate_pem), days=5, now=NOW)


def test_the_fingerprint_depends_on_identity_and_key(pair):
    read = read_request(pair.certificate_pem)
    assert read.fingerprint == read_request(pair.certificate_pem).fingerprint
    assert [len(group) for group in read.fingerprint.split(" ")] == [4] * 8
    other_key = read_request(create_request(BANK).certificate_pem)
    other_name = dataclasses.replace(read, identity=Identity("acme", Role.PARTY, "bang"))
    assert len({read.fingerprint, other_key.fingerprint, other_name.fingerprint}) == 3


def test_a_request_that_was_changed_is_refused(pair):
    request = x509.load_pem_x509_csr(pair.certificate_pem)
    changed = request.public_bytes(serialization.Encoding.DER).replace(b"/party/bank", b"/party/bang")
    pem = x509.load_der_x509_csr(changed).public_bytes(serialization.Encoding.PEM)
    with pytest.raises(ValueError, match="the signature of the request is wrong"):
        read_request(pem)


@pytest.mark.parametrize(
    ("pem", "words"),
    [
        (b"nothing", "not a signing request"),
        (csr(), "exactly one identity URI; this one states 0"),
        (csr("spiffe://acme/party/a", "spiffe://acme/party/b"), "this one states 2"),
        (csr("spiffe://acme/king/a"), "'king' is not a role"),
        (csr("spiffe://acme/party/A"), "party name 'A'"),
        (
            csr("spiffe://acme/party/a", key=ec.generate_private_key(ec.SECP384R1())),
            "not an elliptic curve key on P-256",
        ),
    ],
)
def test_other_requests_are_refused(pem, words):
    with pytest.raises(ValueError, match=words):
        read_request(pem)


def test_no_key_is_shown_by_repr(pair):
    assert "PRIVATE" not in repr(pair)
