"""Certificates that TLS takes and a federation must not, on both ends of real connections."""

import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from service.authorization import Permissions
from service.errors import UnauthenticatedError
from service.identity import Identity, Role
from service.pki import create_authority, issue
from service.server import Server
from service.tls import Credentials, CredentialsError, load_credentials
from transport.calls import channel as channels
from transport.calls.channel import check_certificate, open_channel
from transport.calls.way import wait_until_reachable

NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)
BANK, TELCO = Identity("acme", Role.PARTY, "bank"), Identity("acme", Role.PARTY, "telco")
BOTH = (ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH)
PEM = serialization.Encoding.PEM


def strong_key():
    return ec.generate_private_key(ec.SECP256R1())


def name(common_name) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def usage(*, signs=False, certifies=False) -> x509.KeyUsage:
    return x509.KeyUsage(signs, False, False, False, False, certifies, certifies, False, False)


def certificate(subject, key, issuer, issuer_key, *, key_usage, purposes=(), path_length=None, identity=None, ca=False):
    """A certificate as some other tool than ours might issue it."""
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(NOW - DAY).not_valid_after(NOW + DAY)
    if ca is not None:
        builder = builder.add_extension(x509.BasicConstraints(ca, path_length), critical=True)
    if key_usage is not None:
        builder = builder.add_extension(key_usage, critical=True)
    if purposes:
        builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
    if identity is not None:
        names = [x509.UniformResourceIdentifier(identity.uri), x509.DNSName(identity.dns_name)]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def key_pem(key) -> bytes:
    return key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


class Acme:
    """An authority that also signs what it should not, and a good member."""

    def __init__(self) -> None:
        self.pair = create_authority("acme", days=2, now=NOW)
        self.certificate = x509.load_pem_x509_certificate(self.pair.certificate_pem)
        self.key = serialization.load_pem_private_key(self.pair.key_pem, password=None)
        good = issue(self.pair, Role.PARTY, "bank", days=1, now=NOW)
        self.bank = Credentials(BANK, self.pair.certificate_pem, good.certificate_pem, good.key_pem, NOW + DAY)

    def telco(self, *, key=None, key_usage=usage(signs=True), purposes=BOTH, ca=False, shows_authority=False):  # noqa: B008
        key = key or strong_key()
        own = certificate(
            name("t"),
            key,
            self.certificate.subject,
            self.key,
            key_usage=key_usage,
            purposes=purposes,
            identity=TELCO,
            ca=ca,
        )
        chain = own.public_bytes(PEM) + (self.pair.certificate_pem if shows_authority else b"")
        return Credentials(TELCO, self.pair.certificate_pem, chain, key_pem(key), NOW + DAY)

    def telco_by_another(self) -> Credentials:
        """Telco's name, issued by an authority that ours has signed for somebody."""
        between_key, key = strong_key(), strong_key()
        between = certificate(
            name("a branch"),
            between_key,
            self.certificate.subject,
            self.key,
            key_usage=usage(certifies=True),
            path_length=0,
            ca=True,
        )
        own = certificate(
            name("t"), key, between.subject, between_key, key_usage=usage(signs=True), purposes=BOTH, identity=TELCO
        )
        chain = own.public_bytes(PEM) + between.public_bytes(PEM)
        return Credentials(TELCO, self.pair.certificate_pem, chain, key_pem(key), NOW + DAY)


BAD = {
    "another authority": (Acme.telco_by_another, "another authority signed it"),
    "no key usage": (lambda acme: acme.telco(key_usage=None), "key usage"),
    "key usage of an authority": (lambda acme: acme.telco(key_usage=usage(signs=True, certifies=True)), "key usage"),
    "no extended key usage": (lambda acme: acme.telco(purposes=()), "extended key usage"),
    "no basic constraints": (lambda acme: acme.telco(ca=None), "basic constraints"),
    "RSA of 1024 bits": (lambda acme: acme.telco(key=rsa.generate_private_key(65537, 1024)), "too weak"),
    "RSA of 2048 bits": (lambda acme: acme.telco(key=rsa.generate_private_key(65537, 2048)), "too weak"),
}


async def reach(server_credentials, client_credentials):
    """Let a client look at the health of a server over TLS on loopback."""
    server = Server(server_credentials, Permissions("acme", {}), [])
    port = await server.start("127.0.0.1:0")
    channel = open_channel(f"127.0.0.1:{port}", server_credentials.identity, client_credentials)
    try:
        await wait_until_reachable(channel, peer=server_credentials.identity.name, address="there", deadline_s=60.0)
        return await check_certificate(channel)
    finally:
        await channel.close()
        await server.stop(0)


@pytest.fixture(scope="module")
def acme():
    return Acme()


@pytest.mark.parametrize(("bad", "words"), BAD.values(), ids=BAD)
async def test_a_caller_with_such_a_certificate_is_refused(acme, bad, words):
    with pytest.raises(UnauthenticatedError, match=words):
        await reach(acme.bank, bad(acme))


@pytest.mark.parametrize(("bad", "words"), BAD.values(), ids=BAD)
async def test_a_server_with_such_a_certificate_is_refused(acme, bad, words):
    with pytest.raises(UnauthenticatedError, match=words):
        await reach(bad(acme), acme.bank)


@pytest.mark.parametrize(("bad", "words"), BAD.values(), ids=BAD)
def test_a_service_with_such_a_certificate_does_not_start(acme, tmp_path, bad, words):
    credentials = bad(acme)
    for file, content in (
        ("ca.pem", credentials.authority_pem),
        ("own.pem", credentials.certificate_pem),
        ("own.key", credentials.key_pem),
    ):
        (tmp_path / file).touch(mode=0o600)
        (tmp_path / file).write_bytes(content)
    with pytest.raises(CredentialsError, match=rf"{words}|holds 2 certificates"):
        load_credentials(authority=tmp_path / "ca.pem", certificate=tmp_path / "own.pem", key=tmp_path / "own.key")


@pytest.mark.parametrize("shows_authority", [False, True])
@pytest.mark.parametrize("make_key", [strong_key, lambda: rsa.generate_private_key(65537, 3072)], ids=["P-256", "RSA"])
async def test_good_certificates_of_other_tools_are_taken_on_both_sides(acme, make_key, shows_authority):
    telco = acme.telco(key=make_key(), shows_authority=shows_authority)
    assert await reach(acme.bank, telco)
    assert await reach(telco, acme.bank)


async def test_an_accepted_certificate_is_remembered_for_a_while_and_a_refused_one_is_not(acme, monkeypatch):
    looked, look = [], channels._certificate_at

    async def counted(*arguments):
        looked.append(arguments[1].name)
        return await look(*arguments)

    monkeypatch.setattr(channels, "_certificate_at", counted)
    for credentials, remembered_s, n_looks in ((acme.telco(), 1e9, 1), (acme.telco(), 0.0, 2)):
        monkeypatch.setattr(channels, "REMEMBERED_S", remembered_s)
        looked.clear()
        assert await reach(credentials, acme.bank)  # looks once until it is reached, and once more
        assert len(looked) == n_looks
    weak, _ = BAD["RSA of 2048 bits"]
    server = Server(weak(acme), Permissions("acme", {}), [])
    channel = open_channel(f"127.0.0.1:{await server.start('127.0.0.1:0')}", TELCO, acme.bank)
    looked.clear()
    try:
        for _ in range(2):
            with pytest.raises(UnauthenticatedError, match="too weak"):
                await check_certificate(channel)
    finally:
        await channel.close()
        await server.stop(0)
    assert len(looked) == 2


def test_an_authority_that_may_not_sign_is_refused(acme, tmp_path):
    key = strong_key()
    weak = certificate(name("x"), key, name("x"), key, key_usage=usage(signs=True), ca=True)
    own_key = strong_key()
    own = certificate(name("t"), own_key, weak.subject, key, key_usage=usage(signs=True), purposes=BOTH, identity=TELCO)
    (tmp_path / "ca.pem").write_bytes(weak.public_bytes(PEM))
    (tmp_path / "own.pem").write_bytes(own.public_bytes(PEM))
    (tmp_path / "own.key").touch(mode=0o600)
    (tmp_path / "own.key").write_bytes(key_pem(own_key))
    with pytest.raises(CredentialsError, match="does not allow it to sign certificates"):
        load_credentials(authority=tmp_path / "ca.pem", certificate=tmp_path / "own.pem", key=tmp_path / "own.key")
