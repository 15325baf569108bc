import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from service.errors import UnauthenticatedError
from service.identity import Identity, Role, identity_of

BANK = Identity("acme", Role.PARTY, "bank")


def certificate(*uris: str) -> x509.Certificate:
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    name = x509.Name([])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1))
    if uris:
        names = [x509.UniformResourceIdentifier(uri) for uri in uris]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(key, hashes.SHA256())


def test_an_identity_is_its_uri_and_back():
    assert BANK.uri == str(BANK) == "spiffe://acme/party/bank"
    assert Identity.from_uri(BANK.uri) == BANK


def test_each_identity_has_its_own_dns_name():
    assert BANK.dns_name == "bank.party.acme.moiety.internal"
    names = {Identity("acme", role, "bank").dns_name for role in Role} | {Identity("bank", Role.PARTY, "acme").dns_name}
    assert len(names) == len(Role) + 1


@pytest.mark.parametrize(
    "uri",
    [
        "spiffe://acme/party",
        "spiffe://acme/party/bank/teller",
        "spiffe://acme/party/bank\n",
        "spiffe://acme/party/Bank",
        "spiffe://acme/party/-bank",
        "spiffe://acme/party/" + "b" * 64,
        "spiffe://acme.org/party/bank",
        "spiffe:///party/bank",
        "https://acme/party/bank",
        "spiffe://acme/king/bank",
        "spiffe://acme/party/bank?x",
        "",
    ],
)
def test_anything_else_is_not_an_identity(uri):
    with pytest.raises(ValueError, match=r"name|form|role"):
        Identity.from_uri(uri)


def test_a_name_may_have_63_characters_and_no_more():
    assert Identity("acme", Role.DEVICE, "b" * 63).name
    with pytest.raises(ValueError, match="1 to 63"):
        Identity("acme", Role.DEVICE, "b" * 64)


def test_the_identity_of_a_certificate_is_its_uri():
    assert identity_of(certificate(BANK.uri)) == BANK


@pytest.mark.parametrize(("uris", "n"), [((), 0), ((BANK.uri, BANK.uri), 2), ((BANK.uri, "https://acme/"), 2)])
def test_a_certificate_with_no_or_several_uris_is_refused(uris, n):
    with pytest.raises(UnauthenticatedError, match=f"exactly one identity URI; this one states {n}"):
        identity_of(certificate(*uris))


def test_a_certificate_with_another_kind_of_uri_is_refused():
    with pytest.raises(UnauthenticatedError, match="not valid"):
        identity_of(certificate("https://acme/"))
