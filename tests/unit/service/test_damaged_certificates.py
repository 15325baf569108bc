"""Damaged certificates, keys, requests and lists end in the errors that their readers foresee."""

import base64
import datetime
import random
from types import SimpleNamespace

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from cli.federation.pki import PkiError
from cli.federation.revoke import _serial_in
from service.errors import ServiceError, UnauthenticatedError
from service.identity import Identity, Role, peer_certificate
from service.pki import KeyPair, create_authority, federation_of, issue, read_pair
from service.signing_request import certify_request, create_request, read_request
from service.tls import CredentialsError, load_credentials
from service.trust.revocation import create_list, read_list
from service.trust.statements import Signed, StatementCheck, sign

NOW = datetime.datetime.now(datetime.UTC)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return what the readers read, undamaged."""
    authority = create_authority("acme", days=100, now=NOW)
    bank = issue(authority, Role.PARTY, "bank", days=10, now=NOW)
    folder = tmp_path_factory.mktemp("pki")
    files = {"authority": authority.certificate_pem, "certificate": bank.certificate_pem, "key": bank.key_pem}
    for name, pem in files.items():
        (folder / name).write_bytes(pem)
        (folder / name).chmod(0o600)
    return SimpleNamespace(
        authority=authority,
        trusted=read_pair(authority)[0],
        folder=folder,
        pems=files,
        revoked=create_list(authority, [7, 8], days=10, now=NOW),
        request=create_request(Identity("acme", Role.PARTY, "bank")).certificate_pem,
        credentials=load_credentials(**{name: folder / name for name in files}),
    )


def damaged(rng, pem):
    """Return PEM whose content has some bytes changed, left out, doubled or cut off."""
    head, *lines, foot = pem.decode().strip().splitlines()
    der = bytearray(base64.b64decode("".join(lines)))
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        at = rng.randrange(len(der))
        match rng.randrange(6):
            case 0:
                der[at] ^= 1 << rng.randrange(8)
            case 1:
                der[at] = rng.randrange(256)
            case 2:
                del der[at]
            case 3:
                der[at:at] = bytes([rng.randrange(256)])
            case 4:
                der[at:] = der[at : at + rng.randrange(len(der))] or b"\0"
            case _:
                other = rng.randrange(len(der))
                der[at : at + 8] = der[other : other + 8]
    return f"{head}\n{base64.encodebytes(bytes(der)).decode()}{foot}\n".encode()


def read_files(place, which, pem):
    path = place.folder / f"damaged-{which}"
    path.write_bytes(pem)
    path.chmod(0o600)
    paths = {name: place.folder / name for name in place.pems} | {which: path}
    load_credentials(**paths)


def read_context(place, name):
    def read(pem):
        peer_certificate(SimpleNamespace(auth_context=lambda: {name: [pem], **other}))

    other = {} if name == "x509_pem_cert" else {"x509_pem_cert": [place.pems["certificate"]]}
    return read


def readers(place):
    """Return by name: what is damaged, who reads it, and the errors that it foresees."""
    statement = sign(place.credentials, b"label: x")

    def signer(pem):
        der = base64.b64decode(b"".join(pem.strip().splitlines()[1:-1]))
        StatementCheck(place.credentials).signer(Signed(der, statement.signature), b"label: x", Role.PARTY)

    def serial(pem):
        path = place.folder / "to-revoke"
        path.write_bytes(pem)
        _serial_in(path, place.trusted)

    def certified(pem):
        certify_request(KeyPair(pem, place.authority.key_pem), read_request(place.request), days=3, now=NOW)

    member = place.pems["certificate"]
    return {
        "request": (place.request, read_request, ValueError),
        "revocation list": (place.revoked, lambda pem: read_list(pem, place.trusted, NOW), ValueError),
        "authority that signs": (place.authority.certificate_pem, certified, ValueError),
        "key that signs": (
            place.authority.key_pem,
            lambda pem: federation_of(read_pair(KeyPair(place.authority.certificate_pem, pem))[0]),
            ValueError,
        ),
        "certificate to revoke": (member, serial, PkiError),
        **{
            f"own {which}": (pem, lambda pem, which=which: read_files(place, which, pem), CredentialsError)
            for which, pem in place.pems.items()
        },
        "caller": (member, read_context(place, "x509_pem_cert"), UnauthenticatedError),
        "shown beside the caller": (place.pems["authority"], read_context(place, "x509_pem_cert_chain"), ServiceError),
        "statement": (member, signer, UnauthenticatedError),
    }


NAMES = (
    "request",
    "revocation list",
    "authority that signs",
    "key that signs",
    "certificate to revoke",
    "own authority",
    "own certificate",
    "own key",
    "caller",
    "shown beside the caller",
    "statement",
)


def read_damaged(place, name, n, seed):
    """Let a reader read so many damaged texts; return how many it refused. Any other error is raised."""
    pem, read, foreseen = readers(place)[name]
    rng, n_refused = random.Random(f"{name} {seed}"), 0
    read(pem)
    for _ in range(n):
        text = damaged(rng, pem)
        try:
            read(text)
        except foreseen:
            n_refused += 1
        except BaseException as error:
            raise AssertionError(f"{type(error).__name__}: {error}, of {text!r}") from error
    return n_refused


@pytest.mark.parametrize("name", NAMES)
def test_what_is_damaged_is_refused_as_foreseen(place, name):
    assert read_damaged(place, name, 250, "quick") > 100


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_what_is_damaged_in_thousands_of_ways_is_refused_as_foreseen(place, name):
    assert read_damaged(place, name, 2_500, "slow") > 1_250


def test_all_readers_are_damaged(place):
    assert set(readers(place)) == set(NAMES)


def test_a_request_of_a_later_version_of_the_standard_is_refused(place):
    der = bytearray(x509.load_pem_x509_csr(place.request).public_bytes(Encoding.DER))
    at = bytes(der).index(b"\x02\x01\x00")  # the version, 0
    der[at + 2] = 7
    text = base64.encodebytes(bytes(der)).decode()
    pem = f"-----BEGIN CERTIFICATE REQUEST-----\n{text}-----END CERTIFICATE REQUEST-----\n"
    with pytest.raises(ValueError, match="not a signing request"):
        read_request(pem.encode())
