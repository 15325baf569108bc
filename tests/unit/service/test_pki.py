import datetime

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from service.identity import Role, identity_of
from service.pki import KeyPair, create_authority, issue, issue_all

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


@pytest.fixture(scope="module")
def authority() -> KeyPair:
    return create_authority("acme", days=100, now=NOW)


def read(pair: KeyPair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pair.certificate_pem)


def test_an_authority_may_sign_certificates_but_no_further_authorities(authority):
    constraints = read(authority).extensions.get_extension_for_class(x509.BasicConstraints)
    assert constraints.critical
    assert constraints.value == x509.BasicConstraints(ca=True, path_length=0)
    assert read(authority).extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign


def test_a_member_is_certified_by_the_authority_and_certifies_nobody(authority):
    certificate = read(issue(authority, Role.PARTY, "bank", days=10, now=NOW))
    certificate.verify_directly_issued_by(read(authority))
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert not certificate.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign


def test_a_certificate_names_one_uri_one_derived_dns_name_and_no_host(authority):
    certificate = read(issue(authority, Role.PARTY, "bank", days=10, now=NOW))
    names = list(certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    assert names == [
        x509.UniformResourceIdentifier("spiffe://acme/party/bank"),
        x509.DNSName("bank.party.acme.moiety.internal"),
    ]
    assert certificate.subject.rfc4514_string() == "CN=bank,OU=party,O=acme"


@pytest.mark.parametrize("role", Role)
def test_only_parties_their_workers_coordinators_and_relays_may_serve(authority, role):
    certificate = read(issue(authority, role, "someone", days=10, now=NOW))
    purposes = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert ExtendedKeyUsageOID.CLIENT_AUTH in purposes
    assert (ExtendedKeyUsageOID.SERVER_AUTH in purposes) == (
        role in (Role.PARTY, Role.COORDINATOR, Role.WORKER, Role.RELAY)
    )


def test_a_certificate_does_not_outlive_its_authority(authority):
    assert read(issue(authority, Role.PARTY, "bank", days=10, now=NOW)).not_valid_after_utc == NOW + datetime.timedelta(
        10
    )
    late = read(issue(authority, Role.PARTY, "bank", days=1000, now=NOW))
    assert late.not_valid_after_utc == read(authority).not_valid_after_utc


def test_an_expired_authority_issues_nothing(authority):
    with pytest.raises(ValueError, match="the authority expired on 2026-04-11"):
        issue(authority, Role.PARTY, "bank", days=1, now=NOW + datetime.timedelta(days=101))


def test_the_key_of_another_authority_is_noticed(authority):
    other = create_authority("acme", days=100, now=NOW)
    with pytest.raises(ValueError, match="does not belong to its certificate"):
        issue(KeyPair(authority.certificate_pem, other.key_pem), Role.PARTY, "bank", days=1, now=NOW)


def test_many_members_get_one_key_each(authority):
    members = [(Role.PARTY, "bank"), (Role.DEVICE, "bank"), (Role.ANALYST, "ann")]
    issued = issue_all(authority, members, days=1, now=NOW)
    assert [(identity_of(read(pair)).role, identity_of(read(pair)).name) for pair in issued.values()] == members
    assert len({pair.key_pem for pair in issued.values()}) == 3


def test_a_member_named_twice_is_refused(authority):
    with pytest.raises(ValueError, match="party/bank is named twice"):
        issue_all(authority, [(Role.PARTY, "bank"), (Role.PARTY, "bank")], days=1, now=NOW)


@pytest.mark.parametrize("name", ["Bank", "", "../bank", "a.b"])
def test_bad_names_are_refused(authority, name):
    with pytest.raises(ValueError, match="name"):
        issue(authority, Role.PARTY, name, days=1, now=NOW)
    with pytest.raises(ValueError, match="federation name"):
        create_authority(name, days=1, now=NOW)


def test_a_validity_of_no_days_is_refused():
    with pytest.raises(ValueError, match="at least one day"):
        create_authority("acme", days=0, now=NOW)


def test_no_key_is_shown_by_repr(authority):
    assert "PRIVATE" in authority.key_pem.decode()
    assert "PRIVATE" not in repr(authority)
